"""Fuzz of the warpers, of residuals and of draws: a law, a token of positive weight, or a ValueError that names."""

from collections.abc import Callable
from fractions import Fraction
import json
import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
import torch

from specdec_core.coins import PhiloxCoins, inverse_cdf
from specdec_core.residual import acceptance, mass, one_hot, residual, residual_of_one_hot, scaled_excess, without
from specdec_core.warp import SamplingParams

EXAMPLES = [pytest.param(12, id="few"), pytest.param(260, id="many", marks=pytest.mark.slow)]
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SHAPES = ((), (4,), (0, 4), (2, 0), (1, 2, 3))

LOGIT = st.one_of(
    st.floats(-30, 30),
    st.sampled_from([0.0, -0.0, 1e-45, 5e-324, 1e-38, 3e38, -3e38, 65504.0, -65504.0, 1e300, -1e300, -math.inf]),
)
FAULT = st.sampled_from([math.nan, math.inf])


@st.composite
def logits(draw: st.DrawFn) -> torch.Tensor:
    if draw(st.integers(0, 19)) == 0:
        return torch.zeros(draw(st.sampled_from(SHAPES)))
    rows, vocab = draw(st.integers(1, 3)), draw(st.integers(1, 7))
    value = st.one_of(LOGIT, FAULT) if draw(st.integers(0, 5)) == 0 else LOGIT
    table = draw(st.lists(st.lists(value, min_size=vocab, max_size=vocab), min_size=rows, max_size=rows))
    return torch.tensor(table, dtype=torch.float64).to(draw(st.sampled_from(FLOATS)))


@st.composite
def params(draw: st.DrawFn) -> SamplingParams:
    token = st.integers(0, 6)
    size = st.sampled_from([0.0, 1e-45, 0.5, -0.5, 1e30, -1e30, 3e38])
    return SamplingParams(
        repetition_penalty=draw(st.sampled_from([1.0, 1.3, 1e-30, 1e30, 1e-45, 5e-324])),
        frequency_penalty=draw(size),
        presence_penalty=draw(size),
        logit_bias=draw(st.dictionaries(token, st.one_of(size, st.just(-math.inf)), max_size=2)),
        allowed_ids=draw(st.none() | st.lists(token, min_size=1, max_size=5).map(tuple)),
        bad_words=tuple(draw(st.lists(st.lists(token, min_size=1, max_size=3).map(tuple), max_size=2))),
        temperature=draw(st.sampled_from([0.0, 1e-6, 1e-5, 1e-3, 1.0, 1e4, 3e38])),
        top_k=draw(st.sampled_from([0, 1, 3, 10**6])),
        top_p=draw(st.sampled_from([1.0, 0.9, 1e-30, 5e-324, 1 - 2.0**-53])),
        min_p=draw(st.sampled_from([0.0, 5e-324, 1e-30, 0.3, 1 - 2.0**-53, 1.0])),
    )


@pytest.mark.parametrize("examples", EXAMPLES)
def test_any_logits_and_settings_give_a_law_or_a_named_refusal(examples: int) -> None:
    @settings(max_examples=examples)
    @given(st.data(), logits(), params())
    def run(data: st.DataObject, table: torch.Tensor, settings_: SamplingParams) -> None:
        top = table.shape[-1] - 1 if table.ndim and table.shape[-1] else 0
        token = st.integers(-1, top + 1) if data.draw(st.integers(0, 9)) == 0 else st.integers(0, top)
        rows = table.shape[0] if table.ndim else 0
        history = [data.draw(st.lists(token, max_size=5)) for _ in range(rows)]
        try:
            law = settings_.probs(table, history, prompt_length=data.draw(st.integers(0, 5)))
        except ValueError as error:
            named = ("logits", "everything is banned", "penalties", "history", "names token", "prompt_length")
            assert any(name in str(error) for name in named), error
            return
        check_law(law, table, settings_)

    run()


def check_law(law: torch.Tensor, table: torch.Tensor, given_: SamplingParams) -> None:
    assert law.dtype == torch.float32
    assert law.shape == table.shape
    assert bool(torch.isfinite(law).all())
    assert bool((law >= 0).all())
    assert torch.allclose(law.sum(-1), torch.ones(len(law)), atol=1e-5)
    banned = {word[0] for word in given_.bad_words if len(word) == 1}
    banned |= {token for token, bias in given_.logit_bias.items() if bias == -math.inf}
    if given_.allowed_ids is not None:
        banned |= set(range(law.shape[1])) - set(given_.allowed_ids)
    assert float(law[:, sorted(banned)].sum()) == 0
    assert float(law[table.to(torch.float32) == -math.inf].sum()) == 0


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**400, -(10**400), 2**64, math.nan, math.inf, -math.inf, 1e-320, 1e308, Fraction(1, 3), 1j]),
    st.sampled_from(["", "7", b"x", [], {}, (), [[]], [1, 2], [[1], [2, 3]], {1: 2.0}, {"a": 1}, {1: "b"}, {1.5: 2}]),
    st.sampled_from([np.float32(0.5), np.int64(3), np.array([1, 2]), torch.tensor(0.5), Fraction(10**400), object]),
)


@pytest.mark.parametrize("examples", EXAMPLES)
def test_any_value_makes_parameters_or_is_refused_by_name(examples: int) -> None:
    @settings(max_examples=2 * examples)
    @given(st.dictionaries(st.sampled_from(sorted(SamplingParams.__slots__)), JUNK, min_size=1, max_size=2))
    def run(values: dict[str, Any]) -> None:
        try:
            made = SamplingParams(**values)
        except ValueError as error:
            assert any(name in str(error) for name in values), error
            return
        data = json.loads(json.dumps(made.to_dict(), allow_nan=False))
        assert SamplingParams.from_dict(data) == made

    run()


# --- residuals and draws ---

MASS = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 5e-324, 1e-310, 1e-45, 1e-38, 6e-8, 1.0]))
BAD_MASS = st.sampled_from([-0.1, -1e-300, math.nan, math.inf, -math.inf, 1e308])


@st.composite
def laws(draw: st.DrawFn, size: int, dtype: torch.dtype) -> torch.Tensor:
    """Weights whose sum may be anything, rarely with one that is no weight."""
    values = draw(st.lists(MASS, min_size=size, max_size=size))
    if size and draw(st.integers(0, 9)) == 0:
        values[draw(st.integers(0, size - 1))] = draw(BAD_MASS)
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def answer(function: Callable[..., Any], *args: Any) -> Any:
    """What the function says; None when it refuses with a message."""
    try:
        return function(*args)
    except ValueError as error:
        assert str(error)
        return None


@pytest.mark.parametrize("examples", EXAMPLES)
def test_residuals_are_never_nan_and_never_outside_p(examples: int) -> None:
    @settings(max_examples=examples)
    @given(st.data(), st.integers(0, 6), st.sampled_from(FLOATS), st.sampled_from(FLOATS))
    def run(data: st.DataObject, size: int, dtype: torch.dtype, other: torch.dtype) -> None:
        p, q = data.draw(laws(size, dtype)), data.draw(laws(size + (data.draw(st.integers(0, 9)) == 0), other))
        is_fine = size > 0 and all(bool(((law >= 0) & torch.isfinite(law)).all()) for law in (p, q))
        is_fine = is_fine and float(p.double().sum()) > 0
        token = data.draw(st.integers(-1, size))
        for rest in (answer(residual, p, q), answer(residual_of_one_hot, p, token)):
            if is_fine and rest is not None:
                assert bool(torch.isfinite(rest).all())
                assert bool((rest >= 0).all())
                assert bool(((rest == 0) | (p > 0)).all())
        kept = answer(acceptance, p, q)
        assert kept is None or not is_fine or 0 <= kept < math.inf
        excess = answer(scaled_excess, p, q, 0.5)
        assert excess is None or not is_fine or 0 <= excess[1] < math.inf
        less = answer(without, p, token) if 0 <= token < size else None
        assert less is None or not is_fine or (bool(torch.isfinite(less).all()) and float(less[token]) == 0)
        assert (answer(mass, p, token) is None) == (not 0 <= token < size or not 0 <= float(p[token]) < math.inf)
        assert (answer(one_hot, p, token) is None) or 0 <= token < size

    run()


@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_draw_takes_a_positive_weight_or_is_refused(examples: int) -> None:
    @settings(max_examples=examples)
    @given(
        st.data(), st.integers(0, 6), st.sampled_from(FLOATS), st.sampled_from([0.0, 0.5, 1 - 2.0**-53]), st.booleans()
    )
    def run(data: st.DataObject, size: int, dtype: torch.dtype, v: float, as_list: bool) -> None:
        weights: Any = data.draw(laws(size, dtype))
        values = weights.double().tolist()
        if as_list:
            weights = [Fraction(x) if math.isfinite(x) else x for x in values]
        can_draw = any(values) and all(math.isfinite(x) and x >= 0 for x in values)
        drawn = (
            answer(inverse_cdf, weights, v),
            answer(lambda: PhiloxCoins(2).at(request=3, length=4).draw(weights, node=0, purpose="draft")),
        )
        for token in drawn:
            assert (token is not None) == can_draw
            assert token is None or values[token] > 0

    run()


def test_weights_too_small_to_divide_by_are_drawn_in_proportion() -> None:
    """5e-324 is the smallest number there is: every score of a race over such weights would be infinite."""
    counts = [0, 0, 0]
    for request in range(300):
        counts[PhiloxCoins(1).at(request=request, length=1).draw([5e-324, 0.0, 5e-324], node=0, purpose="draft")] += 1
    assert counts[1] == 0
    # a fair coin 300 times; alpha 1e-5
    assert abs(counts[0] - 150) < 4.5 * 75**0.5
