"""The lossy rules, decision by decision: thresholds worked out by hand."""

from fractions import Fraction

import pytest
import torch

from specdec_core.coins import ScriptedCoins, branches
from specdec_core.rules.lossy import entropy, verify_relaxed, verify_typical

F = Fraction


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        # two even tokens: H = ln 2, threshold min(0.09, 0.3 / 2) = 0.09
        ([[0.5, 0.5]], 1),
        ([[0.089, 0.911]], 0),
        ([[0.091, 0.909]], 1),
        # sixteen even tokens: H = ln 16, threshold 0.3 / 16 = 0.01875 < 1 / 16
        ([[1 / 16] * 16], 1),
        # 0.02 beside twenty of 0.049: H = 3.03, threshold 0.3 exp(-3.03) = 0.0145 < 0.02
        ([[0.02] + [0.049] * 20], 1),
        # 0.01 beside twenty of 0.0495: H = 3.02, threshold 0.0146 > 0.01
        ([[0.01] + [0.0495] * 20], 0),
        ([[0.5, 0.5], [0.089, 0.911]], 1),
        ([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], 3),
        # the first refusal ends it, whatever comes later
        ([[0.089, 0.911], [0.5, 0.5]], 0),
    ],
)
def test_typical_keeps_what_is_above_the_threshold(rows, kept):
    p = [*rows, [1 / len(rows[0])] * len(rows[0])]
    for law in (p, torch.tensor(p, dtype=torch.float64)):
        verdict = verify_typical([0] * len(rows), None, law, ScriptedCoins([0.0]))
        assert (verdict.num_accepted, verdict.path) == (kept, tuple(range(kept)))
        assert verdict.kind == ("bonus" if kept == len(rows) else "recovered")


def test_typical_draws_the_next_token_from_the_row_it_ends_at():
    p = [[0.5, 0.5, 0.0], [0.05, 0.05, 0.9], [0.2, 0.2, 0.6]]
    assert (
        verify_typical([1, 0], None, p, ScriptedCoins([0.09])).next_token == 1
    )  # row 1: refused, drawn from all of it
    assert verify_typical([1, 2], None, p, ScriptedCoins([0.39])).next_token == 1  # row 2: the bonus
    assert verify_typical([1, 2], None, p, ScriptedCoins([0.41])).next_token == 2


def test_a_token_at_the_threshold_is_refused():
    p = [[0.09, 0.91], [0.5, 0.5]]
    assert 0.3 * 2.718281828 ** -entropy(p[0]) > 0.09
    assert verify_typical([0], None, p, ScriptedCoins([0.5])).num_accepted == 0


def test_entropy_is_in_nats():
    assert entropy([F(1, 2), F(1, 2), F(0)]) == pytest.approx(0.6931471805599453)
    assert entropy(torch.tensor([1.0, 0.0])) == 0
    assert entropy([0.25] * 4) == pytest.approx(1.3862943611198906)


def law_of_relaxed(q: list[F] | None, p: list[F], threshold: F) -> list[F]:
    """The law of the first token when token 0 is drafted (q None) or a draw from q."""
    found = [F(0)] * len(p)
    for token, chance in enumerate(q or [F(1)]):
        for weight, verdict in branches(
            lambda coins, token=token: verify_relaxed(
                [token], None if q is None else [q], [p, p], coins, threshold=threshold
            )
        ):
            first = token if verdict.num_accepted else verdict.next_token
            found[first] += chance * weight
    return found


def test_relaxed_accepts_too_often_by_exactly_the_threshold():
    p, q = [F(2, 10), F(8, 10)], [F(6, 10), F(4, 10)]
    # token 0 kept with 2 / (6 t): at t = 1 a third, at 1/2 two thirds, at 1/3 always
    assert law_of_relaxed(q, p, F(1)) == p
    assert law_of_relaxed(q, p, F(1, 2)) == [F(4, 10), F(6, 10)]
    assert law_of_relaxed(q, p, F(1, 3)) == q
    assert law_of_relaxed(q, p, F(1, 10)) == q


def test_relaxed_on_a_deterministic_draft():
    p = [F(2, 10), F(5, 10), F(3, 10)]
    assert law_of_relaxed(None, p, F(1)) == p
    # kept with 0.4 instead of 0.2; refused, tokens 1 and 2 share the rest 5 to 3
    assert law_of_relaxed(None, p, F(1, 2)) == [F(4, 10), F(6, 10) * F(5, 8), F(6, 10) * F(3, 8)]


def test_relaxed_redraws_from_the_residual_of_the_two_laws():
    p, q = [F(2, 10), F(5, 10), F(3, 10)], [F(6, 10), F(3, 10), F(1, 10)]
    # token 0 kept with 2/3 at t = 1/2; refused (6/10 * 1/3), tokens 1 and 2 share what p has more than q, evenly
    assert law_of_relaxed(q, p, F(1, 2)) == [F(4, 10), F(4, 10), F(2, 10)]


def test_relaxed_takes_its_default_threshold_to_be_a_half():
    p, q = [F(2, 10), F(8, 10)], [F(6, 10), F(4, 10)]
    kept = [
        weight for weight, verdict in branches(lambda coins: verify_relaxed([0], [q], [p, p], coins)) if verdict.path
    ]
    assert sum(kept) == F(2, 3)


@pytest.mark.parametrize("threshold", [F(0), F(-1, 2), F(101, 100), 2])
def test_thresholds_outside_the_unit_interval_are_refused(threshold):
    with pytest.raises(ValueError, match=f"threshold is {threshold}"):
        verify_relaxed([0], None, [[F(1), F(0)]] * 2, ScriptedCoins([0.5]), threshold=threshold)
