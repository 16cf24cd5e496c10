"""The drafters that are compared on SmolLM2: what each is, how many nodes it may draft, on how many prompts it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from specdec_core.drafters import (
    Drafter,
    DynamicTree,
    EagleDrafter,
    MedusaDrafter,
    ModelDrafter,
    NGramDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
)
from specdec_core.medusa_tree import medusa_spec
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
from specdec_labs.acceptance.rank_texts import Choice, medusa_texts
from specdec_labs.acceptance.recordings import Recordings, text_model
from specdec_labs.acceptance.replay import Replay
from specdec_labs.acceptance.rows import answer_logits
from specdec_labs.acceptance.trees import marginal_accuracies

CHAIN, NODES = 4, 16
EXIT_LAYERS = 24
BITS = (8, 4, 3)
SOME = 3
_LEVELS, _CORPUS_DEPTH = 5, 16

CaseOf = Callable[[int], Replay]
"""Index of a text -> the drafter to replay on it."""


@dataclass(frozen=True, slots=True)
class Family:
    """One drafter of the comparison.

    Attributes:
        budget: nodes a round at most.
        depth: levels at most.
        deterministic: whether it proposes without a law (q is one-hot).
        reads_states: whether it needs the target's states.
        every: it runs on every so many prompts of a task; 1 is all of them.
        weights: the shipped weights it uses, whose hashes a result is bound to.
        open: from the recordings to its cases.
        settings: what else a result is bound to.
    """

    name: str
    title: str
    budget: int
    depth: int
    deterministic: bool
    open: Callable[[Recordings], CaseOf]
    reads_states: bool = False
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
        Family("ngram", "n-gram lookup, K = 8", 8, 8, True, _fixed(NGramDrafter, 8, 8)),
        Family("suffix", "suffix automaton, chain of 16", NODES, NODES, True, _fixed(SuffixDrafter, NODES, NODES)),
        Family(
            "suffix-tree", "suffix automaton, tree of 16", NODES, NODES, True, _fixed(SuffixTreeDrafter, NODES, NODES)
        ),
        Family(
            "suffix-corpus",
            "the same with a corpus of the target's answers",
            NODES,
            NODES,
            True,
            _fixed(lambda: SuffixTreeDrafter(corpus=corpus_of(corpus, _CORPUS_DEPTH)), NODES, NODES),
            settings=held,
        ),
    ]


def _learned() -> list[Family]:
    draft: dict[str, Any] = {"weights": (SMOLLM2_DRAFT,)}
    eagle: dict[str, Any] = {"weights": (SMOLLM2_EAGLE,), "reads_states": True}
    cut = "distilled draft, cut vocabulary, K = 4"
    return [
        Family("draft", "distilled draft, K = 4", CHAIN, CHAIN, False, _model(_draft), **draft),
        Family("draft-cut", cut, CHAIN, CHAIN, False, _model(_cut_draft), **draft),
        Family("medusa", "Medusa, tree of 16", NODES, 4, True, _medusa, weights=(SMOLLM2_MEDUSA,), reads_states=True),
        Family("eagle", "EAGLE, chain of 4", CHAIN, CHAIN, False, _eagle_chain, **eagle),
        Family("eagle-tree", "EAGLE-2, tree of 16", NODES, _LEVELS, True, _eagle_tree, **eagle),
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


def _fixed(make: Callable[[], Drafter], budget: int, depth: int) -> Callable[[Recordings], CaseOf]:
    """The same drafter on every text."""

    def open_(recordings: Recordings) -> CaseOf:
        case = Replay(make(), budget, depth)
        return lambda index: case

    return open_


def _model(load: Callable[[Recordings], LanguageModel]) -> Callable[[Recordings], CaseOf]:
    """A model as drafter: its laws depend on the text alone, so one pass over the text has them all."""

    def open_(recordings: Recordings) -> CaseOf:
        model = load(recordings)

        def case(index: int) -> Replay:
            text = recordings.texts[index]
            logits = answer_logits(model, text.tokens, text.prompt_length)
            return Replay(ModelDrafter(text_model(text, logits, model.max_length)), CHAIN, CHAIN)

        return case

    return open_


def _draft(recordings: Recordings) -> LanguageModel:
    return load_smollm2_draft(recordings.target)[0]


def _cut_draft(recordings: Recordings) -> LanguageModel:
    return CutHead(*load_smollm2_draft(recordings.target))


def _rounded(bits: int, recordings: Recordings) -> LanguageModel:
    return quantized(recordings.target, bits)


def _medusa(recordings: Recordings) -> CaseOf:
    heads, vocabulary = load_medusa_head(recordings.target)
    paths = medusa_spec(marginal_accuracies(medusa_texts(recordings, heads, vocabulary, Choice(tuning=True))), NODES)
    return _fixed(lambda: MedusaDrafter(recordings.target, heads, vocabulary, paths), NODES, 4)(recordings)


def _eagle_chain(recordings: Recordings) -> CaseOf:
    head, vocabulary = load_eagle_head(recordings.target)
    return _fixed(lambda: EagleDrafter(recordings.target, head, vocabulary), CHAIN, CHAIN)(recordings)


def _eagle_tree(recordings: Recordings) -> CaseOf:
    head, vocabulary = load_eagle_head(recordings.target)
    tree = DynamicTree(top_k=4, depth=_LEVELS)
    return _fixed(lambda: EagleDrafter(recordings.target, head, vocabulary, tree), NODES, _LEVELS)(recordings)
