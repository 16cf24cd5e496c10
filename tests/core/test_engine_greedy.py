"""Greedy text is the same with and without speculation: models with memory, every gamma, stops, limits, drafters."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.warp import SamplingParams

GREEDY = SamplingParams(temperature=0)


@pytest.mark.parametrize("gamma", range(9))
@pytest.mark.parametrize("rule", ["chain", "greedy"])
def test_every_drafter_leaves_the_greedy_text_alone(gamma: int, rule: str, random_law, model_of) -> None:
    for case in range(4):
        law = random_law(("greedy", case), 5)
        plain = Engine(model_of(law, 5), None, rule, 0).generate([case, 1], GREEDY, 25)
        drafters = (
            ModelDrafter(model_of(random_law(("off", case), 5), 5)),
            ModelDrafter(model_of(law, 5)),
            ModelDrafter(model_of(law, 5), temperature=1.0),
            NGramDrafter(),
            NGramDrafter(5, 2),
        )
        for drafter in drafters:
            generation = Engine(model_of(law, 5), drafter, rule, gamma).generate([case, 1], GREEDY, 25)
            assert generation.tokens == plain.tokens
            assert generation.finish_reason == plain.finish_reason == "length"


def greedy_text(law, prompt: Sequence[int], count: int, stop: Sequence[int], max_length: int) -> tuple[int, ...]:
    """The definition: the lowest-index argmax, token by token."""
    tokens = list(prompt)
    while len(tokens) < min(len(prompt) + count, max_length):
        masses = law(tuple(tokens))
        tokens.append(masses.index(max(masses)))
        if tokens[-1] in stop:
            break
    return tuple(tokens[len(prompt) :])


@settings(max_examples=150)
@given(data=st.data())
def test_fuzz_against_the_definition(data: st.DataObject, random_law, model_of) -> None:
    vocab = data.draw(st.integers(1, 6))
    token = st.integers(0, vocab - 1)
    prompt = data.draw(st.lists(token, min_size=1, max_size=6))
    max_length = data.draw(st.integers(len(prompt) + 1, len(prompt) + 20))
    count, gamma = data.draw(st.integers(1, 20)), data.draw(st.integers(0, 9))
    stop = tuple(data.draw(st.lists(token, max_size=2)))
    seed = data.draw(st.integers(0, 5))
    law, other = random_law(seed, vocab), random_law((seed, data.draw(st.booleans())), vocab)
    drafter = data.draw(
        st.sampled_from(
            [
                None,
                ModelDrafter(model_of(law, vocab, max_length=max_length)),
                ModelDrafter(model_of(other, vocab, max_length=max_length + 7)),
                ModelDrafter(model_of(other, vocab, max_length=max(1, max_length - 3))),
                NGramDrafter(),
            ]
        )
    )
    target = model_of(law, vocab, max_length=max_length)
    params = SamplingParams(temperature=0, stop=stop)
    generation = Engine(target, drafter, data.draw(st.sampled_from(["chain", "greedy"])), gamma).generate(
        prompt, params, count
    )
    expected = greedy_text(law, prompt, count, stop, max_length)
    assert generation.tokens == expected
    assert generation.finish_reason == ("stop" if expected[-1] in stop else "length")
    assert target.caches[0].tokens == [*prompt, *expected][:-1]
    assert target.caches[0].rows_moved == 0
    assert max(before + len(fed) for before, fed in target.fed) <= max_length


def test_a_mixture_of_good_and_bad_stretches_stays_right(random_law, model_of) -> None:
    """The drafter agrees for stretches of ten tokens and errs for stretches of ten: rollbacks of every size."""
    law, other = random_law("stretch", 4), random_law("stretch off", 4)
    drafter = ModelDrafter(model_of(lambda prefix: (law if len(prefix) // 10 % 2 else other)(prefix), 4))
    plain = Engine(model_of(law, 4), None, "chain", 0).generate([1], GREEDY, 80).tokens
    generation = Engine(model_of(law, 4), drafter, "chain", 6).generate([1], GREEDY, 80)
    assert generation.tokens == plain
    assert {0, 6} <= {r.num_accepted for r in generation.trace.rounds}


def test_one_engine_serves_many_requests_in_a_row(random_law, model_of) -> None:
    law = random_law("row", 5)
    drafter = ModelDrafter(model_of(random_law("row off", 5), 5))
    engine = Engine(model_of(law, 5), drafter, "chain", 4)
    for prompt in ([1], [4, 3, 2, 1], [1, 2], [0] * 9):
        assert engine.generate(prompt, GREEDY, 15).tokens == greedy_text(law, prompt, 15, (), 1000)


class _Wave:
    """A controller whose gamma changes every round, negative and huge values included."""

    name = "wave"

    def gamma(self, rounds: Sequence[object]) -> int:
        return (3, -2, 0, 40, 1)[len(rounds) % 5]

    def may_continue(self, drafted: int, law: object) -> bool:
        return drafted < 3


def test_a_controller_may_change_gamma_and_stop_early(random_law, model_of) -> None:
    law, other = random_law("wave", 4), random_law("wave off", 4)
    model = model_of(other, 4)
    generation = Engine(model_of(law, 4), ModelDrafter(model), "chain", _Wave()).generate([2], GREEDY, 40)
    assert generation.tokens == greedy_text(law, [2], 40, (), 1000)
    assert max(len(r.draft_tokens) for r in generation.trace.rounds) == 3
    for r in generation.trace.rounds:
        assert r.draft_rows is not None
        assert r.draft_rows <= r.target_rows
    sequence = [2, *generation.tokens]
    assert model.caches[0].tokens == sequence[: len(model.caches[0])]


def test_a_controller_that_refuses_the_first_draft_makes_plain_steps(random_law, model_of) -> None:
    class Never(_Wave):
        def may_continue(self, drafted: int, law: object) -> bool:
            return False

    law = random_law("never", 4)
    model = model_of(law, 4)
    generation = Engine(model_of(law, 4), ModelDrafter(model), "chain", Never()).generate([2], GREEDY, 12)
    assert generation.tokens == greedy_text(law, [2], 12, (), 1000)
    assert {r.kind for r in generation.trace.rounds} == {"plain"}
    assert model.caches[0].tokens == [2, *generation.tokens][: len(model.caches[0])]
