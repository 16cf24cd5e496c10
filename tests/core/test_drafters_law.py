"""Certificates of drafters at toy level: real noise, real caches of the drafters, the target behind a memo."""

from collections.abc import Callable
from typing import Any

import pytest

from specdec_core.certify import Certificate, certify
from specdec_core.draft import Draft
from specdec_core.drafters import DynamicTree, EagleDrafter, MedusaDrafter, ModelDrafter, TreeDrafter
from specdec_core.engine import Engine
from specdec_core.memo import MemoisedModel
from specdec_core.models.cut_head import CutHead
from specdec_core.warp import SamplingParams

PARAMS = SamplingParams(temperature=2.5, top_k=4)
SHAPE = (-1, -1, 0, 0, 1)
SPEC = ((0,), (1,), (0, 0), (2,), (0, 1))
GAMMA = 2

MAKE: dict[str, tuple[Callable[..., Any], int, tuple[str, ...]]] = {
    "model over a cut": (
        lambda micro, remembered: ModelDrafter(remembered(CutHead(micro.draft, micro.vocabulary))),
        2,
        ("chain",),
    ),
    "independent": (
        lambda micro, remembered: TreeDrafter(remembered(micro.draft), SHAPE, "iid"),
        5,
        ("recursive", "traversal"),
    ),
    "level": (lambda micro, remembered: TreeDrafter(remembered(micro.draft), (-1, -1, -1), "iid"), 3, ("kseq",)),
    "without replacement": (
        lambda micro, remembered: TreeDrafter(remembered(micro.draft), SHAPE),
        5,
        ("recursive_without_replacement", "traversal_without_replacement"),
    ),
    "most probable": (
        lambda micro, remembered: TreeDrafter(remembered(micro.draft), SHAPE, "deterministic"),
        5,
        ("traversal",),
    ),
    "medusa": (
        lambda micro, remembered: MedusaDrafter(micro.target, micro.medusa, micro.vocabulary, SPEC),
        5,
        ("recursive",),
    ),
    "eagle chain": (
        lambda micro, remembered: EagleDrafter(micro.target, micro.eagle, micro.vocabulary),
        2,
        ("chain", "block"),
    ),
    "eagle tree": (
        lambda micro, remembered: EagleDrafter(micro.target, micro.eagle, micro.vocabulary, DynamicTree(3, 2)),
        6,
        ("recursive", "target_only"),
    ),
}
CASES = [pytest.param(name, rule, id=f"{name}, {rule}") for name, (_, _, rules) in MAKE.items() for rule in rules]


@pytest.fixture(scope="module")
def memo(micro) -> MemoisedModel:
    return MemoisedModel(micro.target, capacity=len(micro.prompt) + 16, keep_states=True)


@pytest.fixture(scope="module")
def remembered(micro) -> Callable[[Any], MemoisedModel]:
    kept: dict[str, MemoisedModel] = {}

    def of(model: Any) -> MemoisedModel:
        kind = type(model).__name__
        if kind not in kept:
            kept[kind] = MemoisedModel(model, capacity=len(micro.prompt) + 16)
        return kept[kind]

    return of


def certified(
    micro, memo: MemoisedModel, drafter: Any, rule: str, nodes: int, *, bias: float = 0.15, **options: Any
) -> Certificate:
    engine = Engine(memo, drafter, rule, nodes)
    return certify(
        engine, micro.prompt, PARAMS, gamma=GAMMA, bias=bias, level=1e-4, max_cells=12, oracle=memo, **options
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rule"), CASES)
def test_the_engine_has_the_targets_law(micro, memo, remembered, name: str, rule: str) -> None:
    make, nodes, _ = MAKE[name]
    certificate = certified(micro, memo, make(micro, remembered), rule, nodes)
    assert certificate.passed, certificate.sentence
    assert certificate.power >= 0.99
    assert certificate.coverage is not None and certificate.coverage["bonus"] > 0


class _SpreadTooWide(EagleDrafter):
    """The planted slip: q is reported with mass outside the cut, though nothing was drawn from there."""

    def propose(self, *arguments: Any) -> Draft:
        draft = super().propose(*arguments)
        if draft.draft_probs is None:
            return draft
        return Draft(draft.tree, 0.5 * draft.draft_probs + 0.5 / draft.draft_probs.shape[1], draft.proposal)


class _HandedOverAsIndependent(TreeDrafter):
    """The planted slip: siblings drawn without replacement, judged as if each had been drawn from all of q."""

    def propose(self, *arguments: Any) -> Draft:
        self.proposal = "without_replacement"
        draft = super().propose(*arguments)
        self.proposal = "iid"
        return Draft(draft.tree, draft.draft_probs, self.proposal) if len(draft.tree) else draft


def test_a_q_that_is_not_what_was_drawn_from_is_found(micro, memo) -> None:
    drafter = _SpreadTooWide(micro.target, micro.eagle, micro.vocabulary)
    certificate = certified(micro, memo, drafter, "chain", 2, sequential=True)
    assert certificate.rejected, certificate.sentence


@pytest.mark.slow
def test_siblings_drawn_the_other_way_are_found(micro, memo, remembered) -> None:
    drafter = _HandedOverAsIndependent(remembered(micro.draft), (-1, -1, -1), "iid")
    certificate = certified(micro, memo, drafter, "recursive", 3, bias=0.05, sequential=True)
    assert certificate.rejected, certificate.sentence
