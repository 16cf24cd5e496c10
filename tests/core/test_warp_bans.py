"""Bad words, allowed ids and bias: what is banned where, that bans are final, and parameters as JSON."""

from collections.abc import Sequence
import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.toy import PrefixModel
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams

FLAT = torch.zeros(1, 5)


def allowed(params: SamplingParams, history: Sequence[int] = (), prompt_length: int = 0) -> list[int]:
    law = params.probs(FLAT, [history], prompt_length=prompt_length)[0]
    return law.nonzero()[:, 0].tolist()


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], [0, 1, 2, 3, 4]),
        ([1], [0, 1, 3, 4]),
        ([2], [0, 1, 2, 3, 4]),
        ([1, 2], [0, 1, 2, 3, 4]),
        ([1, 3], [0, 1, 2, 3]),
        ([1, 3, 0], [0, 1, 2, 3, 4]),
        ([0, 1, 3, 1], [0, 1, 3, 4]),
    ],
)
def test_a_token_that_would_complete_a_word_is_banned_there_only(history: list[int], expected: list[int]) -> None:
    params = SamplingParams(bad_words=((1, 2), (1, 3, 4)))
    assert params.uses_history
    for prompt_length in range(len(history) + 1):
        assert allowed(params, history, prompt_length) == expected, "the prompt counts as well"


def test_a_word_of_one_token_is_banned_everywhere_and_needs_no_history() -> None:
    params = SamplingParams(bad_words=((2,), (4,)))
    assert not params.uses_history
    assert params.probs(FLAT.repeat(3, 1)).nonzero()[:, 1].tolist() == [0, 1, 3] * 3


def test_overlapping_words_ban_together() -> None:
    params = SamplingParams(bad_words=((1, 1, 2), (1, 3), (4,)))
    assert allowed(params, [1, 1]) == [0, 1]
    assert allowed(params, [0, 1]) == [0, 1, 2]


def test_each_row_is_judged_by_its_own_history() -> None:
    params = SamplingParams(bad_words=((1, 2),))
    law = params.probs(FLAT.repeat(3, 1), [[0], [0, 1], [0, 1, 1]])
    assert (law[:, 2] > 0).tolist() == [True, False, False]


def test_allowed_ids_ban_the_rest_and_are_not_forced() -> None:
    params = SamplingParams(allowed_ids=(3, 1, 3))
    assert allowed(params) == [1, 3]
    by_model = params.probs(torch.tensor([[0.0, -math.inf, 0.0, 1.0, 0.0]]))[0]
    assert by_model.tolist() == [0, 0, 0, 1, 0], "what the model rules out stays ruled out"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "ban", [{"bad_words": ((0,), (1,))}, {"allowed_ids": (2, 3, 4)}, {"bad_words": ((4, 0), (1,))}], ids=str
)
def test_nothing_lifts_a_ban(ban: dict[str, Any], temperature: float) -> None:
    params = SamplingParams(
        **ban,
        temperature=temperature,
        logit_bias={0: 50.0, 1: 80.0},
        repetition_penalty=0.5,
        frequency_penalty=-9.0,
        presence_penalty=-9.0,
    )
    law = params.probs(torch.tensor([[5.0, 5.0, 0.0, 0.0, 0.0]]), [[0, 1, 4]])[0]
    assert law[:2].tolist() == [0.0, 0.0]


def test_filters_look_at_what_is_left() -> None:
    """top_k, top_p and min_p count the tokens that are not banned."""
    logits = torch.tensor([[0.5, 0.2, 0.15, 0.1, 0.05]]).log()
    for filters in ({"top_k": 2}, {"top_p": 0.6}, {"min_p": 0.6}):
        params = SamplingParams(allowed_ids=(1, 2, 4), bad_words=((0,),), **filters)
        law = params.probs(logits)[0]
        assert law.nonzero()[:, 0].tolist() == [1, 2], filters
        assert law[1] / law[2] == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(allowed_ids=(1,), bad_words=((0, 1),)),
        SamplingParams(allowed_ids=(1, 2), bad_words=((0, 1),), logit_bias={2: -math.inf}),
        SamplingParams(temperature=0, bad_words=tuple((0, token) for token in range(5))),
    ],
)
def test_a_row_in_which_everything_is_banned_is_refused_by_name(params: SamplingParams) -> None:
    rows = FLAT.repeat(2, 1)
    assert params.probs(rows, [[3], [1]]).sum() == 2
    with pytest.raises(ValueError, match="everything is banned in row 1: allowed_ids, bad_words and logit_bias"):
        params.probs(rows, [[3], [0]])


def test_a_fault_of_the_model_is_not_blamed_on_the_bans() -> None:
    rows = torch.tensor([[0.0, math.nan, 0.0]])
    for params in (SamplingParams(allowed_ids=(0,)), SamplingParams(bad_words=((1,),))):
        with pytest.raises(ValueError, match="logits row 0 holds a NaN"):
            params.probs(rows)
    with pytest.raises(ValueError, match="penalties or logit_bias overflow float32 in row 0"):
        SamplingParams(logit_bias={1: 3e38}).probs(torch.tensor([[0.0, 3e38]]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bad_words": ((1,), ())}, r"bad_words\[1\] is empty"),
        ({"bad_words": (1, 2)}, "bad_words is .*expected sequences of token ids"),
        ({"bad_words": ("ab",)}, "bad_words is .*expected sequences of token ids"),
        ({"bad_words": 3}, "bad_words is 3"),
        ({"allowed_ids": ()}, "allowed_ids is empty"),
        ({"allowed_ids": 3}, "allowed_ids is 3; expected a tuple of token ids, or None"),
        ({"allowed_ids": (1.5,)}, "allowed_ids is"),
        ({"logit_bias": {1: math.inf}}, r"logit_bias\[1\] is inf; expected a finite number, or -inf"),
        ({"logit_bias": {1: math.nan}}, r"logit_bias\[1\] is nan"),
        ({"stop": "ab"}, "stop is 'ab'"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SamplingParams(**given)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"bad_words": ((1, 5),)}, "bad_words"),
        ({"bad_words": ((-1, 2),)}, "bad_words"),
        ({"allowed_ids": (0, 5)}, "allowed_ids"),
    ],
)
def test_ids_outside_the_vocabulary_are_refused_by_name(given: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} names token (5|-1); the vocabulary has ids 0..4"):
        SamplingParams(**given).probs(FLAT, [[1]])


@pytest.mark.parametrize("token", [-1, 5])
def test_a_history_outside_the_vocabulary_is_refused(token: int) -> None:
    for params in (SamplingParams(presence_penalty=1), SamplingParams(bad_words=((1, 2),))):
        with pytest.raises(ValueError, match=rf"history\[0\] holds token {token}"):
            params.probs(FLAT, [[1, token]])


@pytest.mark.parametrize("history", [None, [[0], [1]]])
def test_bad_words_without_a_history_for_each_row_are_refused(history: list | None) -> None:
    with pytest.raises(ValueError, match="history has"):
        SamplingParams(bad_words=((1, 2),)).probs(FLAT, history)


@pytest.mark.parametrize("shape", [(5,), (1, 1, 5), (2, 0)])
def test_logits_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="logits has shape .*expected \\[rows, vocab\\]"):
        SamplingParams().probs(torch.zeros(shape))


@pytest.mark.parametrize(
    "params", [SamplingParams(), SamplingParams(top_k=2, top_p=0.5), SamplingParams(temperature=0)]
)
def test_no_rows_give_no_rows(params: SamplingParams) -> None:
    assert params.probs(torch.zeros(0, 5)).shape == (0, 5)


FULL = SamplingParams(
    temperature=0.5,
    top_k=4,
    top_p=0.9,
    min_p=0.05,
    repetition_penalty=1.2,
    frequency_penalty=0.1,
    presence_penalty=-0.1,
    logit_bias={3: -math.inf, 1: 2.0},
    allowed_ids=[1, 2, 3],  # type: ignore[arg-type]
    bad_words=[[1, 2], [4]],  # type: ignore[arg-type]
    seed=5,
    stop=(7, 8),
)


@pytest.mark.parametrize("params", [SamplingParams(), FULL])
def test_parameters_survive_json(params: SamplingParams) -> None:
    data = json.loads(json.dumps(params.to_dict(), allow_nan=False))
    assert SamplingParams.from_dict(data) == params == SamplingParams.from_dict(params.to_dict())
    assert set(data) == set(SamplingParams.__slots__)


def test_lists_and_numpy_numbers_become_plain_ones() -> None:
    params = SamplingParams(
        temperature=np.float32(0.5),
        top_k=np.int64(3),
        seed=np.int64(4),
        stop=[np.int64(1)],
        allowed_ids=[np.int64(2)],
        bad_words=[np.array([1, 2]).tolist()],
        logit_bias={np.int64(0): np.float32(1.5)},
    )
    plain = SamplingParams(
        temperature=0.5, top_k=3, seed=4, stop=(1,), allowed_ids=(2,), bad_words=((1, 2),), logit_bias={0: 1.5}
    )
    assert params == plain
    assert json.loads(json.dumps(params.to_dict())) == json.loads(json.dumps(plain.to_dict()))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"temprature": 1}, "'temprature' is no sampling parameter"),
        ({"logit_bias": {"a": 1}}, "logit_bias is"),
        ({"logit_bias": 3}, "logit_bias is 3"),
        ({"top_p": 2}, "top_p is 2"),
    ],
)
def test_data_that_is_no_parameters_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SamplingParams.from_dict(data)


def test_a_trace_says_with_which_parameters_it_was_made() -> None:
    engine = Engine(PrefixModel(9, lambda prefix: [0.0] * 9), NGramDrafter(), "chain", 2)
    trace = engine.generate([1, 2, 1], FULL, 12).trace
    read = Trace.from_dict(json.loads(trace.to_json()))
    assert SamplingParams.from_dict(read.settings["params"]) == FULL
    again = engine.generate(read.prompt, SamplingParams.from_dict(read.settings["params"]), 12)
    assert again.tokens == trace.emitted


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("gamma", [0, 1, 4])
def test_no_banned_sequence_comes_out_of_the_engine(gamma: int, temperature: float, random_law, model_of) -> None:
    """Words of one to three tokens over whole texts, drafted by a model and by prompt lookup."""
    words = ((0, 1), (2, 2), (1, 3, 1), (4,))
    params = SamplingParams(temperature=temperature, bad_words=words, allowed_ids=(0, 1, 2, 3, 4), seed=1)
    target = model_of(random_law("bans p", 6, zeros=False), 6)
    for drafter in (ModelDrafter(model_of(random_law("bans q", 6, zeros=False), 6)), NGramDrafter()):
        seen: set[tuple[int, ...]] = set()
        for request in range(3):
            text = engine_text(Engine(target, drafter, "chain", gamma), params, request)
            for word in words:
                # a word may begin in the prompt, which is three tokens long
                assert all(text[place : place + len(word)] != word for place in range(4 - len(word), len(text))), word
            assert 5 not in text[3:]
            seen |= {text[place : place + 2] for place in range(len(text) - 1)}
        assert temperature == 0 or {(1, 3), (0, 2), (3, 1)} <= seen, "beginnings of words are not banned"


def engine_text(engine: Engine, params: SamplingParams, request: int) -> tuple[int, ...]:
    return engine.generate([5, 0, 1], params, 60, request=request).trace.tokens


def test_the_last_token_of_the_prompt_begins_a_word() -> None:
    model = PrefixModel(3, lambda prefix: [0.0, 9.0, 0.0])
    params = SamplingParams(temperature=0, bad_words=((2, 1),))
    assert Engine(model, None, "chain", 0).generate([0, 2], params, 3).tokens == (0, 1, 1)
