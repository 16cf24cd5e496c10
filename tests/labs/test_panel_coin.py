"""The coin editor's view model: the exact law of the code that runs, one decision at a time, and samples of it."""

from fractions import Fraction
import json
from typing import Any

import pytest

from specdec_core.residual import acceptance, residual
from specdec_labs.widgets.coin import static_coin, view_model
from specdec_labs.widgets.coin.bugs import BUGS
from specdec_labs.widgets.coin.samples import CHUNK

P, Q = ["1/2", "1/3", "1/6"], ["1/5", "1/5", "3/5"]


def look(**settings: Any) -> dict[str, Any]:
    return view_model({"p": P, "q": Q, **settings})


def column(view: dict[str, Any], name: str) -> list[Fraction]:
    return [Fraction(row[name]["exact"]) for row in view["rows"]]


def test_the_rule_gives_p_in_exact_fractions() -> None:
    view = look()
    p, q = column(view, "p"), column(view, "q")
    assert column(view, "law") == p == [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]
    assert column(view, "residual") == list(residual(p, q))
    assert column(view, "kept") == [min(a, b) for a, b in zip(p, q)]
    assert view["acceptance"]["exact"] == str(acceptance(p, q)) == "17/30"
    assert view["tv"]["exact"] == "0" and "whatever q is" in view["verdict"]


@pytest.mark.parametrize(
    ("bug", "tv"),
    [
        ("recovery_from_target", "1/12"),
        ("argmax_verify", None),
        ("lossy_threshold", None),
        ("softmax_q", None),
        ("draft_temperature_ignored", None),
        ("pruned_vocabulary", None),
    ],
)
def test_every_mistake_bends_the_law_and_the_rows_still_sum_to_one(bug: str, tv: str | None) -> None:
    view = look(bug=bug)
    assert sum(column(view, "law")) == 1 and sum(column(view, "gap")) == 0
    assert Fraction(view["tv"]["exact"]) == sum(abs(gap) for gap in column(view, "gap")) / 2 > 0
    assert tv is None or view["tv"]["exact"] == tv
    assert view["tv"]["exact"] in view["verdict"]


def test_redrawing_from_p_by_hand() -> None:
    p, q = (Fraction(3, 5), Fraction(2, 5), Fraction(0)), (Fraction(1, 5), Fraction(3, 10), Fraction(1, 2))
    beta = 1 - sum(map(min, p, q))
    view = view_model({"bug": "recovery_from_target"})
    assert column(view, "law") == [min(a, b) + beta * a for a, b in zip(p, q)]


def test_equal_laws_hide_the_mistakes_of_the_redraw() -> None:
    view = view_model({"p": ["1/2", "1/2", "0"], "q": ["1/2", "1/2", "0"], "bug": "recovery_from_target"})
    assert view["tv"]["value"] == 0 and "does not show" in view["verdict"]


@pytest.mark.parametrize(
    ("u", "accepted", "words"),
    [(0.27, True, "u = 0.270 < 5/18"), (0.28, False, "u = 0.280 ≥ 5/18"), (0.0, True, "is kept")],
)
def test_the_coin_decides_strictly_below_the_ratio(u: float, accepted: bool, words: str) -> None:
    decision = look(drafted=2, u=u, v=0.0)["decision"]
    assert decision["ratio"] == {"exact": "5/18", "value": 5 / 18}
    assert decision["accepted"] is accepted and words in decision["say"]


def test_the_token_after_a_refusal_is_drawn_at_v_from_the_residual() -> None:
    low, high = (look(drafted=2, u=0.9, v=v)["decision"] for v in (0.0, 0.99))
    assert (low["token"], high["token"]) == (0, 1)
    assert low["masses"] == [9 / 13, 4 / 13, 0.0] and low["source"] == "recovered"
    wrong = look(drafted=2, u=0.9, v=0.99, bug="recovery_from_target")["decision"]
    assert wrong["token"] == 2, "redrawn from p, the refused token comes again"


def test_a_token_without_mass_is_refused_at_u_zero_and_one_without_q_is_never_proposed() -> None:
    impossible = view_model({"drafted": 2, "u": 0.0})["decision"]
    assert not impossible["accepted"] and "no mass" in impossible["say"]
    unreachable = view_model({"q": ["1", "0", "0"], "drafted": 1})["decision"]
    assert not unreachable["is_possible"] and "never proposes dog" in unreachable["say"]


def test_a_proposal_without_drawing_ignores_the_choice() -> None:
    assert look(bug="softmax_q", drafted=0)["decision"]["drafted"] == 2


def test_whole_weights_are_divided_by_their_sum() -> None:
    assert column(view_model({"p": ["3", "2", "1"], "q": ["1", "1", "3"]}), "p") == column(look(), "p")
    assert column(view_model({"p": ["0.5", "0.25", "1/4"]}), "p")[0] == Fraction(1, 2)


def test_samples_go_on_where_fewer_stopped_and_match_their_law() -> None:
    few, more = look(rounds=CHUNK)["sampled"], look(rounds=3 * CHUNK)["sampled"]
    assert more["history"][0] == few["history"][-1]
    assert sum(more["counts"]) == more["n"] == 300 and more["p_value"] > 1e-3


def test_a_mistake_drifts_away_while_the_rule_does_not() -> None:
    right, wrong = (look(rounds=1500, bug=bug)["sampled"] for bug in ("none", "recovery_from_target"))
    assert right["p_value"] > 1e-3 > wrong["p_value"]
    assert abs(wrong["tv"] - 1 / 12) < 0.04 and wrong["history"][-1][0] == 1500


def test_an_impossible_token_is_certain_and_few_counts_are_no_test() -> None:
    assert view_model({"bug": "lossy_threshold", "p": ["1", "1", "0"], "q": ["1", "1", "1"], "rounds": 100})["sampled"]
    rare = view_model({"p": ["97/100", "2/100", "1/100"], "rounds": 100})["sampled"]
    assert rare["p_value"] is None
    sure = view_model({"p": ["1", "0", "0"], "q": ["1", "1", "1"], "rounds": 100})["sampled"]
    assert sure["counts"] == [100, 0, 0] and sure["p_value"] == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p": ["1", "x", "0"]}, r"p\[1\] is 'x'"),
        ({"p": ["1/0", "1", "0"]}, r"p\[0\]"),
        ({"p": ["-1", "1", "1"]}, r"p\[0\] is '-1'"),
        ({"q": ["0", "0", "0"]}, "q is all zero"),
        ({"p": ["1", "1"]}, "names, p and q have 3, 2 and 3"),
        ({"bug": "none?"}, "expected one of none"),
        ({"drafted": 3}, "drafted is 3"),
        ({"u": 1.0}, "u is 1.0"),
        ({"v": "a"}, "v is 'a'"),
        ({"rounds": 10**6}, "rounds is 1000000"),
        ({"bug": "pruned_vocabulary", "q": ["0", "0", "1"]}, "nothing to draw from"),
    ],
)
def test_bad_settings_are_refused_with_a_reason(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        view_model(settings)


def test_every_view_is_plain_data_and_its_twin_holds_the_numbers() -> None:
    for bug in BUGS:
        view = look(bug=bug, rounds=100)
        assert json.loads(json.dumps(view)) == view
        assert view["tv"]["exact"] in static_coin({"p": P, "q": Q, "bug": bug, "rounds": 100}).html
