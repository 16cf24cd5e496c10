"""What the engine refuses, by the name of the argument, and that nothing is lost when it does."""

import json
import math

import numpy as np
import pytest
import torch

from specdec_core.coins import PhiloxCoins
from specdec_core.controllers import Constant
from specdec_core.draft import Draft, DraftTree
from specdec_core.drafters import Context, ModelDrafter, NGramDrafter, SuffixDrafter
from specdec_core.engine import Engine
from specdec_core.suffix_automaton import corpus_of
from specdec_core.toy import PrefixModel, one_hot_logits, toy_pair
from specdec_core.warp import SamplingParams

GREEDY = SamplingParams(temperature=0)


@pytest.fixture
def engine() -> Engine:
    target, draft = toy_pair(max_length=16)
    return Engine(target, ModelDrafter(draft), "chain", 4)


@pytest.mark.parametrize("prompt", [[], (), torch.tensor([], dtype=torch.long)])
def test_an_empty_prompt(prompt, engine: Engine) -> None:
    for call in (engine.generate, engine.stream):
        with pytest.raises(ValueError, match="prompt is empty"):
            call(prompt, GREEDY, 4)


@pytest.mark.parametrize(("prompt", "index", "token"), [([-1], 0, -1), ([1, 10], 1, 10), ([1, 2, 99, 3], 2, 99)])
def test_a_prompt_id_outside_the_vocabulary(prompt: list[int], index: int, token: int, engine: Engine) -> None:
    with pytest.raises(ValueError, match=rf"prompt\[{index}\] is {token}; expected .* 0\.\.9"):
        engine.generate(prompt, GREEDY, 4)


@pytest.mark.parametrize("prompt", [[1.5, 2], [1, "2"], [None], ["one"], torch.tensor([1.5, 2.0]), [[1], [2]]])
def test_a_prompt_id_that_is_no_whole_number(prompt: list, engine: Engine) -> None:
    with pytest.raises(ValueError, match=r"prompt\[\d\] is"):
        engine.generate(prompt, GREEDY, 4)


@pytest.mark.parametrize("length", [16, 17, 100])
def test_a_prompt_that_leaves_no_room(length: int, engine: Engine) -> None:
    with pytest.raises(ValueError, match=f"prompt has {length} tokens; the context is 16"):
        engine.generate([1] * length, GREEDY, 4)
    assert engine.generate([1] * 15, GREEDY, 4).tokens == (8,)


@pytest.mark.parametrize("count", [0, -1, -100, 2.5, 3.0, None])
def test_max_new_tokens_below_one_or_no_count(count, engine: Engine) -> None:
    with pytest.raises(ValueError, match=f"max_new_tokens is {count}; expected .* at least 1"):
        engine.generate([1], GREEDY, count)


@pytest.mark.parametrize("gamma", [-1, -10, True, 2.0, "4", None])
def test_a_gamma_that_is_no_count(gamma) -> None:
    with pytest.raises(ValueError, match="gamma is"):
        Constant(gamma)
    with pytest.raises(ValueError, match="gamma is"):
        Engine(toy_pair()[0], None, "chain", gamma)


def test_a_gamma_longer_than_the_room_left_is_shortened(engine: Engine) -> None:
    long = Engine(engine.target, engine.drafter, "chain", 1000)
    generation = long.generate([1, 2, 3], GREEDY, 5)
    assert generation.tokens == (2, 0, 5, 1, 0)
    assert [len(r.draft_tokens) for r in generation.trace.rounds] == [3, 2]


def test_an_unknown_rule() -> None:
    with pytest.raises(ValueError, match="rule is 'chian'; expected one of .*chain"):
        Engine(toy_pair()[0], None, "chian")


@pytest.mark.parametrize("count", [-1, 1.5, None])
def test_a_record_top_that_is_no_count(count) -> None:
    with pytest.raises(ValueError, match=f"record_top is {count}; expected a whole number, at least 0"):
        Engine(toy_pair()[0], record_top=count)


def test_a_rule_that_does_not_take_the_drafters_proposals(fixed_drafter) -> None:
    drafter = fixed_drafter(lambda tokens, budget: [], proposal="iid")
    with pytest.raises(ValueError, match="rule 'chain' does not take 'iid' drafts .drafter 'fixed'."):
        Engine(toy_pair()[0], drafter, "chain")


def test_a_drafter_that_proposes_what_it_did_not_announce(fixed_drafter) -> None:
    fork = Draft(DraftTree((1, 2), (-1, -1)), None, "deterministic")
    engine = Engine(toy_pair()[0], fixed_drafter(lambda tokens, budget: fork), "chain", 4)
    with pytest.raises(ValueError, match="rule 'chain' judges chains"):
        engine.generate([1], GREEDY, 9)


def test_a_drafter_of_another_vocabulary() -> None:
    other = ModelDrafter(PrefixModel(9, lambda prefix: [0.0] * 9))
    with pytest.raises(ValueError, match="drafter 'model' has vocab 9, the target 10"):
        Engine(toy_pair()[0], other)


@pytest.mark.parametrize("token", [10, -1])
def test_a_draft_id_outside_the_vocabulary(token: int, fixed_drafter) -> None:
    engine = Engine(toy_pair()[0], fixed_drafter(lambda tokens, budget: [1, token][:budget]), "chain", 4)
    with pytest.raises(ValueError, match=rf"'fixed' proposed tokens\[1\] is {token}; the vocab.* 0\.\.9"):
        engine.generate([1], GREEDY, 9)


def test_a_draft_longer_than_its_budget(fixed_drafter) -> None:
    engine = Engine(toy_pair()[0], fixed_drafter(lambda tokens, budget: [1] * (budget + 1)), "chain", 4)
    with pytest.raises(ValueError, match="drafter 'fixed' proposed 5 nodes; its budget is 4"):
        engine.generate([1], GREEDY, 9)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("row", "fault"),
    [([math.nan] + [0.0] * 9, "a NaN"), ([-math.inf] * 10, "nothing but -inf"), ([math.inf] + [0.0] * 9, "a NaN or")],
)
def test_logits_without_a_law_name_their_row(row: list[float], fault: str, temperature: float) -> None:
    # the slot behind the second draft of the first round is broken: row 2 of its verify pass
    target = PrefixModel(10, lambda prefix: row if len(prefix) == 6 else one_hot_logits(10, 3))
    draft = PrefixModel(10, lambda prefix: one_hot_logits(10, 3))
    stream = Engine(target, ModelDrafter(draft), "chain", 3).stream([1, 2, 3], SamplingParams(temperature=temperature))
    assert next(stream).tokens == (3,)
    with pytest.raises(ValueError, match=f"logits row 2 holds {fault}"):
        next(stream)
    assert stream.generation.tokens == (3,), "what was out is kept"


def test_an_engine_is_usable_again_after_a_refusal() -> None:
    faults = iter([True])

    def logits(prefix: tuple[int, ...]) -> list[float]:
        broken = len(prefix) == 7 and next(faults, False)
        return [math.nan] * 10 if broken else one_hot_logits(10, (3 * prefix[-1] + len(prefix)) % 10)

    engine = Engine(PrefixModel(10, logits), ModelDrafter(toy_pair()[1]), "chain", 4)
    with pytest.raises(ValueError, match="logits row"):
        engine.generate([1, 2, 3], GREEDY, 16)
    assert engine.generate([1, 2, 3], GREEDY, 16).tokens == (2, 0, 5, 1, 0, 8, 3, 9, 8, 6, 1, 7, 6, 4, 9, 5)


def test_banning_every_token_is_refused_with_its_row(engine: Engine) -> None:
    params = SamplingParams(temperature=0, logit_bias=dict.fromkeys(range(10), -math.inf))
    with pytest.raises(ValueError, match="everything is banned in row 0"):
        engine.generate([1], params, 4)


@pytest.mark.parametrize("value", [1.5, 1.0, -1, 2**32, "1", None])
def test_a_request_out_of_range(value, engine: Engine) -> None:
    for call in (engine.generate, engine.stream):
        with pytest.raises(ValueError, match=rf"request is {value!r}; expected a whole number, 0\.\.4294967295"):
            call([1], SamplingParams(seed=1), 4, request=value)


def test_a_stop_id_outside_the_targets_vocabulary(engine: Engine) -> None:
    with pytest.raises(ValueError, match=r"stop holds 10; the target's vocabulary has ids 0\.\.9"):
        engine.generate([1], SamplingParams(temperature=0, stop=(9, 10)), 4)
    assert engine.generate([1, 2, 3], SamplingParams(temperature=0, stop=(9, 5)), 9).tokens == (2, 0, 5)


def test_whole_numbers_of_numpy_are_counts() -> None:
    target, draft = toy_pair()
    drawn = []
    for kind in (int, np.int64, np.uint8):
        engine = Engine(target, ModelDrafter(draft), record_top=kind(2))
        params = SamplingParams(seed=kind(1), stop=(kind(9),))
        generation = engine.generate([1, 2, 3], params, kind(7), request=kind(4))
        drawn.append((generation.tokens, json.dumps(generation.trace.settings)))
    assert drawn[0] == drawn[1] == drawn[2]
    largest = engine.generate([1], SamplingParams(seed=2**64 - 1), 2, request=2**32 - 1)
    assert len(largest.tokens) == 2


def test_a_drafter_without_a_request_says_so() -> None:
    drafter = ModelDrafter(toy_pair()[1])
    with pytest.raises(ValueError, match="the drafter has no request; call start"):
        drafter.propose(Context([1], 1, GREEDY), 2, PhiloxCoins(1).at(request=0, length=1), lambda d, law: True)


@pytest.mark.parametrize("prompt", [(1, 2, 3), torch.tensor([1, 2, 3])])
def test_any_sequence_of_ids_is_a_prompt(prompt, engine: Engine) -> None:
    generation = engine.generate(prompt, GREEDY, 3)
    assert generation.tokens == (2, 0, 5)
    assert generation.trace.prompt == (1, 2, 3)
    assert Engine(engine.target, NGramDrafter()).generate(prompt, GREEDY, 3).tokens == (2, 0, 5)


def test_the_smallest_context_holds_one_token_more() -> None:
    target, draft = toy_pair(max_length=2)
    generation = Engine(target, ModelDrafter(draft), "chain", 4).generate([1], GREEDY, 50)
    assert (len(generation.tokens), generation.finish_reason) == (1, "length")


def test_numpy_whole_numbers_are_a_gamma():
    assert Constant(np.int64(3)).gamma([]) == 3
    with pytest.raises(ValueError, match="gamma is 1.5"):
        Constant(1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", [None, "tiny", 3, (toy_pair(),)])
def test_a_target_that_is_no_model(target) -> None:
    with pytest.raises(ValueError, match="target is a .*; expected a language model, such as load_pair.*target"):
        Engine(target)


@pytest.mark.parametrize("prompt", [None, "abc", 5, (token for token in [1, 2])])
def test_a_prompt_that_is_no_sequence_of_ids(prompt, engine: Engine) -> None:
    with pytest.raises(ValueError, match="prompt is a .*; expected a sequence of token ids"):
        engine.generate(prompt, GREEDY, 4)


@pytest.mark.parametrize("draft", [None, [1, 2], "12"])
def test_a_drafter_that_proposes_no_draft(draft, fixed_drafter) -> None:
    drafter = fixed_drafter(lambda tokens, budget: [])
    drafter.propose = lambda *arguments: draft
    with pytest.raises(ValueError, match="drafter 'fixed' proposed .*; expected a Draft"):
        Engine(toy_pair()[0], drafter).generate([1], GREEDY, 9)


@pytest.mark.parametrize("gamma", [None, "2", 1.5, True])
def test_a_controller_that_gives_no_count(gamma) -> None:
    controller = Constant(2)
    controller.gamma = lambda rounds: gamma
    with pytest.raises(ValueError, match=r"gamma of controller 'constant\(2\)' is .*; expected a whole number"):
        Engine(toy_pair()[0], NGramDrafter(), "chain", controller).generate([1], GREEDY, 9)


def test_what_is_asked_and_handed_out_before_round_1_is_checked_and_copied_too() -> None:
    """A drafter that reads the prompt makes the engine ask for gamma once before the first round."""
    target, draft = toy_pair()
    given: list[object] = []
    controller, drafter = Constant(2), ModelDrafter(draft)
    prefill = drafter.prefill
    drafter.prefill = lambda context: (given.append(context.tokens), prefill(context))
    controller.gamma = lambda rounds: (given.append(rounds), 2)[1]
    Engine(target, drafter, "chain", controller).generate([1, 2, 3], GREEDY, 9)
    assert len(given) > 2 and all(isinstance(one, tuple) for one in given)
    controller.gamma = lambda rounds: None
    with pytest.raises(ValueError, match="gamma of controller .* is None; expected a whole number"):
        Engine(target, ModelDrafter(draft), "chain", controller).generate([1, 2, 3], GREEDY, 9)


def test_a_corpus_of_another_vocabulary_is_named() -> None:
    drafter = SuffixDrafter(corpus=corpus_of([[1, 2, 99, 99]], 8))
    with pytest.raises(ValueError, match=r"drafter 'suffix' proposed tokens\[0\] is 99; .* corpus of another voc"):
        Engine(toy_pair()[0], drafter).generate([1], GREEDY, 9)


def test_flags_are_no_numbers(engine: Engine) -> None:
    for call in (lambda: SamplingParams(temperature=True), lambda: engine.generate([1], GREEDY, True)):
        with pytest.raises(ValueError, match=r"(temperature|max_new_tokens) is True"):
            call()
    with pytest.raises(ValueError, match="expected a tuple of token ids"):
        SamplingParams(stop={5})


def test_a_drafter_that_two_engines_share_serves_the_newer_request_alone() -> None:
    target, draft = toy_pair()
    drafter = ModelDrafter(draft)
    first, second = (Engine(target, drafter, "chain", 4) for _ in range(2))
    older = first.stream([1], GREEDY, 30)
    newer = second.stream([1, 2, 3, 4, 5, 6, 7, 8, 9], GREEDY, 8)
    with pytest.raises(ValueError, match="overtaken: its drafter serves a newer one, of this engine or of another"):
        list(older)
    assert sum((step.tokens for step in newer), ()) == Engine(target).generate(range(1, 10), GREEDY, 8).tokens
