"""Which drafters are certified, and under which rules: on `tiny` all of them, on SmolLM2 three."""

from collections.abc import Callable
from dataclasses import dataclass

from specdec_core.draft import Proposal
from specdec_core.drafters import (
    Drafter,
    DynamicTree,
    EagleDrafter,
    EarlyExitDrafter,
    MedusaDrafter,
    ModelDrafter,
    NGramDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
    TreeDrafter,
)
from specdec_core.rules import RULES
from specdec_labs.shipped.parts import Parts

TREE = (-1, -1, 0, 0, 1)
ONE_LEVEL = (-1, -1, -1)
MEDUSA_TREE = ((0,), (1,), (0, 0), (2,), (0, 1), (1, 0))


@dataclass(frozen=True, slots=True)
class Kind:
    """A drafter as it is certified.

    Attributes:
        make: from the parts of a pair to the drafter.
        proposal, branches: which rules take its drafts follows from these.
        nodes: nodes a round at most.
        depth: levels a round at most: the certificate covers four tokens more.
        is_one_level: whether k-SEQ applies, which judges a single level.
        reads_cache: whether it shares the target's cache; no memo stands before the target then.
    """

    make: Callable[[Parts], Drafter]
    proposal: Proposal
    nodes: int = 2
    depth: int = 2
    branches: bool = False
    is_one_level: bool = False
    reads_cache: bool = False

    @property
    def rules(self) -> tuple[str, ...]:
        """Every lossless rule for sampling that takes these drafts."""
        return tuple(
            rule.name
            for rule in RULES.values()
            if rule.lossless
            and not rule.greedy_only
            and self.proposal in rule.proposals
            and (rule.takes_tree or not self.branches)
            and (self.is_one_level or rule.name != "kseq")
        )


def _model(parts: Parts) -> Drafter:
    return ModelDrafter(parts.draft_memo)


def _coupled(parts: Parts) -> Drafter:
    return ModelDrafter(parts.draft_memo, coupled=True, name="coupled model")


def _cut_model(parts: Parts) -> Drafter:
    return ModelDrafter(parts.cut_draft_memo, name="model over a cut")


def _int4(parts: Parts) -> Drafter:
    return ModelDrafter(parts.rounded_memo, name="int4")


def _tree(proposal: Proposal, shape: tuple[int, ...] = TREE) -> Callable[[Parts], Drafter]:
    return lambda parts: TreeDrafter(parts.draft_memo, shape, proposal)


def _medusa(parts: Parts) -> Drafter:
    return MedusaDrafter(parts.target, *parts.medusa, MEDUSA_TREE)


def _eagle(tree: DynamicTree | None) -> Callable[[Parts], Drafter]:
    return lambda parts: EagleDrafter(parts.target, *parts.eagle, tree)


KINDS: dict[str, Kind] = {
    "model": Kind(_model, "chain"),
    "coupled model": Kind(_coupled, "coupled"),
    "model over a cut": Kind(_cut_model, "chain"),
    "int4": Kind(_int4, "chain"),
    "early exit": Kind(lambda parts: EarlyExitDrafter(parts.target, 2), "chain", reads_cache=True),
    "eagle chain": Kind(_eagle(None), "chain"),
    "ngram": Kind(lambda parts: NGramDrafter(), "deterministic"),
    "suffix": Kind(lambda parts: SuffixDrafter(), "deterministic"),
    "suffix tree": Kind(lambda parts: SuffixTreeDrafter(), "deterministic", nodes=4, branches=True),
    "tree, independent": Kind(_tree("iid"), "iid", nodes=len(TREE), branches=True),
    "level, independent": Kind(_tree("iid", ONE_LEVEL), "iid", len(ONE_LEVEL), 1, branches=True, is_one_level=True),
    "tree, without replacement": Kind(_tree("without_replacement"), "without_replacement", len(TREE), branches=True),
    "tree, most probable": Kind(_tree("deterministic"), "deterministic", len(TREE), branches=True),
    "medusa tree": Kind(_medusa, "deterministic", len(MEDUSA_TREE), branches=True),
    "eagle tree": Kind(_eagle(DynamicTree(3, 2)), "deterministic", nodes=6, branches=True),
}
"""Every drafter that ships. The target in int4 is a `ModelDrafter`, as `QuantizedDrafter` is, but behind a memo."""

ON_SMOLLM2 = (("eagle chain", "block"), ("eagle tree", "traversal"), ("medusa tree", "recursive"))


@dataclass(frozen=True, slots=True)
class Combination:
    """A pair, a drafter and a rule."""

    pair: str
    drafter: str
    rule: str

    @property
    def name(self) -> str:
        """How reports list it."""
        return f"{self.pair} / {self.drafter} / {self.rule}"

    @property
    def kind(self) -> Kind:
        """The drafter as it is certified."""
        return KINDS[self.drafter]


def combinations() -> tuple[Combination, ...]:
    """All that are certified; chains under tree rules, which add least, come last."""
    on_tiny = [Combination("tiny", name, rule) for name, kind in KINDS.items() for rule in kind.rules]
    on_smollm2 = [Combination("smollm2", drafter, rule) for drafter, rule in ON_SMOLLM2]
    plain = [own for own in on_tiny if own.kind.branches or not RULES[own.rule].takes_tree]
    return (*plain, *on_smollm2, *(own for own in on_tiny if own not in plain))
