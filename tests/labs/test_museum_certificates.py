"""The certificate catches every piece that samples can show, and lets the right code pass at the nominal rate."""

from functools import cache

import pytest
from scipy import stats

from specdec_core.certificate import Certificate
from specdec_core.certify import certify
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.memo import MemoisedModel
from specdec_core.random_laws import random_law
from specdec_core.rules import verify_chain
from specdec_core.toy import PrefixModel
from specdec_core.warp import SamplingParams
from specdec_labs.museum import MUSEUM
from specdec_labs.museum.detect import LEVEL, WANTED_POWER, certified, power_against
from specdec_labs.museum.draft_cache import LeavesAHole
from specdec_labs.museum.keys import BY_POSITION, POSITION_CASE, NoiseCase

VISIBLE = [name for name, piece in MUSEUM.items() if piece.visible_to_sampling]
CHEAP = [name for name in VISIBLE if MUSEUM[name].certificate.n <= 300 or name == "reused_noise"]

# the right code of several pieces is the same function; one of them is enough
SAME_RIGHT_CODE = {"lossy_threshold", "contiguous_prefix", "residual_not_scaled"}
DISTINCT_RIGHT = [name for name in VISIBLE if name not in SAME_RIGHT_CODE]

RUNS, RUN_LEVEL, RUN_SAMPLES = 200, 0.05, 100


def caught(name: str, seed: int = 0) -> Certificate:
    piece = MUSEUM[name]
    return certified(piece.certificate, piece.wrong, seed=seed)


def test_which_pieces_samples_cannot_show():
    assert set(MUSEUM) - set(VISIBLE) == {"accept_at_equality", "draft_cache_hole", "bonus_counted_twice"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in CHEAP else pytest.mark.slow) for name in VISIBLE]
)
def test_the_certificate_catches_the_piece(name):
    piece = MUSEUM[name]
    certificate = caught(name)
    assert certificate.rejected, certificate.sentence
    assert certificate.p_value < LEVEL
    right = certified(piece.certificate, piece.right)
    assert not right.rejected, right.sentence


@pytest.mark.parametrize("name", VISIBLE)
def test_the_stated_n_has_the_power(name):
    case = MUSEUM[name].certificate
    assert power_against(case, case.wrong_law()) >= WANTED_POWER


def test_power_against_the_right_law_is_the_level():
    case = MUSEUM["token_rule_in_block"].certificate
    piece = MUSEUM["token_rule_in_block"]
    right_law = piece.exact_check.__self__.target_law()
    # the lower bound takes one test of all, so its chance is a share of the level
    tests = len(certified(case, piece.right).tests)
    assert power_against(case, right_law) == pytest.approx(LEVEL / tests, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", VISIBLE)
def test_the_power_is_what_it_is_said_to_be(name):
    runs = 50 if MUSEUM[name].certificate.n <= 800 else 20
    hits = sum(caught(name, seed).rejected for seed in range(1, runs + 1))
    assert hits >= stats.binom.ppf(0.001, runs, WANTED_POWER), f"{hits} of {runs}"


@cache
def right_runs(name: str) -> tuple[Certificate, ...]:
    piece = MUSEUM[name]
    return tuple(
        certified(piece.certificate, piece.right, seed=seed, n=RUN_SAMPLES, level=RUN_LEVEL)
        for seed in range(1000, 1000 + RUNS)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTINCT_RIGHT)
def test_the_right_code_passes_200_runs_at_the_nominal_rate(name):
    runs = right_runs(name)
    alarms = sum(run.rejected for run in runs)
    # Bonferroni keeps the whole certificate at or below its level
    assert alarms <= stats.binom.ppf(0.999, RUNS, RUN_LEVEL), f"{alarms} alarms in {RUNS} runs"
    # a single test has no such slack: its p-values are uniform, so too few alarms would be as suspicious as too many
    low, high = stats.binom.ppf([0.0005, 0.9995], RUNS, RUN_LEVEL)
    assert low <= single_test_alarms(runs) <= high


def single_test_alarms(runs) -> int:
    """Alarms of the test of all leading tokens, taken alone."""
    leading = [
        [test for test in run.tests if test.kind == "text" and len(test.positions) == test.positions[-1]]
        for run in runs
    ]
    return sum(tests[-1].fit.p_value < RUN_LEVEL for tests in leading)


@pytest.mark.slow
def test_the_single_test_has_its_level_over_all_right_codes():
    alarms = sum(single_test_alarms(right_runs(name)) for name in DISTINCT_RIGHT)
    runs = RUNS * len(DISTINCT_RIGHT)
    low, high = stats.binom.ppf([0.0005, 0.9995], runs, RUN_LEVEL)
    assert low <= alarms <= high, f"{alarms} of {runs} single tests at level {RUN_LEVEL}"


@pytest.mark.slow
def test_chain_with_noise_by_position_passes_where_block_fails():
    chain = NoiseCase(POSITION_CASE.laws, verify_chain, gamma=2, horizon=5, wanted=7)
    case = chain.certificate(BY_POSITION, MUSEUM["noise_by_position"].certificate.n)
    assert not certified(case, BY_POSITION).rejected
    assert certified(MUSEUM["noise_by_position"].certificate, BY_POSITION).rejected


@pytest.mark.slow
def test_the_hole_in_the_draft_cache_leaves_the_law_alone():
    law, other = random_law("target", 3, zeros=False), random_law("draft", 3, zeros=False)

    def model(masses) -> PrefixModel:
        import torch

        return PrefixModel(3, lambda prefix: torch.tensor([float(mass) for mass in masses(prefix)]).log())

    # the draft model keeps its own cache: a memo in front of it would hide the hole
    engine = Engine(MemoisedModel(model(law), capacity=16), LeavesAHole(model(other)), "chain", 1)
    honest = Engine(MemoisedModel(model(law), capacity=16), ModelDrafter(model(other)), "chain", 1)
    for tried in (engine, honest):
        certificate = certify(tried, [0, 1], SamplingParams(), gamma=1, n=600)
        assert not certificate.rejected, certificate.sentence
