"""The target as a teacher: its states and laws over whole batches, never trained."""

from dataclasses import dataclass

from jaxtyping import Float, Int
import torch
from torch import Tensor, nn
import torch.nn.functional as F

from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.trainable import TrainableLlama
from specdec_labs.train.records import RecordBatch
from specdec_labs.train.settings import matrix_products
from specdec_labs.train.state_cache import StateCache

_ROWS_AT_ONCE = 512


@dataclass(frozen=True, slots=True, eq=False)
class CutLaws:
    """The target's law, seen through a cut vocabulary.

    Attributes:
        inside: log-probabilities over the cut, which sum to less than one by what lies outside.
        renormalised: the same, brought to sum one: what a head over the cut can learn.
        argmax: the cut's id of the target's most probable token, -1 when that lies outside.
    """

    inside: Float[Tensor, "*rows cut"]
    renormalised: Float[Tensor, "*rows cut"]
    argmax: Int[Tensor, "*rows"]


class FrozenTarget:
    """A target, the rows of its head that a cut vocabulary needs, and where they stand.

    `cache` holds the states of records: those of a batch are then read, not worked out.
    """

    def __init__(
        self,
        module: TrainableLlama,
        vocabulary: CutVocabulary,
        *,
        device: torch.device | str = "cpu",
        precision: str = "float32",
    ) -> None:
        """Takes `module` over: its matrices are stored in `precision`, the format its products run in.

        Raises:
            ValueError: the cut is of another vocabulary than the target's.
        """
        if vocabulary.target_size != module.config.vocab_size:
            raise ValueError(
                f"the cut vocabulary is of {vocabulary.target_size} ids, the target has {module.config.vocab_size}"
            )
        self.module = module.to(device).requires_grad_(False).eval()
        self.vocabulary, self.device, self.precision = vocabulary, torch.device(device), precision
        self._embedding = module.model.embed_tokens.weight
        self._index, self._inverse = vocabulary.index.to(device), vocabulary.inverse.to(device)
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        # autocast would round a frozen matrix anew in every pass
        for part in module.modules():
            if isinstance(part, nn.Linear):
                part.to(dtype)
        self._head = self._embedding.to(dtype)
        self._cut_head = self._head[self._index]
        self.cache: StateCache | None = None

    def states(self, tokens: Int[Tensor, "batch rows"]) -> Float[Tensor, "batch rows width"]:
        """The states the head reads."""
        with torch.no_grad(), matrix_products(self.precision, self.device):
            return self.module(tokens.to(self.device)).float()

    def batch_states(self, batch: RecordBatch) -> Float[Tensor, "batch rows width"]:
        """`states` of a batch of records; with a cache, as passes over the whole records gave them.

        Rows behind a record's end mean nothing.
        """
        if self.cache is None:
            return self.states(batch.tokens)
        states = torch.zeros(*batch.tokens.shape, self.module.config.width)
        for place, (record, cut) in enumerate(zip(batch.records, batch.cuts)):
            rows = self.cache.read(record)[cut:]
            states[place, : rows.shape[0]] = rows
        return states.to(self.device)

    def embeddings(self, tokens: Int[Tensor, "batch rows"]) -> Float[Tensor, "batch rows width"]:
        """The embeddings of the tokens."""
        return F.embedding(tokens.to(self.device), self._embedding)

    def cut_logits(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows cut"]:
        """Logits over the cut, in float32; gradients flow to the states."""
        return F.linear(states.to(self._cut_head.dtype), self._cut_head).float()

    def laws(self, states: Float[Tensor, "*rows width"]) -> CutLaws:
        """The law behind every state, exactly: the whole head is read once for the normaliser."""
        rows = states.flatten(0, -2) if states.ndim > 1 else states[None]
        # the whole vocabulary of thousands of rows would be gigabytes
        parts = [self._laws(part) for part in rows.split(_ROWS_AT_ONCE)]
        inside, renormalised, argmax = (torch.cat(found) for found in zip(*parts))
        leading = states.shape[:-1]
        return CutLaws(inside.view(*leading, -1), renormalised.view(*leading, -1), argmax.view(leading))

    def _laws(self, states: Float[Tensor, "rows width"]) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            logits = F.linear(states.to(self._head.dtype), self._head).float()
            cut = logits[..., self._index]
            inside = cut - logits.logsumexp(dim=-1, keepdim=True)
            return inside, cut.log_softmax(dim=-1), self._inverse[logits.argmax(dim=-1)]

    def renormalised(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows cut"]:
        """`laws(states).renormalised` alone, which needs the cut's rows of the head only."""
        with torch.no_grad():
            return self.cut_logits(states).log_softmax(dim=-1)
