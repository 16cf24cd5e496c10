"""Texts made by a kernel, round after round, as an engine makes them; all requests in one call a round."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from specdec_kernels.verify_batch import KernelVerdict, KeyedNoise, VerifyBatch
from specdec_labs.kernel_law.drafting import Drafts, Proposal, propose
from specdec_labs.kernel_law.pair import TEMPERATURE, Contexts, Pair

Kernel = Callable[[VerifyBatch, Tensor], KernelVerdict]
"""(batch, parents of all drafts) -> verdicts; a chain kernel does not look at the parents."""

HORIZON = 6
"""Tokens under test. A round emits at most 4 (three drafts and the token after them), so two at least are needed."""

CHAIN = ((-1, 0, 1),)
TREES = ((-1, -1, 0, 0, 2), (-1, -1, -1, 0, 1))
"""Five nodes each, three deep and three wide; they take turns by the length of the text."""


@dataclass(slots=True)
class Coverage:
    """What has occurred.

    Attributes:
        rounds: kernel verdicts over all texts.
        bonus: those without a refusal.
        kept: how often how many drafts were kept.
        fewest_rounds: of any text.
    """

    rounds: int = 0
    bonus: int = 0
    kept: Counter[int] = field(default_factory=Counter)
    fewest_rounds: int = 0

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        kept = {str(kept): count for kept, count in sorted(self.kept.items())}
        return {"rounds": self.rounds, "bonus": self.bonus, "kept": kept, "fewest_rounds": self.fewest_rounds}


class KernelTexts:
    """A sampler for `certify_callable`: sample i uses the noise of request i."""

    def __init__(self, kernel: Kernel, pair: Pair, proposal: Proposal, shapes: tuple[tuple[int, ...], ...]) -> None:
        self.kernel, self.pair, self.shapes = kernel, pair, shapes
        self.proposal: Proposal = proposal
        self.coverage = Coverage()

    def __call__(self, first: int, count: int) -> list[list[int]]:
        """`count` texts of at least `HORIZON` tokens."""
        texts: list[list[int]] = [[] for _ in range(count)]
        rounds = np.zeros(count, dtype=np.int64)
        while unfinished := [place for place, text in enumerate(texts) if len(text) < HORIZON]:
            # requests of one shape lie together; a kernel must not mind where in the batch a request is
            unfinished.sort(key=lambda place: len(texts[place]) % len(self.shapes))
            self._round(texts, unfinished, first)
            rounds[unfinished] += 1
        fewest = int(rounds.min())
        self.coverage.fewest_rounds = min(fewest, self.coverage.fewest_rounds or fewest)
        return texts

    def _round(self, texts: list[list[int]], mine: list[int], first: int) -> None:
        requests = np.array(mine) + first
        # the number of tokens when the round starts, the one before the text among them
        lengths = np.array([len(texts[place]) + 1 for place in mine])
        parts = []
        for turn, shape in enumerate(self.shapes):
            here = (lengths - 1) % len(self.shapes) == turn
            if here.any():
                contexts = Contexts.of([texts[place] for place, wanted in zip(mine, here) if wanted])
                parts.append(propose(self.pair, contexts, shape, self.proposal, requests[here], lengths[here]))
        drafts = Drafts(*(torch.cat([getattr(part, name) for part in parts]) for name in Drafts.__slots__))
        deterministic = self.proposal == "deterministic"
        batch = batch_of(drafts, requests, lengths, with_laws=not deterministic)
        verdict = self.kernel(batch, drafts.parents.flatten())
        for place, tokens in zip(mine, verdict.emitted.tolist()):
            texts[place].extend(token for token in tokens if token >= 0)
        self.coverage.rounds += len(mine)
        self.coverage.bonus += int(verdict.is_bonus.sum())
        self.coverage.kept.update(verdict.num_accepted.tolist())


def batch_of(drafts: Drafts, requests: np.ndarray, lengths: np.ndarray, *, with_laws: bool) -> VerifyBatch:
    """What a kernel takes; the seed of the noise is 0. Without the draft's laws the drafts are deterministic."""
    count, nodes = drafts.tokens.shape
    keys = np.stack([np.zeros(count, dtype=np.int64), requests, lengths], 1)
    return VerifyBatch(
        target_logits=drafts.target.flatten(0, 1),
        draft_tokens=drafts.tokens.flatten().contiguous(),
        cu_num_draft=torch.arange(count + 1) * nodes,
        temperature=torch.full((count,), TEMPERATURE),
        noise=KeyedNoise(torch.from_numpy(keys)),
        max_draft=nodes,
        draft_logits=drafts.draft.flatten(0, 1) if with_laws else None,
    )
