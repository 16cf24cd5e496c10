"""What the two-level chain kernels share in a call: buffers, grids and constants. Nothing here looks at a value."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from specdec_kernels.verify_batch import KernelVerdict, VerifyBatch, noise_tensors


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """Tile sizes: `stats_block` and `race_block` tokens a program, `rows` requests a program.

    Raises:
        ValueError: a size that is no power of two, or a `race_block` below 4.
    """

    stats_block: int = 4096
    race_block: int = 1024
    rows: int = 1

    def __post_init__(self) -> None:
        # a program draws four words of noise at a time
        for name, least in (("stats_block", 1), ("race_block", 4), ("rows", 1)):
            size = getattr(self, name)
            if not isinstance(size, int) or size < least or size & (size - 1):
                raise ValueError(f"{name} is {size}; expected a power of two, at least {least}")


@dataclass(frozen=True, slots=True, eq=False)
class Reads:
    """What the kernels read of the logits, counted by themselves; for tests and `KernelTrace`.

    Attributes:
        target, draft: laid out as the logits: how often each element was read, or, with `by_program`, the number of
            the program that read it last: first id * programs on the second axis + second id + 1.
        by_program: which of the two.
    """

    target: Tensor
    draft: Tensor | None
    by_program: bool = False

    @classmethod
    def of(cls, batch: VerifyBatch, *, by_program: bool = False) -> "Reads":
        """Counters at 0, with the strides of the batch's tensors."""
        draft = batch.draft_logits if batch.draft_logits is not None else batch.draft_probs
        return cls(_counters(batch.target_logits), None if draft is None else _counters(draft), by_program)


Watch = Callable[[Any, str, tuple[int, ...], Mapping[str, Any]], None]
"""Called after each launch with (the call, the kernel's name, the grid, the constants)."""


def _counters(scores: Tensor) -> Tensor:
    room = torch.zeros(max(1, scores.shape[0]) * scores.stride(0), dtype=torch.int32, device=scores.device)
    return room.as_strided(scores.shape, scores.stride())


def check_counting(reads: Reads | None, watch: Watch | None, version: int, *, last: int) -> None:
    """ValueError when an earlier version is asked to count or to be watched."""
    for name, given in (("reads", reads), ("watch", watch)):
        if given is not None and version != last:
            raise ValueError(f"{name} is given for version {version}; expected it with version {last}, which counts")


def takes_triton(device: torch.device) -> bool:
    """Whether the kernels run there: a CUDA device and an installed Triton."""
    return device.type == "cuda" and find_spec("triton") is not None


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """Starts a kernel. Its launcher adds options (`num_warps`) that its signature does not show."""
    kernel[grid](*arguments, **options)


class Launcher:
    """Starts kernels. `reads` counts what they read of the logits, `watch` is told of each launch."""

    def __init__(self, reads: Reads | None, watch: Watch | None) -> None:
        self.reads, self.watch = reads, watch

    @property
    def counting(self) -> int:
        """COUNT_READS of every kernel."""
        return 0 if self.reads is None else 2 if self.reads.by_program else 1

    @property
    def counts(self) -> tuple[Tensor | None, Tensor | None]:
        """Counters of the target and the draft, None when nobody counts."""
        return (None, None) if self.reads is None else (self.reads.target, self.reads.draft)

    def launch(self, kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
        """Starts a kernel and tells `watch`."""
        launch(kernel, grid, *arguments, **options)
        if self.watch is not None:
            self.watch(self, kernel.fn.__name__, grid, options)


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """Launches inside go to `device`, not to the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def packed(batch: VerifyBatch, most: int = 1 << 15) -> LaunchConfig:
    """Tiles that hold whole rows of a small vocabulary and as many requests as fit into `most` elements."""
    block = max(4, power_of_two(batch.vocab))
    if block > 1024:
        return LaunchConfig()
    rows = max(1, most // (block * power_of_two(batch.slots)))
    return LaunchConfig(block, block, min(rows, power_of_two(max(1, batch.num_requests))))


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below `number`."""
    return 1 << max(0, number - 1).bit_length()


class TwoLevel(Launcher):
    """One call: its buffers and the arguments that its kernels share."""

    def __init__(
        self,
        batch: VerifyBatch,
        out: KernelVerdict | None,
        config: LaunchConfig,
        reads: Reads | None = None,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(reads, watch)
        requests, slots, device = batch.num_requests, batch.slots, batch.device
        self.batch, self.config = batch, config
        self.out = KernelVerdict.empty(requests, slots, device) if out is None else out
        self.out.check(requests, slots, device)
        self.stats_blocks = -(-batch.vocab // config.stats_block)
        self.race_blocks = -(-batch.vocab // config.race_block)
        draft = batch.draft_logits if batch.draft_logits is not None else batch.draft_probs
        self.mode = 0 if draft is None else 1 if batch.draft_logits is not None else 2
        self.draft = batch.target_logits if draft is None else draft
        floats = torch.empty(4, requests * slots, self.stats_blocks, dtype=torch.float32, device=device)
        self.target_max, self.target_sum, self.draft_max, self.draft_sum = floats
        self.target_arg = torch.empty(requests * slots, self.stats_blocks, dtype=torch.int32, device=device)
        self.target_at_token, self.draft_at_token = torch.empty(2, requests * slots, dtype=torch.float32, device=device)
        self.plan_ints = torch.empty(requests, 3, dtype=torch.int32, device=device)
        self.plan_floats = torch.empty(requests, 5, dtype=torch.float32, device=device)
        self.scores = torch.empty(2, requests, self.race_blocks, dtype=torch.float32, device=device)
        self.winners = torch.empty(2, requests, self.race_blocks, dtype=torch.int32, device=device)
        self.is_given, self.keys, self.uniforms, self.exponentials = noise_tensors(batch)

    @property
    def programs(self) -> int:
        """Programs of a kernel that owns `rows` requests."""
        return -(-self.batch.num_requests // self.config.rows)

    @property
    def decision_warps(self) -> int:
        """One warp for what fits its registers."""
        return max(
            1, min(8, self.config.rows * power_of_two(self.batch.slots) * power_of_two(self.stats_blocks) // 256)
        )

    def stats(self) -> None:
        """First level of every row."""
        from specdec_kernels.row_stats_triton import local_stats_kernel

        batch, config = self.batch, self.config
        grid = (-(-batch.num_requests * batch.slots // config.rows), self.stats_blocks)
        self.launch(local_stats_kernel, grid,
            batch.target_logits, self.draft, batch.draft_tokens, batch.cu_num_draft, batch.temperature,
            self.target_max, self.target_sum, self.target_arg, self.draft_max, self.draft_sum,
            self.target_at_token, self.draft_at_token, *self.counts,
            batch.target_logits.stride(0), self.draft.stride(0), batch.num_requests, batch.slots, batch.vocab,
            self.stats_blocks, DRAFT=self.mode, COUNT_READS=self.counting, ROWS=config.rows,
            SLOTS=power_of_two(batch.slots), BLOCK=config.stats_block, num_warps=8 if config.stats_block >= 4096 else 4,
        )  # fmt: skip

    def decision_arguments(self) -> dict[str, Any]:
        """What every decision kernel takes."""
        batch = self.batch
        return {
            "draft_ptr": self.draft, "draft_tokens_ptr": batch.draft_tokens, "cu_num_draft_ptr": batch.cu_num_draft,
            "temperature_ptr": batch.temperature, "target_max_ptr": self.target_max,
            "target_sum_ptr": self.target_sum, "target_arg_ptr": self.target_arg, "draft_max_ptr": self.draft_max,
            "draft_sum_ptr": self.draft_sum, "target_at_token_ptr": self.target_at_token,
            "draft_at_token_ptr": self.draft_at_token, "draft_reads_ptr": self.counts[1], "keys_ptr": self.keys,
            "uniforms_ptr": self.uniforms, "plan_ints_ptr": self.plan_ints, "plan_floats_ptr": self.plan_floats,
            "num_accepted_ptr": self.out.num_accepted, "is_bonus_ptr": self.out.is_bonus,
            "emitted_ptr": self.out.emitted, "draft_stride": self.draft.stride(0),
            "num_requests": batch.num_requests, "slots": batch.slots, "vocab": batch.vocab,
            "num_blocks": self.stats_blocks, "DRAFT": self.mode, "GIVEN": self.is_given,
            "COUNT_READS": self.counting, "SLOTS": power_of_two(batch.slots),
            "BLOCKS": power_of_two(self.stats_blocks),
        }  # fmt: skip

    def walk(self, kernel: Any) -> KernelVerdict:
        """The verdicts of a version 1 kernel, one program a request."""
        batch, out = self.batch, self.out
        self.launch(kernel, (batch.num_requests,),
            batch.target_logits, self.draft, batch.draft_tokens, batch.cu_num_draft, batch.temperature, self.keys,
            self.uniforms, self.exponentials, out.num_accepted, out.is_bonus, out.next_token, out.emitted,
            batch.target_logits.stride(0), self.draft.stride(0), batch.slots, batch.vocab,
            DRAFT=self.mode, GIVEN=self.is_given, BLOCK=min(1024, self.config.race_block), num_warps=4,
        )  # fmt: skip
        return out

    def race(self) -> KernelVerdict:
        """The draw that the plan asks for, and the verdicts."""
        from specdec_kernels.race_triton import finish_kernel, race_kernel

        batch, config = self.batch, self.config
        self.launch(race_kernel, (self.programs, self.race_blocks),
            batch.target_logits, self.draft, batch.cu_num_draft, batch.temperature, *self.counts, self.keys,
            self.exponentials, self.plan_ints, self.plan_floats, self.scores, self.winners,
            batch.target_logits.stride(0), self.draft.stride(0), batch.num_requests, batch.vocab, self.race_blocks,
            DRAFT=self.mode, GIVEN=self.is_given, COUNT_READS=self.counting, ROWS=config.rows,
            BLOCK=config.race_block, num_warps=4,
        )  # fmt: skip
        self.launch(finish_kernel, (self.programs,),
            self.plan_ints, self.scores, self.winners, self.out.next_token, self.out.emitted, batch.num_requests,
            batch.slots, self.race_blocks, ROWS=config.rows, BLOCKS=power_of_two(self.race_blocks), num_warps=1,
        )  # fmt: skip
        return self.out
