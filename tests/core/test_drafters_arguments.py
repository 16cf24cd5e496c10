"""What drafters refuse: budgets, models, sizes and heads that are none. A budget of nothing is an empty draft."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from specdec_core.coins import PhiloxCoins
from specdec_core.drafters import (
    DynamicTree,
    EagleDrafter,
    EarlyExitDrafter,
    MedusaDrafter,
    ModelDrafter,
    NGramDrafter,
    QuantizedDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
    TreeDrafter,
)
from specdec_core.drafters.protocol import Context
from specdec_core.models import load_pair
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.warp import SamplingParams

DRAFTERS: dict[str, Callable[[Any], Any]] = {
    "n-gram": lambda micro: NGramDrafter(),
    "suffix": lambda micro: SuffixDrafter(),
    "suffix tree": lambda micro: SuffixTreeDrafter(),
    "model": lambda micro: ModelDrafter(micro.target),
    "early exit": lambda micro: EarlyExitDrafter(micro.target, 1),
    "tree": lambda micro: TreeDrafter(micro.target, (-1, -1, 0)),
    "medusa": lambda micro: MedusaDrafter(micro.target, micro.medusa, micro.vocabulary),
    "medusa spec": lambda micro: MedusaDrafter(micro.target, micro.medusa, micro.vocabulary, ((0,), (1,))),
    "eagle": lambda micro: EagleDrafter(micro.target, micro.eagle, micro.vocabulary),
    "eagle tree": lambda micro: EagleDrafter(micro.target, micro.eagle, micro.vocabulary, DynamicTree(2, 2)),
}


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_budget_of_nothing_is_an_empty_draft_and_a_negative_one_is_refused(micro, name: str) -> None:
    drafter, tokens = DRAFTERS[name](micro), [1, 2, 3, 1, 2, 3, 1]
    drafter.start(16)
    cache = micro.target.new_cache(16)
    hidden = micro.target.forward(torch.tensor(tokens[:-1]), cache=cache).hidden
    context = Context(tokens, len(tokens), SamplingParams(temperature=0), hidden, cache)
    coins = PhiloxCoins(0).at(request=0, length=len(tokens))
    for budget in (-1, 1.5):
        with pytest.raises(ValueError, match=f"budget is {budget}; expected at least 0"):
            drafter.propose(context, budget, coins, lambda drafted, law: True)
    assert len(drafter.propose(context, 0, coins, lambda drafted, law: True).tree) == 0


@pytest.mark.parametrize("wrap", [ModelDrafter, lambda model: TreeDrafter(model, (-1,))])
def test_what_is_no_model_is_refused(wrap: Callable[[Any], Any]) -> None:
    pair = load_pair("toy")
    for model, kind in ((None, "NoneType"), ("tiny", "str"), (pair, "Pair")):
        with pytest.raises(ValueError, match=f"model is a {kind}; expected a language model"):
            wrap(model)


def test_heads_trees_and_cuts_of_another_kind_are_refused(micro) -> None:
    for build, message in (
        (lambda: MedusaDrafter(micro.target, micro.eagle, micro.vocabulary), "heads is a EagleHead; expected Medusa"),
        (lambda: EagleDrafter(micro.target, micro.medusa, micro.vocabulary), "head is a MedusaHeads; expected an Eag"),
        (lambda: EagleDrafter(micro.target, micro.eagle, None), "vocabulary is a NoneType"),
        (lambda: EagleDrafter(micro.target, micro.eagle, micro.vocabulary, 16), "tree is 16; expected a DynamicTree"),
        (lambda: MedusaDrafter(micro.target, micro.medusa, micro.vocabulary, "abc"), "spec is 'abc'; expected paths"),
        (lambda: MedusaDrafter(micro.target, micro.medusa, micro.vocabulary, [(0.5,)]), r"spec is \[\(0.5,\)\]"),
    ):
        with pytest.raises(ValueError, match=message):
            build()


def test_sizes_that_are_no_whole_numbers_are_refused(micro) -> None:
    for build, message in (
        (lambda: NGramDrafter(2.5), "max_n is 2.5; expected a whole number"),
        (lambda: NGramDrafter(3, None), "min_n is None"),
        (lambda: SuffixDrafter(max_match=2.5), "max_match is 2.5"),
        (lambda: SuffixTreeDrafter(max_match="a"), "max_match is 'a'"),
        (lambda: SuffixDrafter(per_match=float("inf")), "per_match is inf"),
        (lambda: SuffixDrafter(corpus=[1, 2, 3]), "corpus is a list; expected a SuffixAutomaton"),
        (lambda: DynamicTree(2.5, 1), "top_k is 2.5"),
        (lambda: DynamicTree(2, "a"), "depth is 'a'"),
        (lambda: EarlyExitDrafter(micro.target, 1.5), "layers is 1.5"),
        (lambda: QuantizedDrafter(micro.target, 4.5, group=8), "bits is 4.5"),
        (lambda: QuantizedDrafter(micro.target, 4, group="8"), "group is 8"),
        (lambda: TreeDrafter(micro.target, (-1, "a")), "shape is .* expected the parents"),
        (lambda: TreeDrafter(micro.target, None), "shape is None"),
        (lambda: CutVocabulary((1.5,), 5), "ids holds something that is no whole number"),
        (lambda: CutVocabulary.most_frequent([1, 9], 2, 5), "tokens go from 1 to 9; the target has 0..4"),
        (lambda: CutVocabulary.most_frequent([1], 2, 5, always=(-7,)), "always go from -7 to -7"),
        (lambda: load_pair(None), "pair is None; expected 'smollm2'"),
    ):
        with pytest.raises(ValueError, match=message):
            build()
