"""What the chain kernels take and give: a ragged batch of drafts with logits, the noise, the verdicts."""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int64
import torch
from torch import Tensor

from specdec_core.warp import GREEDY_BELOW

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
MAX_SLOTS = 128
GREEDY_BELOW_FLOAT32 = torch.tensor(GREEDY_BELOW, dtype=torch.float32).item()
"""`GREEDY_BELOW` as the kernels compare with it: a float32 temperature of 1e-5 is a hair below the float64 one."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyedNoise:
    """Noise that the kernel makes itself, the same as `PhiloxCoins(seed).at(request=..., length=...)`.

    `keys` holds (seed, request, length) of each request: the seed's 64 bits as int64, the sample's index, and the
    number of tokens when the round starts.
    """

    keys: Int64[Tensor, "requests 3"]

    @classmethod
    def of(
        cls,
        seeds: Int64[Tensor, " requests"],
        requests: Int64[Tensor, " requests"],
        lengths: Int64[Tensor, " requests"],
    ) -> "KeyedNoise":
        """The noise of requests from three tensors."""
        return cls(torch.stack((seeds, requests, lengths), dim=1).contiguous())


@dataclass(frozen=True, slots=True, eq=False)
class GivenNoise:
    """Noise from outside: a uniform in [0, 1) for each drafted token, positive exponentials for each request's draw."""

    uniforms: Float[Tensor, " drafts"]
    exponentials: Float[Tensor, "requests vocab"]


@dataclass(frozen=True, slots=True, eq=False)
class VerifyBatch:
    """B requests with K_b drafts each, flat as in `specdec_core.rules.batched`: no padding between requests.

    Shapes are checked here, without looking at values, so making a batch never waits for the GPU; `check_values` does
    wait. p is the softmax of a target row at the request's temperature, and so is q of `draft_logits`; `draft_probs`
    are taken as they are; with neither, the proposal is deterministic (q one-hot). A temperature below 1e-5 is greedy.
    A draft of -1 ends its request's drafts: what follows is not read.

    Attributes:
        target_logits: K_b + 1 rows a request, the first at cu_num_draft[b] + b; rows may lie apart (stride).
        draft_tokens: the drafts of all requests, end to end.
        cu_num_draft: 0, K_0, K_0 + K_1, ...
        temperature: one a request.
        noise: `KeyedNoise` or `GivenNoise`.
        max_draft: the largest K_b that can occur: it fixes the launch, so that a CUDA graph can replay it. A request
            with more is cut to this many.
        draft_logits: a row a draft, or None.
        draft_probs: a row a draft, or None.

    Raises:
        ValueError: a shape, dtype, stride or device that does not fit, by the argument's name.
    """

    target_logits: Float[Tensor, "rows vocab"]
    draft_tokens: Int64[Tensor, " drafts"]
    cu_num_draft: Int64[Tensor, " requests+1"]
    temperature: Float[Tensor, " requests"]
    noise: KeyedNoise | GivenNoise
    max_draft: int
    draft_logits: Float[Tensor, "drafts vocab"] | None = None
    draft_probs: Float[Tensor, "drafts vocab"] | None = None

    def __post_init__(self) -> None:
        if self.cu_num_draft.ndim != 1 or len(self.cu_num_draft) == 0:
            raise ValueError(
                f"cu_num_draft has shape {tuple(self.cu_num_draft.shape)}; expected one dimension: "
                "0, K_0, K_0 + K_1, ..."
            )
        if not isinstance(self.max_draft, int) or not 0 <= self.max_draft < MAX_SLOTS:
            raise ValueError(f"max_draft is {self.max_draft!r}; expected an integer 0..{MAX_SLOTS - 1}")
        if not isinstance(self.noise, (KeyedNoise, GivenNoise)):
            raise ValueError(f"noise is a {type(self.noise).__name__}; expected KeyedNoise or GivenNoise")
        if self.draft_logits is not None and self.draft_probs is not None:
            raise ValueError("draft_logits and draft_probs are both given; expected one of them, or neither")
        drafts, requests = self.num_drafts, self.num_requests
        _check_scores("target_logits", self.target_logits, drafts + requests, None)
        for name in ("draft_logits", "draft_probs"):
            if getattr(self, name) is not None:
                _check_scores(name, getattr(self, name), drafts, self.vocab)
        self._check("draft_tokens", self.draft_tokens, (drafts,), torch.int64)
        self._check("cu_num_draft", self.cu_num_draft, (requests + 1,), torch.int64)
        self._check("temperature", self.temperature, (requests,), torch.float32)
        if isinstance(self.noise, KeyedNoise):
            self._check("noise.keys", self.noise.keys, (requests, 3), torch.int64)
        else:
            self._check("noise.uniforms", self.noise.uniforms, (drafts,), torch.float32)
            self._check("noise.exponentials", self.noise.exponentials, (requests, self.vocab), torch.float32)
        for name in ("draft_logits", "draft_probs"):
            _check_device(name, getattr(self, name), self.device)

    @property
    def num_requests(self) -> int:
        """B."""
        return len(self.cu_num_draft) - 1

    @property
    def num_drafts(self) -> int:
        """Rows of the draft: the sum of all K_b, or more where the tensors are padded for a CUDA graph."""
        return len(self.draft_tokens)

    @property
    def vocab(self) -> int:
        """V."""
        return self.target_logits.shape[1]

    @property
    def slots(self) -> int:
        """Rows of the target a request has at most."""
        return self.max_draft + 1

    @property
    def device(self) -> torch.device:
        """Where everything lies."""
        return self.target_logits.device

    def check_values(self) -> None:
        """ValueError unless offsets, tokens, temperatures, logits and given noise make sense; waits for the device."""
        offsets = self.cu_num_draft.tolist()
        if offsets[0] != 0 or sorted(offsets) != offsets or offsets[-1] > self.num_drafts:
            raise ValueError(
                f"cu_num_draft is {offsets[:9]} for {self.num_drafts} drafts; expected 0, K_0, K_0 + K_1, ..."
            )
        if max((after - before for before, after in zip(offsets, offsets[1:])), default=0) > self.max_draft:
            raise ValueError(f"max_draft is {self.max_draft}, but a request has more drafts: {offsets[:9]}")
        used = self.draft_tokens[: offsets[-1]]
        if bool(((used < -1) | (used >= self.vocab)).any()):
            raise ValueError(f"draft_tokens holds ids outside -1..{self.vocab - 1}: {used.tolist()[:9]}")
        if not bool((self.temperature.isfinite() & (self.temperature >= 0)).all()):
            raise ValueError("temperature holds a negative, infinite or NaN entry; expected at least 0 (0: greedy)")
        _check_rows("target_logits", self.target_logits[: offsets[-1] + self.num_requests])
        if self.draft_logits is not None:
            _check_rows("draft_logits", self.draft_logits[: offsets[-1]])
        if self.draft_probs is not None and not bool((self.draft_probs[: offsets[-1]] >= 0).all()):
            raise ValueError("draft_probs holds a negative or NaN entry; expected the law each draft was drawn from")
        if isinstance(self.noise, KeyedNoise):
            counters = self.noise.keys[:, 1:]
            if not bool(((counters >= 0) & (counters < 1 << 32)).all()):
                raise ValueError("noise.keys holds a sample or a length outside 0..4294967295, what a noise key takes")
        else:
            if not bool(((self.noise.uniforms >= 0) & (self.noise.uniforms < 1)).all()):
                raise ValueError("noise.uniforms holds a number outside [0, 1)")
            if not bool((self.noise.exponentials > 0).all() and self.noise.exponentials.isfinite().all()):
                raise ValueError("noise.exponentials holds a number that is not positive and finite")

    def _check(self, name: str, values: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        if tuple(values.shape) != shape or values.dtype != dtype:
            raise ValueError(
                f"{name} is {values.dtype} of shape {tuple(values.shape)}; expected {dtype} of shape {shape}"
            )
        if not values.is_contiguous():
            raise ValueError(f"{name} has strides {values.stride()}; expected a contiguous tensor")
        _check_device(name, values, self.device)


@dataclass(frozen=True, slots=True, eq=False)
class KernelVerdict:
    """The verdicts of B requests, with the names of `specdec_core.rules.batched`.

    Attributes:
        num_accepted: drafts kept.
        next_token: the token after them.
        emitted: the accepted tokens and `next_token`, then -1.
        is_bonus: true where nothing was refused.
    """

    num_accepted: Int64[Tensor, " requests"]
    next_token: Int64[Tensor, " requests"]
    emitted: Int64[Tensor, "requests slots"]
    is_bonus: Bool[Tensor, " requests"]

    @classmethod
    def empty(cls, requests: int, slots: int, device: torch.device) -> "KernelVerdict":
        """Room for the verdicts; a call writes every place of it, so it can be used again and again."""
        return cls(
            torch.empty(requests, dtype=torch.int64, device=device),
            torch.empty(requests, dtype=torch.int64, device=device),
            torch.empty(requests, slots, dtype=torch.int64, device=device),
            torch.empty(requests, dtype=torch.bool, device=device),
        )

    def check(self, requests: int, slots: int, device: torch.device) -> None:
        """ValueError unless it has room for exactly these verdicts."""
        for name in ("num_accepted", "next_token", "emitted", "is_bonus"):
            values, dtype = getattr(self, name), torch.bool if name == "is_bonus" else torch.int64
            shape = (requests, slots) if name == "emitted" else (requests,)
            if tuple(values.shape) != shape or values.dtype != dtype or not values.is_contiguous():
                raise ValueError(
                    f"out.{name} is {values.dtype} of shape {tuple(values.shape)}; "
                    f"expected contiguous {dtype} of shape {shape}"
                )
            _check_device(f"out.{name}", values, device)


def noise_tensors(batch: VerifyBatch) -> tuple[bool, Tensor, Tensor, Tensor]:
    """(is given, keys, uniforms, exponentials); a kernel reads only those of its mode, the others are any tensor."""
    if isinstance(batch.noise, GivenNoise):
        return True, batch.cu_num_draft, batch.noise.uniforms, batch.noise.exponentials
    return False, batch.noise.keys, batch.temperature, batch.temperature


def _check_scores(name: str, scores: Tensor, rows: int, vocab: int | None) -> None:
    shape = f"[{rows}, {'vocab' if vocab is None else vocab}]"
    wrong_width = scores.ndim == 2 and (scores.shape[1] == 0 or vocab not in (None, scores.shape[1]))
    if scores.ndim != 2 or wrong_width or scores.shape[0] != rows:
        raise ValueError(
            f"{name} has shape {tuple(scores.shape)}; expected {shape}: a row a draft, the target one more a request"
        )
    if scores.dtype not in _FLOATS:
        raise ValueError(f"{name} is {scores.dtype}; expected one of {', '.join(map(str, _FLOATS))}")
    if scores.shape[1] > 1 and scores.stride(1) != 1:
        raise ValueError(f"{name} has strides {scores.stride()}; expected neighbouring tokens side by side (stride 1)")


def _check_device(name: str, values: Tensor | None, device: torch.device) -> None:
    if values is not None and values.device != device:
        raise ValueError(f"{name} lies on {values.device}, target_logits on {device}; move it there first")


def _check_rows(name: str, logits: Tensor) -> None:
    largest = logits.amax(1).to(torch.float32)
    if not bool(largest.isfinite().all()):
        row = int((~largest.isfinite()).nonzero()[0])
        raise ValueError(f"{name} row {row} holds NaN, +inf or nothing but -inf; a law needs finite logits")
