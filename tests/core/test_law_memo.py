"""Remembered laws are the laws, bit for bit; what they depend on is in the key."""

from dataclasses import replace

import pytest
import torch

from specdec_core import law_memo
from specdec_core.engine import Engine
from specdec_core.law_memo import RememberedParams
from specdec_core.warp import SamplingParams

LOGITS = torch.randn(5, 300, generator=torch.Generator().manual_seed(1)) * 2

VARIANTS = {
    "plain": SamplingParams(),
    "top-k": SamplingParams(temperature=0.8, top_k=8, seed=4, stop=(2,)),
    "top-p": SamplingParams(top_p=0.7),
    "min-p": SamplingParams(min_p=0.1, temperature=1.4),
    "bias": SamplingParams(logit_bias={3: 2.0, 5: -float("inf")}, top_k=200),
    "greedy": SamplingParams(temperature=0),
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_remembered_laws_are_the_laws(name: str, dtype: torch.dtype) -> None:
    params, logits = VARIANTS[name], LOGITS.to(dtype)
    remembered = RememberedParams.of(params)
    expected = params.probs(logits)
    assert torch.equal(remembered.probs(logits), expected)
    # again, in another order, one by one
    assert torch.equal(remembered.probs(logits.flip(0)), expected.flip(0))
    assert all(torch.equal(remembered.probs(logits[i : i + 1])[0], expected[i]) for i in range(5))
    assert len(remembered.memo.laws) == 5


def test_one_memo_serves_several_parameters_without_mixing_them_up() -> None:
    cold = RememberedParams.of(SamplingParams(temperature=0.5))
    hot = replace(cold, temperature=2.0)
    assert hot.memo is cold.memo
    for _ in range(2):
        assert torch.equal(cold.probs(LOGITS), SamplingParams(temperature=0.5).probs(LOGITS))
        assert torch.equal(hot.probs(LOGITS), SamplingParams(temperature=2.0).probs(LOGITS))
    assert len(cold.memo.laws) == 10


def test_a_law_that_a_caller_changes_does_not_change_the_memory() -> None:
    remembered = RememberedParams.of(SamplingParams())
    for _ in range(2):
        laws = remembered.probs(LOGITS)
        assert torch.equal(laws, SamplingParams().probs(LOGITS))
        laws.zero_()


def test_with_penalties_nothing_is_remembered() -> None:
    params = SamplingParams(repetition_penalty=1.5)
    remembered = RememberedParams.of(params)
    for tokens in ([1, 2], [3, 4]):
        history = [tokens] * 5
        assert torch.equal(remembered.probs(LOGITS, history), params.probs(LOGITS, history))
    assert remembered.memo.laws == {}


def test_a_full_memo_forgets_nothing_and_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(law_memo, "MAX_STORED", 700)
    remembered = RememberedParams.of(SamplingParams())
    for _ in range(2):
        assert torch.equal(remembered.probs(LOGITS), SamplingParams().probs(LOGITS))
        assert torch.equal(remembered.probs(LOGITS[:2]), SamplingParams().probs(LOGITS[:2]))
    assert len(remembered.memo.laws) == 2


def test_errors_are_those_of_the_parameters_and_name_the_row() -> None:
    logits = LOGITS.clone()
    remembered = RememberedParams.of(SamplingParams())
    remembered.probs(logits[:2])
    logits[3, 7] = float("nan")
    for _ in range(2):
        with pytest.raises(ValueError, match="row 3"):
            remembered.probs(logits)


def test_equality_copies_and_data_leave_the_memo_out() -> None:
    params = SamplingParams(top_k=4, seed=9)
    remembered = RememberedParams.of(params)
    assert remembered == RememberedParams.of(params)
    assert remembered.to_dict() == params.to_dict()
    assert "memo" not in repr(remembered)


def test_an_engine_says_the_same_with_it(model_of, random_law) -> None:
    engine = Engine(model_of(random_law("memo", 6, zeros=False), 6))
    params = SamplingParams(top_k=4, seed=2)
    remembered = RememberedParams.of(params)
    for request in range(5):
        plain = engine.generate([1], params, 8, request=request)
        assert engine.generate([1], remembered, 8, request=request).tokens == plain.tokens
    assert plain.trace.settings["params"] == params.to_dict()
