"""The float engine with its real noise against the exact law, and planted bugs that the same test must catch.

Every test is a chi-square at alpha 1e-3 with a fixed seed over texts of gamma + 3 tokens, so that recovered,
bonus and a second round all occur. The target has memory: a slip in cache or position changes the law.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from scipy import stats
import torch

from specdec_core.coins import Coins
from specdec_core.draft import Draft
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.laws import output_law, sampled_draft, target_law
from specdec_core.rules import RULES, Rule, Verdict, verify_chain
from specdec_core.warp import SamplingParams

ALPHA = 1e-3
PROMPT = (1, 0)
TokenLaw = dict[tuple[int, ...], Fraction]


def sample(engine: Engine, count: int, samples: int, params: SamplingParams | None = None) -> Counter:
    params = params or SamplingParams(seed=20)
    return Counter(engine.generate(PROMPT, params, count, request=r).tokens for r in range(samples))


@pytest.fixture
def laws(random_law):
    """A target and a draft law with memory over three tokens, zeros included."""
    return random_law("law p", 3), random_law("law q", 3)


@pytest.mark.parametrize(
    ("gamma", "samples"), [(1, 800), (2, 800), *(pytest.param(g, 8_000, marks=pytest.mark.slow) for g in (0, 2, 3))]
)
def test_a_model_drafter_leaves_the_law_alone(gamma: int, samples: int, laws, model_of, chi_square, bulk_noise) -> None:
    target, draft = (model_of(law, 3) for law in laws)
    counts = sample(Engine(target, ModelDrafter(draft), "chain", gamma), gamma + 3, samples)
    assert chi_square(counts, target_law(laws[0], PROMPT, gamma + 3)) > ALPHA


@pytest.mark.slow
def test_drafting_at_another_temperature_leaves_the_law_alone(laws, model_of, chi_square, bulk_noise) -> None:
    target, draft = (model_of(law, 3) for law in laws)
    counts = sample(Engine(target, ModelDrafter(draft, temperature=0.4), "chain", 2), 5, 5_000)
    assert chi_square(counts, target_law(laws[0], PROMPT, 5)) > ALPHA


def test_lookup_drafting_leaves_the_law_alone(laws, model_of, chi_square, bulk_noise) -> None:
    engine = Engine(model_of(laws[0], 3), NGramDrafter(2), "chain", 2)
    assert chi_square(sample(engine, 5, 800), target_law(laws[0], PROMPT, 5)) > ALPHA


@pytest.mark.slow
def test_a_window_chosen_by_the_law_of_the_next_draft_leaves_the_law_alone(
    laws, model_of, chi_square, bulk_noise
) -> None:
    """`may_continue` sees the law of the next draft, never the draft itself."""

    class Confident:
        name = "confident"

        def gamma(self, rounds: Sequence[object]) -> int:
            return 1 + len(rounds) % 3

        def may_continue(self, drafted: int, law: torch.Tensor) -> bool:
            return float(law.max()) > 0.45

    target, draft = (model_of(law, 3) for law in laws)
    counts = sample(Engine(target, ModelDrafter(draft), "chain", Confident()), 5, 5_000)
    assert chi_square(counts, target_law(laws[0], PROMPT, 5)) > ALPHA


def test_a_stop_token_ends_texts_with_the_targets_law(laws, model_of, chi_square, bulk_noise) -> None:
    whole = target_law(laws[0], PROMPT, 5)
    law: TokenLaw = {}
    for tokens, chance in whole.items():
        cut = tokens[: tokens.index(2) + 1] if 2 in tokens else tokens
        law[cut] = law.get(cut, Fraction(0)) + chance
    target, draft = (model_of(law, 3) for law in laws)
    counts = sample(Engine(target, ModelDrafter(draft), "chain", 3), 5, 800, SamplingParams(seed=4, stop=(2,)))
    assert chi_square(counts, law) > ALPHA


@pytest.mark.slow
def test_a_seed_for_each_request_has_the_law_too(laws, model_of, chi_square, bulk_noise) -> None:
    target, draft = (model_of(law, 3) for law in laws)
    engine = Engine(target, ModelDrafter(draft), "chain", 2)
    # one seed a sample, request 0 throughout: what many users with a seed of their own see
    counts = Counter(engine.generate(PROMPT, SamplingParams(seed=seed), 3).tokens for seed in range(5_000))
    assert chi_square(counts, target_law(laws[0], PROMPT, 3)) > ALPHA


def _redraw_from_p(
    tokens: Sequence[int], q: Sequence[torch.Tensor], p: Sequence[torch.Tensor], coins: Coins
) -> Verdict:
    for i, x in enumerate(tokens):
        if not coins.accept(p[i][x], q[i][x], node=i):
            return Verdict(i, tuple(range(i)), coins.draw(p[i], node=i, purpose="recover"), "recovered")
    n = len(tokens)
    return Verdict(n, tuple(range(n)), coins.draw(p[n], node=n, purpose="bonus"), "bonus")


def _argmax_bonus(tokens: Sequence[int], q: Sequence[torch.Tensor], p: Sequence[torch.Tensor], coins: Coins) -> Verdict:
    verdict = verify_chain(tokens, q, p, coins)
    if verdict.kind == "recovered":
        return verdict
    best = max(range(len(p[-1])), key=lambda token: p[-1][token])
    return replace(verdict, next_token=best)


def _next_row(tokens: Sequence[int], q: Sequence[torch.Tensor], p: Sequence[torch.Tensor], coins: Coins) -> Verdict:
    """Every draft is judged by the row behind it."""
    rows = [p[min(i + 1, len(tokens))] for i in range(len(tokens))] + [p[len(tokens)]]
    return verify_chain(tokens, q, rows, coins)


@pytest.mark.parametrize("verify", [_redraw_from_p, _argmax_bonus, _next_row])
def test_a_planted_bug_is_caught_with_the_power_that_its_exact_law_predicts(
    verify: Callable[..., Verdict], laws, model_of, chi_square, bulk_noise
) -> None:
    target, draft = (model_of(law, 3) for law in laws)
    right = target_law(laws[0], PROMPT, 4)
    wrong = output_law(
        verify,
        lambda prefix: laws[0](PROMPT + prefix),
        sampled_draft(lambda prefix: laws[1](PROMPT + prefix), 2),
        (),
        4,
    )
    samples = 1_300
    cells = [cell for cell in right if right[cell] * samples >= 5]
    shift = sum(float((wrong.get(cell, Fraction(0)) - right[cell]) ** 2 / right[cell]) for cell in cells)
    power = stats.ncx2.sf(stats.chi2.isf(1e-6, len(cells)), len(cells), samples * shift)
    assert power > 0.99, "the sample is too small for this bug"
    rule = Rule("planted", verify, False, True, ("chain",), False, "a planted bug")
    counts = sample(Engine(target, ModelDrafter(draft), rule, 2), 4, samples)
    # an output the target never gives settles it without statistics
    impossible = set(counts) - set(right)
    assert impossible or chi_square(counts, right) < 1e-6


class _HotProposals(ModelDrafter):
    """Samples at temperature 2 but hands over the law at temperature 1."""

    def propose(self, context, budget, coins, may_continue) -> Draft:
        hot = replace(context, params=replace(context.params, temperature=2.0))
        draft = super().propose(hot, budget, coins, may_continue)
        if draft.draft_probs is None:
            return draft
        sharpened = draft.draft_probs**2
        return Draft(draft.tree, sharpened / sharpened.sum(-1, keepdim=True), "chain")


@pytest.mark.slow
def test_a_draft_law_of_another_temperature_is_caught(random_law, model_of, chi_square, bulk_noise) -> None:
    p, q = random_law("hot p", 3, zeros=False), random_law("hot q", 3, zeros=False)
    engine = Engine(model_of(p, 3), _HotProposals(model_of(q, 3)), "chain", 2)
    assert chi_square(sample(engine, 3, 6_000), target_law(p, PROMPT, 3)) < 1e-6
    right = Engine(model_of(p, 3), ModelDrafter(model_of(q, 3)), "chain", 2)
    assert chi_square(sample(right, 3, 6_000), target_law(p, PROMPT, 3)) > ALPHA


def test_a_rule_that_reuses_the_drafts_noise_is_stopped(laws, model_of) -> None:
    def reuse(tokens: Sequence[int], q: Sequence[torch.Tensor], p: Sequence[torch.Tensor], coins: Coins) -> Verdict:
        coins.draw(p[0], node=0, purpose="draft")
        raise AssertionError("the coins answered the same question twice")

    rule = replace(RULES["chain"], name="reuse", verify=reuse)
    target, draft = (model_of(law, 3) for law in laws)
    with pytest.raises(ValueError, match="purpose 'draft' at node 0 was already asked"):
        Engine(target, ModelDrafter(draft), rule, 2).generate(PROMPT, SamplingParams(seed=1), 6)
