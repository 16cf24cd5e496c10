"""What `specdec bench rules` times: batched rules, a plain read of the laws, and the loop that tutorials teach."""

from dataclasses import dataclass

from jaxtyping import Float, Float64, Int64
import torch
from torch import Tensor

from specdec_core.rules.batched import PhiloxBatchCoins, ScriptedBatchCoins, verify_chain_batch
from specdec_core.rules.batched.verdict import BatchVerdict


@dataclass(frozen=True, slots=True, eq=False)
class Laws:
    """A batch of chains of the same length K, with the laws of its drafts and of the target."""

    draft_tokens: Int64[Tensor, " slots"]
    cu_num_draft: Int64[Tensor, " batch+1"]
    draft_probs: Float[Tensor, "slots vocab"]
    target_probs: Float[Tensor, "slots+batch vocab"]

    @property
    def batch(self) -> int:
        """The number of requests."""
        return len(self.cu_num_draft) - 1

    @property
    def drafted(self) -> int:
        """K."""
        return len(self.draft_tokens) // self.batch

    @property
    def bytes(self) -> int:
        """Bytes of both laws."""
        return self.draft_probs.nbytes + self.target_probs.nbytes

    def read(self) -> None:
        """One read of p and q: their sums."""
        self.target_probs.sum()
        self.draft_probs.sum()

    def verify(self, coins: ScriptedBatchCoins | PhiloxBatchCoins) -> BatchVerdict:
        """The batched chain rule, without checks."""
        tokens, offsets, q, p = self.draft_tokens, self.cu_num_draft, self.draft_probs, self.target_probs
        return verify_chain_batch(tokens, offsets, q, p, coins, validate=False)


def make_laws(batch: int, drafted: int, vocab: int, *, seed: int) -> Laws:
    """Float32 laws with q near p, and drafts drawn from q; made row by row, so that nothing large is left behind."""
    generator = torch.Generator().manual_seed(seed)
    p, q = torch.empty(batch * (drafted + 1), vocab), torch.empty(batch * drafted, vocab)
    for request in range(batch):
        logits = 2 * torch.randn(drafted + 1, vocab, generator=generator)
        p[request * (drafted + 1) : (request + 1) * (drafted + 1)] = logits.softmax(-1)
        logits += 0.7 * torch.randn(drafted + 1, vocab, generator=generator)
        q[request * drafted : (request + 1) * drafted] = logits[:drafted].softmax(-1)
    tokens = torch.cat([torch.multinomial(row, 1, generator=generator) for row in q])
    return Laws(tokens, drafted * torch.arange(batch + 1), q, p)


def uniforms(laws: Laws, *, seed: int) -> Float64[Tensor, "batch questions"]:
    """K + 1 numbers a request: as many as its round can ask for."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(laws.batch, laws.drafted + 1, dtype=torch.float64, generator=generator)


def keyed(laws: Laws, *, length: int) -> PhiloxBatchCoins:
    """Production coins: one seed, requests 0, 1, ..., one round."""
    return PhiloxBatchCoins([0] * laws.batch, requests=range(laws.batch), lengths=[length] * laws.batch)


def tutorial_loop(laws: Laws, requests: int) -> list[list[int]]:
    """The emitted tokens of the first requests, token by token with torch.rand and torch.multinomial."""
    emitted: list[list[int]] = []
    drafted = laws.drafted
    for request in range(requests):
        tokens = laws.draft_tokens[request * drafted : (request + 1) * drafted]
        q = laws.draft_probs[request * drafted : (request + 1) * drafted]
        p = laws.target_probs[request * (drafted + 1) : (request + 1) * (drafted + 1)]
        kept: list[int] = []
        for i in range(drafted):
            token = tokens[i]
            if torch.rand(1) < torch.clamp(p[i, token] / q[i, token], max=1):
                kept.append(int(token))
            else:
                residual = torch.clamp(p[i] - q[i], min=0)
                kept.append(int(torch.multinomial(residual / residual.sum(), 1)))
                break
        else:
            kept.append(int(torch.multinomial(p[drafted], 1)))
        emitted.append(kept)
    return emitted
