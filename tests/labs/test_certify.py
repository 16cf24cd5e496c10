"""The certificate passes the right engine and catches planted bugs, on toy models with memory."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from scipy import stats
import torch

from specdec_core.certify import OracleLaws, certify
from specdec_core.certify_greedy import certify_greedy
from specdec_core.certify_plan import Demand, plan
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.memo import MemoisedModel
from specdec_core.partition import partitions
from specdec_core.rules import RULES, Verdict
from specdec_core.toy import PrefixModel, toy_pair
from specdec_core.warp import SamplingParams
from specdec_labs.cli import assurance
from specdec_labs.museum import (
    RECOVERY_FROM_TARGET,
    AcceptByDraftNoise,
    NoiseOfTheDraft,
    NoiseOfTheFirstRound,
    OneSidedTemperature,
    with_coins,
)

VOCAB = 8
PARAMS = SamplingParams(temperature=0.9, top_k=6)
PROMPT = [1, 2]


def logits_with_memory(salt: int, prefix: tuple[int, ...]) -> torch.Tensor:
    """Depends on the last two tokens and on the position, so that stale rows and slips show."""
    seed = hash((salt, prefix[-2:], len(prefix))) & 0x7FFFFFFF
    return torch.randn(VOCAB, generator=torch.Generator().manual_seed(seed)) * 1.5


@pytest.fixture(scope="module")
def pair() -> tuple[MemoisedModel, MemoisedModel]:
    target = PrefixModel(VOCAB, lambda prefix: logits_with_memory(0, prefix))
    draft = PrefixModel(VOCAB, lambda prefix: logits_with_memory(0, prefix) + 0.8 * logits_with_memory(1, prefix))
    return MemoisedModel(target, capacity=16), MemoisedModel(draft, capacity=16)


@pytest.mark.parametrize(("gamma", "sequential"), [(1, False), (2, True)])
def test_the_right_engine_passes(pair, gamma, sequential):
    target, draft = pair
    engine = Engine(target, ModelDrafter(draft), "chain", gamma)
    certificate = certify(engine, PROMPT, PARAMS, gamma=gamma, bias=0.1, sequential=sequential)
    assert certificate.passed, certificate.sentence
    assert certificate.power >= 0.99
    assert certificate.uncovered == ()
    last = gamma + 4
    leading = [tuple(range(1, t + 1)) for t in range(1, last + 1)]
    pairs = [(first, t) for t in range(3, last + 1) for first in range(1, t)]
    assert {test.positions for test in certificate.tests if test.kind == "text"} == {*leading, *pairs}
    noise = [positions for size in (1, 2, 3) for positions in combinations(range(1, last + 1), size)]
    assert [test.positions for test in certificate.tests if test.kind == "noise"] == noise
    assert {test.positions for test in certificate.tests if test.kind == "repeat"} == set(
        combinations(range(1, last + 1), 2)
    )
    assert certificate.horizon == last and certificate.untested == ()
    assert "Indistinguishable" in certificate.sentence
    assert certificate.to_dict()["passed"] is True


@pytest.mark.parametrize("bug", ["draw from p", "temperature on one side", "accept by the draft's noise"])
def test_planted_bugs_fail(pair, bug):
    target, draft = pair
    engines = {
        "draw from p": Engine(target, ModelDrafter(draft), RECOVERY_FROM_TARGET, 2),
        "accept by the draft's noise": with_coins(Engine(target, ModelDrafter(draft), "chain", 2), AcceptByDraftNoise),
        "temperature on one side": Engine(target, OneSidedTemperature(draft, reported=0.6), "chain", 2),
    }
    certificate = certify(engines[bug], PROMPT, PARAMS, gamma=2, bias=0.08, level=1e-6, sequential=True)
    assert certificate.rejected
    assert certificate.sentence.startswith("NOT the target's law")
    assert certificate.impossible == 0
    fixed = plan(OracleLaws(target, tuple(PROMPT), PARAMS), Demand(horizon=6, bias=0.08, level=1e-6)).n
    assert certificate.n < 0.7 * fixed


def test_noise_used_again_in_the_next_round_is_caught():
    # with p = q and no context a round repeats the one before it: every marginal is right, the joint is not
    target = MemoisedModel(PrefixModel(4, lambda prefix: torch.zeros(4)), capacity=8)
    engine = with_coins(Engine(target, ModelDrafter(target), "chain", 1), NoiseOfTheFirstRound)
    certificate = certify(engine, [0], SamplingParams(), gamma=1, n=800)
    assert certificate.p_value < 1e-6, certificate.sentence
    assert certificate.tests[0].fit.p_value > 1e-3


@pytest.mark.slow
def test_noise_shared_by_draft_and_recovery_is_caught():
    # the law of the literature: 0.60 becomes about 0.63, far less than the default bias, so n is larger
    target = PrefixModel(3, lambda prefix: torch.tensor([0.1, 0.6, 0.3]).log())
    draft = PrefixModel(3, lambda prefix: torch.tensor([0.5, 0.3, 0.2]).log())
    engine = with_coins(Engine(target, ModelDrafter(draft), "chain", 1), NoiseOfTheDraft)
    certificate = certify(engine, [0], SamplingParams(), gamma=1, n=20_000, level=1e-6, sequential=True)
    assert certificate.rejected, certificate.sentence
    assert certificate.n < 18_000


@pytest.mark.slow
def test_200_certificates_of_the_right_engine_raise_false_alarms_at_the_stated_rate():
    """Small n and a toy pair, so that 200 of them take a minute; whole certificates with real noise all the same."""
    target = MemoisedModel(PrefixModel(4, lambda prefix: logits_with_memory(0, prefix)[:4]), capacity=8)
    draft = MemoisedModel(PrefixModel(4, lambda prefix: logits_with_memory(1, prefix)[:4]), capacity=8)
    engine = Engine(target, ModelDrafter(draft), "chain", 1)
    level, runs = 0.05, 200
    alarms = sum(
        certify(engine, [1], SamplingParams(), gamma=1, n=100, level=level, seed=seed).rejected for seed in range(runs)
    )
    # Bonferroni makes 0.05 an upper bound: 10 expected at most, more than 22 by chance in one run of 10^4
    assert alarms <= stats.binom.isf(1e-4, runs, level)


def test_the_partition_is_the_exact_law(pair):
    target, _ = pair
    parts = partitions(OracleLaws(target, tuple(PROMPT), PARAMS), 4, 40)
    assert [part.positions for part in parts[:3]] == [(1,), (1, 2), (1, 2, 3)]
    for part in parts:
        assert sum(part.probabilities) == pytest.approx(1.0, abs=1e-9)
        assert min(part.probabilities) >= 0.004
        assert part.cells <= 40
    exact = PARAMS.probs(logits_with_memory(0, tuple(PROMPT))[None])[0]
    assert all(
        parts[0].probabilities[cell] == pytest.approx(float(exact[tokens[0]]))
        for tokens, cell in parts[0].index.items()
        if list(parts[0].index.values()).count(cell) == 1 and cell < parts[0].cells - 1
    )


def test_cells_do_not_depend_on_samples_and_cover_every_sequence(pair):
    target, _ = pair
    part = partitions(OracleLaws(target, tuple(PROMPT), PARAMS), 3, 12)[-1]
    counts = Counter(part.cell_of((a, b, c)) for a in range(VOCAB) for b in range(VOCAB) for c in range(VOCAB))
    assert set(counts) == set(range(part.cells))


def test_a_law_with_one_text_cannot_be_certified(pair):
    target, draft = pair
    engine = Engine(target, ModelDrafter(draft), "chain", 1)
    with pytest.raises(ValueError, match="certify_greedy"):
        certify(engine, PROMPT, SamplingParams(temperature=0), gamma=1)
    with pytest.raises(ValueError, match="temperature or top_k"):
        certify(engine, PROMPT, SamplingParams(top_k=1), gamma=1)
    with pytest.raises(ValueError, match="gamma"):
        certify(engine, PROMPT, PARAMS, gamma=-1)


def test_tokens_of_probability_0_are_looked_for_where_engine_and_law_read_the_same_rows(pair):
    target, _ = pair

    class SaysTheRarest(MemoisedModel):
        """Logits whose least likely token, cut by top-k everywhere else, comes first on one text."""

        def logits_after(self, prefix):
            row = super().logits_after(prefix)
            return -row if len(prefix) == 5 else row

    wrong = SaysTheRarest(target, capacity=16)
    oracle = MemoisedModel(target, capacity=16)
    params = SamplingParams(top_k=2)
    apart = certify(Engine(wrong), PROMPT, params, gamma=0, n=100, oracle=oracle)
    assert apart.impossible is None and apart.rejected
    together = certify(Engine(target), PROMPT, params, gamma=0, n=100)
    assert together.impossible == 0 and not together.rejected


def test_what_was_not_exercised_is_said(pair):
    target, _ = pair
    certificate = certify(Engine(target), PROMPT, PARAMS, gamma=0, n=400)
    assert certificate.uncovered == ("recovered", "bonus")
    assert "Not exercised: recovered, bonus" in replace(certificate, power=0.9).sentence
    assert "No verdict" in replace(certificate, power=0.4).sentence


@pytest.mark.parametrize(("bias", "holds"), [(0.001, None), (0.9, True)])
def test_a_quick_certificate_without_power_is_no_assurance(pair, bias, holds, monkeypatch):
    monkeypatch.setattr(assurance, "QUICK_BIAS", bias)
    monkeypatch.setattr(assurance, "QUICK_SAMPLES", 100)
    target, _ = pair
    quick = assurance.QuickSettings.near(PARAMS, 0)
    found = assurance.stochastic_assurance(Engine(target), target, PROMPT, quick, 0)
    assert found.holds is holds
    assert ("No verdict" in found.sentence) is (holds is None)


def test_greedy_certificate_of_the_toy_pair():
    target, draft = toy_pair()
    certificate = certify_greedy(Engine(target, ModelDrafter(draft), "chain", 4), [[1, 2, 3], [7]], 30)
    assert certificate.passed and certificate.partings == () and certificate.tokens == 60
    assert "token for token" in certificate.sentence


def test_greedy_certificate_shows_where_a_wrong_engine_parts():
    target, draft = toy_pair()
    accept_all = replace(
        RULES["chain"], verify=lambda tokens, q, p, coins: Verdict(len(tokens), tuple(range(len(tokens))), 0, "bonus")
    )
    certificate = certify_greedy(Engine(target, ModelDrafter(draft), accept_all, 4), [[1, 2, 3]], 12)
    assert not certificate.passed
    assert certificate.partings[0].position == 1
    assert certificate.partings[0].gap == pytest.approx(30.0)
    assert "NOT the target's greedy text" in certificate.sentence


def test_near_ties_are_allowed_and_reported():
    def nearly_tied(prefix):
        # a one-row pass and a block of rows rank two close tokens differently
        return [1.0, 1.0 + 1e-5, 0.0] if len(prefix) % 2 else [1.0, 0.0, 0.0]

    class Flipping(PrefixModel):
        def forward(self, tokens, positions=None, mask=None, *, cache, last_only=False):
            output = super().forward(tokens, positions, mask, cache=cache, last_only=last_only)
            if len(tokens) > 1 and not last_only:
                output.logits[:, 1] -= 2e-5 * (output.logits[:, 1] > 0.5)
            return output

    target = Flipping(3, nearly_tied)
    engine = Engine(target, ModelDrafter(PrefixModel(3, nearly_tied)), "chain", 2)
    certificate = certify_greedy(engine, [[2]], 8)
    assert certificate.passed and len(certificate.partings) == 1
    assert 0 < certificate.partings[0].gap < 1e-4
    assert "near-tie" in certificate.sentence


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "prompt is empty"),
        (None, "expected a sequence"),
        ([99], r"prompt\[0\] is 99"),
        ([1] * 9, "more are certified"),
    ],
)
def test_a_prompt_that_cannot_be_certified_is_named(prompt, message: str) -> None:
    target = PrefixModel(3, lambda prefix: [0.0] * 3, max_length=10)
    with pytest.raises(ValueError, match=message):
        certify(Engine(target), prompt, SamplingParams(), gamma=0)
