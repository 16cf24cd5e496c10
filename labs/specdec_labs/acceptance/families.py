"""The drafters that are compared on SmolLM2: what each is, how many nodes it may draft, on how many prompts it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from specdec_core.drafters import (
    Drafter,
    DynamicTree,
    EagleDrafter,
    NGramDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
)
from specdec_core.models.cut_head import CutHead
from specdec_core.models.pairs import SMOLLM2_DRAFT_LAYERS
from specdec_core.models.protocol import LanguageModel
from specdec_core.models.quantize import quantized
from specdec_core.models.shipped import (
    SMOLLM2_DRAFT,
    SMOLLM2_EAGLE,
    SMOLLM2_MEDUSA,
    load_eagle_head,
    load_medusa_head,
    load_smollm2_draft,
    read_card,
)
from specdec_core.suffix_automaton import corpus_of
from specdec_labs.acceptance.counters import CountOf, by_eagle, by_medusa, by_model, by_perfect_copy, by_replay
from specdec_labs.acceptance.rank_texts import Choice, medusa_texts
from specdec_labs.acceptance.recordings import Recordings
from specdec_labs.acceptance.trees import medusa_shape

CHAIN, NODES = 4, 16
EXIT_LAYERS = 24
BITS = (8, 4, 3)
SOME = 3
TOP_K, LEVELS = 10, 5
"""EAGLE-2's, chosen on the tuning prompts: top_k 4 gave 1.86 tokens a round there, 8 gave 1.94 and 10 gave 1.95."""

_CORPUS_DEPTH = 16


@dataclass(frozen=True, slots=True)
class Family:
    """One drafter of the comparison.

    Attributes:
        budget: nodes a round at most.
        depth: levels at most.
        deterministic: whether it proposes without a law (q is one-hot).
        every: it runs on every so many prompts of a task; 1 is all of them.
        weights: the shipped weights it uses, whose hashes a result is bound to.
        open: from the recordings to how its rounds on a text are counted.
        settings: what else a result is bound to.
    """

    name: str
    title: str
    budget: int
    depth: int
    deterministic: bool
    open: Callable[[Recordings], CountOf]
    every: int = 1
    weights: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """What its results depend on, besides the texts."""
        hashes = {name: read_card(name)["sha256"] for name in self.weights}
        sizes = {"budget": self.budget, "depth": self.depth, "every": self.every}
        return {"name": self.name, **sizes, **self.settings, "weights": hashes}


def smollm2_families(corpus: Sequence[Sequence[int]]) -> list[Family]:
    """All of them. `corpus` are answers of the target to other prompts; without any, the family that uses it is out."""
    found = [*_model_free(corpus), *_learned(), *_of_the_target()]
    return [family for family in found if corpus or family.name != "suffix-corpus"]


def _model_free(corpus: Sequence[Sequence[int]]) -> list[Family]:
    held = {"corpus": [len(corpus), sum(map(len, corpus))]}
    return [
        Family("ngram", "n-gram lookup, K = 8", 8, 8, True, _free(NGramDrafter, 8)),
        Family("suffix", "suffix automaton, chain of 16", NODES, NODES, True, _free(SuffixDrafter)),
        Family("suffix-tree", "suffix automaton, tree of 16", NODES, NODES, True, _free(SuffixTreeDrafter)),
        Family(
            "suffix-corpus",
            "suffix automaton, tree of 16, corpus",
            NODES,
            NODES,
            True,
            _free(lambda: SuffixTreeDrafter(corpus=corpus_of(corpus, _CORPUS_DEPTH))),
            settings=held,
        ),
        Family("copying", "bound: the best earlier copy, 16", NODES, NODES, True, _perfect_copy),
    ]


def _learned() -> list[Family]:
    draft: dict[str, Any] = {"weights": (SMOLLM2_DRAFT,)}
    eagle: dict[str, Any] = {"weights": (SMOLLM2_EAGLE,)}
    cut = "distilled draft, cut vocabulary, K = 4"
    return [
        Family("draft", "distilled draft, K = 4", CHAIN, CHAIN, False, _model(_draft), **draft),
        Family("draft-cut", cut, CHAIN, CHAIN, False, _model(_cut_draft), **draft),
        Family("medusa", "Medusa, tree of 16", NODES, 4, True, _medusa, weights=(SMOLLM2_MEDUSA,)),
        Family("eagle", "EAGLE, chain of 4", CHAIN, CHAIN, False, _eagle_chain, **eagle),
        Family(
            "eagle-tree", "EAGLE-2, tree of 16", NODES, LEVELS, True, _eagle_tree, settings={"top_k": TOP_K}, **eagle
        ),
    ]


def _of_the_target() -> list[Family]:
    """Drafters as large as the target, or nearly: on fewer prompts, because a pass over a text costs a target pass."""

    def chain(name: str, title: str, load: Callable[[Recordings], LanguageModel], **settings: Any) -> Family:
        return Family(name, f"{title}, K = 4", CHAIN, CHAIN, False, _model(load), every=SOME, settings=settings)

    def lower(recordings: Recordings) -> LanguageModel:
        return recordings.target.shallow(range(EXIT_LAYERS))

    def trunk(recordings: Recordings) -> LanguageModel:
        return recordings.target.shallow(SMOLLM2_DRAFT_LAYERS)

    return [
        chain("early-exit", f"early exit after {EXIT_LAYERS} of 30 layers", lower, layers=EXIT_LAYERS),
        chain("layers", f"{len(SMOLLM2_DRAFT_LAYERS)} chosen of 30 layers", trunk, layers=list(SMOLLM2_DRAFT_LAYERS)),
        *(chain(f"int{bits}", f"the target in int{bits}, groups of 64", partial(_rounded, bits)) for bits in BITS),
    ]


def _free(make: Callable[[], Drafter], budget: int = NODES) -> Callable[[Recordings], CountOf]:
    """A drafter without a model, as deep as its budget."""
    return lambda recordings: by_replay(recordings, make(), budget, budget, reads_states=False)


def _perfect_copy(recordings: Recordings) -> CountOf:
    return by_perfect_copy(recordings, NODES)


def _model(load: Callable[[Recordings], LanguageModel]) -> Callable[[Recordings], CountOf]:
    return lambda recordings: by_model(recordings, load(recordings), CHAIN)


def _draft(recordings: Recordings) -> LanguageModel:
    return load_smollm2_draft(recordings.target)[0]


def _cut_draft(recordings: Recordings) -> LanguageModel:
    return CutHead(*load_smollm2_draft(recordings.target))


def _rounded(bits: int, recordings: Recordings) -> LanguageModel:
    return quantized(recordings.target, bits)


def _medusa(recordings: Recordings) -> CountOf:
    heads, vocabulary = load_medusa_head(recordings.target)
    tuning = medusa_texts(recordings, heads, vocabulary, Choice(tuning=True))
    return by_medusa(recordings, heads, vocabulary, medusa_shape(tuning, NODES))


def _eagle_chain(recordings: Recordings) -> CountOf:
    return by_eagle(recordings, *load_eagle_head(recordings.target), CHAIN)


def _eagle_tree(recordings: Recordings) -> CountOf:
    head, vocabulary = load_eagle_head(recordings.target)
    drafter = EagleDrafter(recordings.target, head, vocabulary, DynamicTree(TOP_K, LEVELS))
    return by_replay(recordings, drafter, NODES, LEVELS, reads_states=True)
