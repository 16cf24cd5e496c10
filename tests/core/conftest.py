"""What several core tests share: models with memory, random exact laws, watchers, the noise in bulk."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
import math
from typing import Any

from hypothesis import settings
import numpy as np
import pytest
from scipy import stats
import torch
from torch import Tensor

from specdec_core import random_laws
from specdec_core.coins import noise
from specdec_core.coins.philox import philox4x32
from specdec_core.draft import Draft, DraftTree
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead
from specdec_core.models.linear import Linear
from specdec_core.models.llama import Llama, LlamaConfig
from specdec_core.models.llama_load import llama_from_tensors
from specdec_core.models.medusa import MedusaHeads
from specdec_core.models.protocol import ForwardOutput
from specdec_core.models.trainable import TrainableLlama, reader_of
from specdec_core.toy import PrefixModel, TokenCache, one_hot_logits

Prefix = tuple[int, ...]
NextLaw = Callable[[Prefix], list[Fraction]]

# the same examples in every run: a red test stays red
settings.register_profile("core", derandomize=True, database=None, deadline=None, max_examples=50)
settings.load_profile("core")


class _WatchedModel(PrefixModel):
    """A `PrefixModel` that keeps its caches and what each forward was fed: (rows before, tokens)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.caches: list[TokenCache] = []
        self.fed: list[tuple[int, Prefix]] = []

    def new_cache(self, capacity: int) -> TokenCache:
        self.caches.append(super().new_cache(capacity))
        return self.caches[-1]

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        cache: TokenCache,
        last_only: bool = False,
    ) -> ForwardOutput:
        before = len(cache)
        output = super().forward(tokens, positions, mask, cache=cache, last_only=last_only)
        self.fed.append((before, tuple(tokens.tolist())))
        return output


class _FixedDrafter:
    """Proposes `draft_of(tokens, budget)`: a list of tokens (deterministic chain) or a whole `Draft`."""

    name = "fixed"
    max_length: int | None = None
    cache_rows: int | None = None

    def __init__(self, draft_of: Callable[[Sequence[int], int], Any], *, proposal: str = "deterministic") -> None:
        self.proposal: Any = proposal
        self.vocab_size: int | None = None
        self.budgets: list[int] = []
        self.verdicts: list[Any] = []
        self._draft_of = draft_of

    def start(self, capacity: int) -> None:
        self.budgets, self.verdicts = [], []

    def propose(self, context: Any, budget: int, coins: Any, may_continue: Any) -> Draft:
        self.budgets.append(budget)
        draft = self._draft_of(context.tokens, budget)
        return draft if isinstance(draft, Draft) else Draft(DraftTree.chain(draft), None, "deterministic")

    def observe(self, verdict: Any, hidden: Any) -> None:
        self.verdicts.append(verdict)


@pytest.fixture(scope="session")
def watched_model() -> type[_WatchedModel]:
    return _WatchedModel


@pytest.fixture(scope="session")
def fixed_drafter() -> type[_FixedDrafter]:
    return _FixedDrafter


@pytest.fixture(scope="session")
def spoken_model() -> Callable[..., _WatchedModel]:
    """A greedy model from `next_token(prefix)`."""

    def make(vocab: int, next_token: Callable[[Prefix], int], **kwargs: Any) -> _WatchedModel:
        return _WatchedModel(vocab, lambda prefix: one_hot_logits(vocab, next_token(prefix)), **kwargs)

    return make


@pytest.fixture(scope="session")
def random_law() -> Callable[..., NextLaw]:
    """A law with memory: small whole weights that depend on every token of the prefix, zeros included."""
    return random_laws.random_law


@pytest.fixture(scope="session")
def model_of() -> Callable[..., _WatchedModel]:
    """The model whose law at temperature 1 is `law(prefix)`: its logits are the logarithms."""

    def make(law: NextLaw, vocab: int, **kwargs: Any) -> _WatchedModel:
        return _WatchedModel(
            vocab, lambda prefix: [math.log(chance) if chance else -math.inf for chance in law(prefix)], **kwargs
        )

    return make


@pytest.fixture(scope="session")
def chi_square() -> Callable[..., float]:
    """The p-value of counts against an exact law; cells that expect fewer than five are pooled into one."""

    def test(counts: dict[Prefix, int], law: dict[Prefix, Fraction]) -> float:
        assert set(counts) <= set(law), f"impossible outputs: {sorted(set(counts) - set(law))}"
        total = sum(counts.values())
        cells = [(counts.get(tokens, 0), float(chance) * total) for tokens, chance in law.items()]
        small = [cell for cell in cells if cell[1] < 5]
        cells = [cell for cell in cells if cell[1] >= 5]
        if small:
            cells.append((sum(seen for seen, _ in small), sum(expected for _, expected in small)))
        if len(cells) == 1:
            return 1.0
        seen, expected = zip(*cells)
        return float(stats.chisquare(seen, np.array(expected) * (sum(seen) / sum(expected))).pvalue)

    return test


@pytest.fixture
def bulk_noise(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The very same noise, computed for 1,024 requests at a time: large samples become affordable."""
    span = 1024
    blocks: dict[tuple[Any, ...], np.ndarray] = {}

    def bulk(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
        if len(counter) != 1:
            return philox4x32(counter, key)
        token, length, request, word = counter[0].tolist()
        place = (token, length, request // span, word, key)
        if place not in blocks:
            if len(blocks) > 2000:
                blocks.clear()
            many = np.tile(counter, (span, 1))
            many[:, 2] = np.arange(span) + request // span * span
            blocks[place] = philox4x32(many, key)
        return blocks[place][request % span][None]

    monkeypatch.setattr(noise, "philox4x32", bulk)
    yield


@pytest.fixture
def noise_reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Every block of noise that is really computed from here on: (seed, request, length, node, purpose)."""
    reads: list[tuple[Any, ...]] = []
    words = noise.NoiseKey.words

    def recorded(key: noise.NoiseKey, token_ids: np.ndarray) -> np.ndarray:
        reads.append((key.seed, key.request, key.length, key.node, key.purpose))
        return words(key, token_ids)

    monkeypatch.setattr(noise.NoiseKey, "words", recorded)
    return reads


@dataclass(frozen=True, slots=True, eq=False)
class Micro:
    """A Llama of two small layers and drafters that are often right about it, without any training."""

    target: Llama
    draft: Llama
    eagle: EagleHead
    medusa: MedusaHeads
    vocabulary: CutVocabulary
    prompt: tuple[int, ...] = (3, 11, 7, 1)


@pytest.fixture(scope="session")
def micro() -> Micro:
    """The token after x is mostly order[x]: states are near one-hot embeddings, and the head's rows are permuted.

    The layers are random and shift that now and then, so that what a cache holds and where does matter.
    """
    generator = torch.Generator().manual_seed(5)
    vocab, width, heads = 24, 32, 3
    config = LlamaConfig(
        vocab_size=vocab, width=width, ffn_width=40, layers=2, heads=4, kv_heads=2, head_dim=8, max_length=96
    )
    cycle = torch.randperm(vocab, generator=generator)
    order = torch.empty_like(cycle)
    order[cycle] = cycle.roll(-1)
    embedding = torch.eye(vocab, width)
    module = TrainableLlama(config, seed=1)
    eagle = EagleHead(config, ffn_width=40, seed=2)
    medusa = MedusaHeads(heads, width)
    with torch.no_grad():
        for weight in [*module.parameters(), *eagle.layer.parameters()]:
            if weight.ndim > 1:
                weight.normal_(0.0, 0.1, generator=generator)
        module.model.embed_tokens.weight.copy_(embedding)
        eagle.join.weight.copy_(torch.cat((0.02 * torch.eye(width), torch.eye(width)), dim=1))
        ahead = order
        for layer in medusa.layers:
            # the state of x becomes that of the token after next, and so on from head to head
            layer.weight[ahead, torch.arange(vocab)] = 2.0
            ahead = order[ahead]
    tied = llama_from_tensors(config, reader_of(module), tied=True)
    head = torch.empty(vocab, width)
    head[order] = embedding
    target = Llama(config, replace(tied.weights, head=Linear(head)))
    cut = CutVocabulary(tuple(token for token in range(vocab) if token not in (2, 9, 20)), vocab)
    return Micro(target, target.shallow((0,)), eagle.requires_grad_(False), medusa.requires_grad_(False), cut)
