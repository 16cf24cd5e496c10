"""What low precision costs: the integrated laws against enumeration and against real draws in that precision."""

from fractions import Fraction
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
import torch
from typer.testing import CliRunner

from specdec_core.coins import Coins, PhiloxCoins, branches
from specdec_core.coins.noise import exponential
from specdec_core.rules import verify_chain
from specdec_labs.cli.app import app
from specdec_labs.precision.costs import TAIL_FROM, noises, race_costs, softmax_costs, verify_costs
from specdec_labs.precision.laws import normalised, total_variation, zipf, zipf_logits
from specdec_labs.precision.noise import Noise, continuous, lab_noise, minus_log, minus_log_of_rest, stored_as
from specdec_labs.precision.race import race_law, tail_mass
from specdec_labs.precision.rounding import draft_of, emitted_law, rounded, rounded_laws

POINTS = torch.tensor([0.003, 0.05, 0.3, 0.7, 1.0, 2.3, 5.0], dtype=torch.float64)


@pytest.mark.parametrize(
    ("noise", "values"),
    [
        (minus_log(4), [math.inf] + [-math.log(k / 16) for k in range(1, 16)]),
        (minus_log_of_rest(4), [-math.log(1 - k / 16) for k in range(16)]),
    ],
)
def test_the_law_of_a_coarse_noise_is_that_of_its_values(noise: Noise, values: list[float]) -> None:
    for x in [0.0, *POINTS.tolist(), *(value + 1e-9 for value in values if value < 50)]:
        share = sum(value <= x for value in values) / 16
        assert float(noise.cdf(torch.tensor([x], dtype=torch.float64))) == share


def test_the_lab_noise_is_the_one_the_coins_make() -> None:
    """At each point the words below the stated share give at most x, the next word gives more."""
    for x in [1e-9, 1e-7, *POINTS.tolist(), 16.0]:
        count = float(lab_noise().cdf(torch.tensor([x], dtype=torch.float64))) * 2.0**32
        assert count == int(count)
        words = np.array([max(int(count) - 1, 0), int(count)], dtype=np.uint32)
        below, above = exponential(words)
        assert (below <= x or count == 0) and above > x
    assert float(lab_noise().cdf(torch.tensor([16.7], dtype=torch.float64))) == 1.0
    assert float(exponential(np.array([2**32 - 1], dtype=np.uint32))[0]) < 16.7


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_stored_noise_has_the_law_of_rounding_to_nearest(dtype: torch.dtype) -> None:
    x = torch.cat([POINTS, torch.tensor([1e-7, 3e-6, 20.0], dtype=torch.float64)])
    edge = -torch.log1p(-stored_as(dtype).cdf(x))
    assert bool(((edge * (1 - 1e-6)).to(dtype).double() <= x).all())
    assert bool(((edge * (1 + 1e-6)).to(dtype).double() > x).all())


def brute_force(weights: list[float], values: list[float]) -> list[float]:
    """Every combination of equally likely values; the smallest score wins, and all infinite is no race."""
    wins = [0] * len(weights)
    for combination in itertools.product(values, repeat=len(weights)):
        scores = [value / weight for value, weight in zip(combination, weights)]
        if min(scores) < math.inf:
            wins[scores.index(min(scores))] += 1
    return [count / sum(wins) for count in wins]


@pytest.mark.parametrize("bits", [3, 4])
def test_the_law_of_a_race_is_that_of_all_combinations(bits: int) -> None:
    """Few values and three tokens; two jumps in one bin are what the integral cannot tell apart."""
    weights = [0.613, 0.287, 0.1]
    values = [math.inf] + [-math.log(k / 2**bits) for k in range(1, 2**bits)]
    law = race_law(torch.tensor(weights, dtype=torch.float64), minus_log(bits), step=5e-4)
    expected = brute_force(weights, values)
    assert law.tolist() == pytest.approx(expected, abs=1e-3)
    assert max(abs(a - b) for a, b in zip(expected, weights)) > 0.01, "the grid must matter"


@pytest.mark.parametrize("exponent", [1.0, 1.6])
def test_the_ideal_race_gives_the_weights_back(exponent: float) -> None:
    weights = zipf(3000, exponent)
    assert total_variation(race_law(weights, continuous()), weights) < 1e-5
    assert total_variation(race_law(weights, lab_noise()), weights) < 1e-5


VOCAB = 32_000
ZIPF = zipf(VOCAB, 1.0)


def tail_count(draws: list[int]) -> int:
    return sum(token >= TAIL_FROM - 1 for token in draws)


def test_a_float16_race_loses_the_tail() -> None:
    """400 real draws with float16 uniforms; ranks from 1000 on hold 31.7 %, and 0.4 % of the draws."""
    exact = tail_mass(race_law(ZIPF, minus_log(11)), TAIL_FROM - 1)
    assert tail_mass(ZIPF, TAIL_FROM - 1) == pytest.approx(0.3165, abs=1e-3)
    assert exact == pytest.approx(0.0039, abs=2e-4)
    generator = torch.Generator().manual_seed(1)
    uniforms = [torch.rand(VOCAB, dtype=torch.float16, generator=generator) for _ in range(400)]
    draws = [int((-u.log().double() / ZIPF).argmin()) for u in uniforms]
    assert stats.binomtest(tail_count(draws), 400, 0.3165).pvalue < 1e-20
    assert stats.binomtest(tail_count(draws), 400, exact).pvalue > 1e-4


def test_a_float32_race_does_not_lose_it_at_this_size() -> None:
    """400 draws see a loss of 7.7 percentage points (z = 3.3) with probability 1/2; the exact loss is 0.06."""
    exact = tail_mass(race_law(ZIPF, minus_log(24)), TAIL_FROM - 1)
    assert 0 < 0.3165 - exact < 0.001
    generator = torch.Generator().manual_seed(2)
    draws = [int((-torch.rand(VOCAB, generator=generator).log().double() / ZIPF).argmin()) for _ in range(400)]
    assert stats.binomtest(tail_count(draws), 400, 0.3165).pvalue > 1e-3


def test_the_librarys_race_draws_the_tail() -> None:
    """The coins themselves, 300 draws over 32,000 tokens; alpha 1e-3."""
    draws = [PhiloxCoins(3).at(request=r, length=1).draw(ZIPF, node=0, purpose="sample") for r in range(300)]
    assert stats.binomtest(tail_count(draws), 300, 0.3165).pvalue > 1e-3


def test_the_fine_end_of_the_noise_decides_not_its_bits() -> None:
    weights = zipf(5000, 1.3)
    tv = {noise.name: total_variation(race_law(weights, noise), weights) for noise in noises()}
    assert tv[lab_noise().name] < 1e-5
    assert tv["good E stored in bfloat16"] < 2e-4 < tv["-log(u), u = k 2^-24"] * 2
    assert tv["-log(u), u = k 2^-24"] < tv["-log(u), u = k 2^-23"] < 0.01
    assert 0.05 < tv["-log(u), u in float16 (k 2^-11)"] < tv["-log(u), u in bfloat16 (k 2^-8)"]


def test_rounding_the_logits_costs_more_than_rounding_the_probabilities() -> None:
    for exponent in (1.0, 1.6):
        true = zipf(VOCAB, exponent)
        tv = {what: total_variation(law, true) for what, law in rounded_laws(VOCAB, exponent).items()}
        assert tv["all in float32"] < 1e-6
        assert 0.003 < tv["logits rounded to bfloat16"] < 0.03
        assert 5e-4 < tv["logits rounded to float16"] < 0.003
        for dtype in ("bfloat16", "float16"):
            assert 1e-4 < tv[f"probabilities rounded to {dtype}"] < 1e-3
    # neighbouring bfloat16 values in [16, 32) are 0.125 apart: logits are off by up to half of that
    logits = zipf_logits(50, 1.0)
    assert 0.03 < float((logits.to(torch.bfloat16).double() - logits).abs().max()) <= 0.0625


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("drawn", ["same", "other"])
def test_the_emitted_law_is_that_of_the_rule_for_the_rounded_numbers(dtype: torch.dtype, drawn: str) -> None:
    p, q = zipf(5, 1.0), draft_of(5, 1.0, 0.7)
    low_p, low_q = rounded(p, dtype), rounded(q, dtype)
    source = normalised(low_q) if drawn == "same" else q
    exact_p, exact_q, exact_source = ([Fraction(x) for x in law.tolist()] for law in (low_p, low_q, source))

    def first_token(coins: Coins) -> int:
        token = coins.draw(exact_source, node=0, purpose="draft")
        verdict = verify_chain([token], [exact_q], [exact_p, exact_p], coins)
        return token if verdict.num_accepted else verdict.next_token

    law = [Fraction(0)] * 5
    for weight, token in branches(first_token):
        law[token] += weight
    emitted = emitted_law(low_p, low_q, source)
    assert emitted.tolist() == pytest.approx([float(chance) for chance in law], abs=1e-12)
    assert (total_variation(emitted, p) < 1e-12) == (dtype == torch.float64)


def test_a_coarse_uniform_keeps_a_draft_a_little_too_often() -> None:
    p, q = zipf(6, 1.0), draft_of(6, 1.0, 0.7)
    ratio = [sum(k / 256 * q_x < p_x for k in range(256)) / 256 for p_x, q_x in zip(p.tolist(), q.tolist())]
    kept = q * torch.tensor(ratio, dtype=torch.float64)
    rest = (p - q).clamp(min=0)
    expected = kept + (1 - kept.sum()) * rest / rest.sum()
    assert torch.allclose(emitted_law(p, q, q, accept_bits=8), expected, atol=1e-15)
    assert 0 < total_variation(emitted_law(p, q, q, accept_bits=32), p) < 2.0**-32
    assert total_variation(emitted_law(p, q, q), p) < 1e-15


def test_a_residual_of_near_laws_is_mostly_rounding_but_seldom_used() -> None:
    rows = {(row.spread, row.what): row for row in verify_costs(VOCAB)}
    near = rows[0.01, "p and q in bfloat16, draft drawn from the same q"]
    far = rows[0.5, "p and q in bfloat16, draft drawn from the same q"]
    assert near.residual_tv > 20 * far.residual_tv > 0.01
    assert near.tv < 2e-3
    for spread in (0.5, 0.01):
        same, other = (rows[spread, f"p and q in bfloat16, draft drawn from {q}"] for q in ("the same q", "another q"))
        assert other.tv > 1.2 * same.tv, "q must be the law that was drawn from"
        assert rows[spread, "p and q in float32, draft drawn from the same q"].tv < 1e-6


def test_tables_cover_every_law_and_noise() -> None:
    assert len(list(softmax_costs(1200))) == 3 * 7
    races = list(race_costs(1200))
    assert len(races) == 3 * len(noises())
    assert all(0 <= row.tv < 1 and 0 <= row.tail <= 1 for row in races)


def test_the_command_shows_three_tables_and_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "precision.json"
    result = CliRunner().invoke(app, ["precision", "--vocab", "1500", "--plain-text", "--json", str(file)])
    assert result.exit_code == 0, result.output
    for text in ("Softmax", "Rejection sampling", "Exponential race", "1500 tokens"):
        assert text in result.output
    data = json.loads(file.read_text(encoding="utf-8"))
    assert (data["vocab"], len(data["softmax"]), len(data["race"])) == (1500, 21, 27)
    assert data["hardware"]["torch"] == torch.__version__


@pytest.mark.parametrize("vocab", ["999", "500001"])
def test_a_vocabulary_without_a_tail_is_refused(vocab: str) -> None:
    result = CliRunner().invoke(app, ["precision", "--vocab", vocab])
    assert result.exit_code == 2
    assert f"vocab is {vocab}; expected 1001..500000" in result.stderr


def test_a_law_of_one_token_is_refused() -> None:
    with pytest.raises(ValueError, match="vocab is 1; expected at least 2"):
        zipf(1, 1.0)
