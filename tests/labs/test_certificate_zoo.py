"""The certificate's reach: broken samplers of every kind are caught, the right one is not."""

from itertools import product
import math

import numpy as np
import pytest
from scipy import stats
import torch

from specdec_core.certify import certify
from specdec_core.certify_callable import CallableLaws, certify_callable
from specdec_core.coins.noise import PhiloxCoins, RoundCoins
from specdec_core.engine import Engine
from specdec_core.evidence import RATIOS
from specdec_core.goodness import fit, repeat_p_value, tail_p_value
from specdec_core.memo import MemoisedModel
from specdec_core.noise_cells import LawReader, Readings, grids
from specdec_core.tally import RepeatCount
from specdec_core.toy import PrefixModel
from specdec_core.warp import SamplingParams
from specdec_labs.museum import with_coins
from specdec_labs.zoo.laws import HORIZON
from specdec_labs.zoo.report import zoo_table
from specdec_labs.zoo.samplers import ANIMALS, NATS, RIGHT, law_of
from specdec_labs.zoo.study import LEVEL, MODES, NULL_LEVEL, certified, failures, false_alarms, level_ratio, show

SEEN = [animal for animal in ANIMALS if animal.is_seen]
UNSEEN = [animal for animal in ANIMALS if not animal.is_seen]


def silent(line: str) -> None:
    """Nothing."""


def test_the_zoo_is_as_large_and_as_varied_as_asked() -> None:
    assert len(SEEN) >= 30 and UNSEEN
    assert max(NATS) == 49_152 and (min(NATS.values()), max(NATS.values())) == (1.0, 9.0)
    for vocab, nats in NATS.items():
        assert law_of(vocab).nats == pytest.approx(nats, abs=0.01)


@pytest.mark.parametrize("animal", SEEN, ids=lambda animal: animal.name)
def test_every_broken_sampler_is_caught(animal) -> None:
    for mode in MODES:
        certificate = certified(animal, animal.vocabs[-1], seed=5, mode=mode)
        assert certificate.verdict == "failed", (mode, certificate.sentence)


@pytest.mark.parametrize("animal", [RIGHT, *UNSEEN], ids=lambda animal: animal.name)
def test_what_is_not_seen_passes(animal) -> None:
    for mode in MODES:
        certificate = certified(animal, 49_152, seed=5, mode=mode)
        assert certificate.verdict == "passed", (mode, certificate.sentence)
        assert "inside the cells, such as a rare text, is not seen" in certificate.sentence


@pytest.mark.slow
@pytest.mark.parametrize("animal", SEEN, ids=lambda animal: animal.name)
def test_every_broken_sampler_is_caught_at_the_stated_power(animal) -> None:
    rows = show([animal], 15, silent)
    missed = sum(row["runs"] - row["caught"] for row in rows)
    # power 0.99: more misses than this by chance in one run of 10^4
    assert missed <= stats.binom.isf(1e-4, sum(row["runs"] for row in rows), 0.01), rows


@pytest.mark.slow
def test_false_alarms_come_at_the_level() -> None:
    rows = false_alarms(400, silent)
    for mode in MODES:
        own = [row for row in rows if row["mode"] == mode]
        alarms, runs = sum(row["alarms"] for row in own), sum(row["runs"] for row in own)
        assert runs == 400 and alarms <= stats.binom.isf(1e-3, runs, NULL_LEVEL), own


@pytest.mark.slow
@pytest.mark.parametrize(("level", "bias", "max_cells"), [(1e-3, 0.06, 40), (1e-4, 0.15, 12)])
def test_the_level_is_a_bound(level: float, bias: float, max_cells: int) -> None:
    """With the chi-square law's own p-values the ratio was 1.2 and 2.7."""
    ratio, error = level_ratio(8, level, bias, max_cells, 200_000)
    assert ratio <= 1 + 3 * error


@pytest.mark.parametrize("vocab", [8, 512])
def test_the_table_reads_what_the_law_says(vocab: int) -> None:
    law, texts = law_of(vocab), RIGHT
    u = np.random.default_rng(3).random((60, HORIZON))
    samples = [tuple(row) for row in law.texts(u).tolist()]
    quick, slow = law.reader(4).read(samples), LawReader(law, 4).read(samples)
    for name in ("uniforms", "ranks", "chances"):
        assert getattr(quick, name) == pytest.approx(getattr(slow, name), abs=1e-9), texts
    assert (quick.repeats == slow.repeats).all() and slow.impossible == ()


def test_u_is_uniform_and_independent_under_a_law_with_ties_and_zeros() -> None:
    rows = np.array([[0.5, 0.25, 0.25, 0.0], [0.0, 0.1, 0.8, 0.1]])

    def law(tokens: tuple[int, ...]) -> np.ndarray:
        return rows[len(tokens) % 2 if not tokens else tokens[-1] % 2]

    rng, samples = np.random.default_rng(7), []
    for _ in range(6000):
        text: tuple[int, ...] = ()
        for _ in range(3):
            text += (int(rng.choice(4, p=law(text))),)
        samples.append(text)
    readings = LawReader(CallableLaws(law), 0).read(samples)
    for grid in grids(3, 6000, 40, 8):
        found = np.bincount(grid.cells_of(readings), minlength=grid.strata * grid.cells)
        sizes = np.repeat(np.bincount(readings.slots % grid.strata), grid.cells)
        chi_square = ((found - sizes / grid.cells) ** 2 / (sizes / grid.cells)).sum()
        assert stats.chi2.sf(chi_square, grid.degrees) > 1e-4, grid
    for column, (first, last) in enumerate([(1, 2), (1, 3), (2, 3)]):
        hits, chance = readings.repeats[:, column].sum(), readings.chances[:, column]
        assert abs(hits - chance.sum()) < 4 * math.sqrt((chance * (1 - chance)).sum()), (first, last)


def test_positions_without_a_likely_text_are_tested_all_the_same_and_said() -> None:
    """A flat law over 256 tokens: no text of three tokens is a cell."""
    rng, flat = np.random.default_rng(1), np.full(256, 1 / 256)

    def copies(first: int, count: int) -> np.ndarray:
        texts = rng.integers(0, 256, (count, 4))
        texts[:, 3] = texts[:, 2]
        return texts

    def right(first: int, count: int) -> np.ndarray:
        return rng.integers(0, 256, (count, 4))

    assert certify_callable(copies, lambda text: flat, horizon=4).verdict == "failed"
    certificate = certify_callable(right, lambda text: flat, horizon=4)
    assert certificate.verdict == "passed" and certificate.horizon == 4
    assert "over the first 4 tokens by 36 tests" in certificate.sentence
    assert certificate.untested == ("texts of more than 2 tokens",)
    assert "Not tested: texts of more than 2 tokens." in certificate.sentence
    few = certify_callable(right, lambda text: flat, horizon=4, n=70)
    assert few.untested[-1] == "u of three tokens"


class SharedByNeighbours(PhiloxCoins):
    """Rounds at lengths 2 i and 2 i + 1 read one noise."""

    def at(self, *, request: int, length: int) -> RoundCoins:
        """The coins of one round, with the bug."""
        return super().at(request=request, length=length - length % 2)


def _wide_engine() -> Engine:
    def logits(prefix: tuple[int, ...]) -> torch.Tensor:
        seed = hash((prefix[-1], len(prefix))) & 0x7FFFFFFF
        return torch.randn(512, generator=torch.Generator().manual_seed(seed))

    return with_coins(Engine(MemoisedModel(PrefixModel(512, logits), capacity=8)), SharedByNeighbours)


def test_an_engine_whose_neighbouring_rounds_share_noise_is_caught() -> None:
    certificate = certify(_wide_engine(), [1, 2, 3], SamplingParams(), gamma=0, sequential=True)
    assert certificate.verdict == "failed" and certificate.n <= 500, certificate.sentence
    assert certificate.worst.label == "token 3 = token 2"


@pytest.mark.slow
def test_such_an_engine_is_caught_with_every_noise() -> None:
    found = [
        certify(_wide_engine(), [1, 2, 3], SamplingParams(), gamma=0, sequential=True, seed=seed) for seed in range(20)
    ]
    assert all(one.rejected for one in found)


@pytest.mark.parametrize("p", [[0.02, 0.05, 0.33, 0.6], [0.1] * 10])
def test_the_tail_of_chi_square_is_that_of_the_counts(p: list[float]) -> None:
    """Against plain simulation; the chi-square law is too light for the first."""
    law, n, draws = np.array(p), 500, 400_000
    counts = np.random.default_rng(1).multinomial(n, law, size=draws)
    found = ((counts - n * law) ** 2 / (n * law)).sum(axis=1)
    for tail in (1e-2, 1e-3):
        statistic = float(np.quantile(found, 1 - tail))
        true = (found >= statistic).mean()
        error = 4 * math.sqrt(true / draws) / true
        assert true * (1 - error) <= tail_p_value(statistic, [n], law) <= true * (1.2 + error)
    light = fit([24, 25, 151, 300], p, 0.01).p_value if len(p) == 4 else 0.0
    assert light < 1e-3


@pytest.mark.parametrize("chances", [[0.5] * 12, [0.01, 0.9, 0.3, 0.2, 0.05, 0.6, 0.1, 0.02]])
def test_the_p_value_of_repeats_is_a_bound(chances: list[float]) -> None:
    """Every outcome of events with different probabilities."""
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    p_values = np.array([repeat_p_value(hits, float(np.mean(chances)), len(chances)) for hits in range(len(law))])
    for level in (0.3, 0.1, 0.03, 0.01, 1e-3):
        assert law[p_values <= level].sum() <= level
    assert p_values.min() < 1e-3


def test_the_bet_on_repeats_has_mean_one() -> None:
    chances = np.array([0.3, 0.02, 0.7, 0.15])
    mean = 0.0
    for outcome in product([False, True], repeat=4):
        count = RepeatCount((1, 2), 0)
        empty = np.zeros((4, 2))
        readings = Readings(empty, empty, np.array(outcome)[:, None], chances[:, None], np.arange(4), ())
        count.add([(0, 0)] * 4, readings)
        mean += float(np.prod(np.where(outcome, chances, 1 - chances))) * math.exp(count.log_e(100))
    assert mean == pytest.approx(1.0, abs=1e-12)
    assert len(RATIOS) > 1


def test_a_report_that_does_not_hold_says_so_and_its_table_counts() -> None:
    animal = next(one for one in ANIMALS if one.name == "copy, lag 1")
    rows = [
        {"animal": animal.name, "vocab": vocab, "mode": mode, "runs": 100, "caught": 100 - miss, "n": 500}
        for vocab, miss in ((8, 4), (64, 5))
        for mode in MODES
    ]
    nulls = [{"mode": mode, "runs": 2000, "alarms": alarms} for mode, alarms in zip(MODES, (20, 60))]
    report = {
        "asked": {"bias": 0.1, "level": LEVEL, "power": 0.99, "seeds": 100},
        "animals": rows,
        "false_alarms": {"level": NULL_LEVEL, "rows": nulls},
        "levels": [{"settings": "default", "vocab": 8, "ratio": 0.9, "error": 0.1}],
    }
    assert failures(report) == [
        "copy, lag 1, V = 64, fixed: 95 of 100 caught",
        "copy, lag 1, V = 64, sequential: 95 of 100 caught",
        "sequential: 60 false alarms in 2000 runs",
    ]
    assert "191 of 200 | 191 of 200 | 500 |" in zoo_table(report)
    assert "20 of 2,000 (fixed) and 60 of 2,000 (sequential)" in zoo_table(report)
