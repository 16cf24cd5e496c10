"""`residual` and `acceptance`: values, the identity that makes the rule lossless, bad input."""

from fractions import Fraction
import math

from hypothesis import given
from hypothesis import strategies as st
import pytest
import torch

from specdec_core.residual import acceptance, mass, one_hot, residual, residual_of_one_hot, scaled_excess, without

F = Fraction


@st.composite
def two_laws(draw: st.DrawFn) -> tuple[list[Fraction], list[Fraction]]:
    vocab = draw(st.integers(1, 6))
    weights = st.lists(st.integers(0, 20), min_size=vocab, max_size=vocab).filter(any)
    p, q = draw(weights), draw(weights)
    return [F(w, sum(p)) for w in p], [F(w, sum(q)) for w in q]


def tensor(law: list[Fraction]) -> torch.Tensor:
    return torch.tensor([float(value) for value in law], dtype=torch.float64)


@given(two_laws())
def test_accepted_and_redrawn_mass_add_up_to_p(laws: tuple[list[Fraction], list[Fraction]]) -> None:
    p, q = laws
    kept = [min(a, b) for a, b in zip(p, q)]
    rest = residual(p, q)
    assert [k + (1 - acceptance(p, q)) * r for k, r in zip(kept, rest)] == p
    assert sum(rest) == 1


@given(two_laws())
def test_float_and_exact_agree(laws: tuple[list[Fraction], list[Fraction]]) -> None:
    p, q = laws
    assert acceptance(tensor(p), tensor(q)) == pytest.approx(float(acceptance(p, q)))
    if p != q:
        assert residual(tensor(p), tensor(q)).tolist() == pytest.approx([float(r) for r in residual(p, q)], abs=1e-9)


@given(two_laws(), st.integers(0, 5))
def test_residual_of_one_hot_is_residual_against_a_one_hot_q(laws, token: int) -> None:
    p, _ = laws
    token %= len(p)
    one_hot = [F(x == token) for x in range(len(p))]
    assert residual_of_one_hot(p, token) == residual(p, one_hot)
    by_tensor = residual_of_one_hot(tensor(p), token)
    assert by_tensor.tolist() == pytest.approx([float(r) for r in residual(p, one_hot)])


def test_the_inputs_are_not_written_to() -> None:
    p, q = torch.tensor([0.6, 0.4]), torch.tensor([0.2, 0.8])
    before = p.clone(), q.clone()
    residual(p, q)
    residual_of_one_hot(p, 0)
    wide = p.double()
    residual_of_one_hot(wide, 0)
    residual(wide, q.double())
    assert torch.equal(p, before[0])
    assert torch.equal(q, before[1])
    assert torch.equal(wide, p.double())


def test_a_tiny_difference_is_still_normalised_in_float64() -> None:
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.5 - 2**-25, 0.5])
    rest = residual(p, q)
    assert rest.dtype == torch.float64
    assert rest.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("function", [residual, acceptance])
def test_laws_of_different_length_are_refused(function) -> None:
    with pytest.raises(ValueError, match="q has vocab 3, p has 2"):
        function(torch.tensor([0.5, 0.5]), torch.full((3,), 1 / 3))
    with pytest.raises(ValueError, match="q has vocab 1, p has 2"):
        function([F(1, 2), F(1, 2)], [F(1)])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_laws_that_are_not_finite_are_refused(bad: float) -> None:
    law, other = torch.tensor([bad, 0.5]), torch.tensor([0.5, 0.5])
    with pytest.raises(ValueError, match="p or q"):
        residual(law, other)
    with pytest.raises(ValueError, match="p or q"):
        residual_of_one_hot(law, 1)
    with pytest.raises(ValueError, match="token 0 has mass"):
        mass(law, 0)


def test_nan_in_q_is_refused() -> None:
    with pytest.raises(ValueError, match="p or q"):
        residual(torch.tensor([0.5, 0.5]), torch.tensor([0.5, math.nan]))


@pytest.mark.parametrize("token", [-1, 2])
def test_a_token_outside_the_law_is_refused(token: int) -> None:
    law = torch.tensor([0.5, 0.5])
    with pytest.raises(ValueError, match=f"token {token} is outside the vocabulary"):
        residual_of_one_hot(law, token)
    with pytest.raises(ValueError, match=f"token {token} is outside the vocabulary"):
        mass(law, token)


def test_a_negative_mass_is_refused() -> None:
    with pytest.raises(ValueError, match=r"token 1 has mass -0\.5"):
        mass(torch.tensor([1.5, -0.5]), 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda p: residual(p, p),
        lambda p: acceptance(p, p),
        lambda p: scaled_excess(p, p, 0.5),
        lambda p: residual_of_one_hot(p, 1),
        lambda p: without(p, 1),
        lambda p: mass(p, 1),
        lambda p: one_hot(p, 1),
    ],
)
@pytest.mark.parametrize("batch", [torch.full((2, 2), 0.5), [[Fraction(1, 2)] * 2] * 2, torch.tensor(1.0)])
def test_a_batch_is_not_taken_for_one_law(call, batch) -> None:
    with pytest.raises(ValueError, match="expected one law"):
        call(batch)


def test_nan_is_neither_nothing_nor_a_number() -> None:
    p, nan = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.5, math.nan, 0.5])
    for call in (
        lambda: without(nan, 0),
        lambda: acceptance(p, nan),
        lambda: acceptance(nan, p),
        lambda: scaled_excess(p, nan, 1),
    ):
        with pytest.raises(ValueError, match="holds NaN or inf"):
            call()


@pytest.mark.parametrize("token", [-1, 3, 0.0, True, None])
@pytest.mark.parametrize("law", [torch.tensor([0.5, 0.25, 0.25]), [Fraction(1, 3)] * 3], ids=["float", "exact"])
def test_a_token_that_is_no_place_in_the_law(token, law) -> None:
    for function in (without, mass, one_hot, residual_of_one_hot):
        with pytest.raises(ValueError, match="token"):
            function(law, token)
