"""The check engine against learners' code that misbehaves."""

import builtins
from collections.abc import Callable, Sequence
from fractions import Fraction
import sys
from typing import Any

import numpy as np
import pytest
import torch

from specdec_labs.grade import TASKS, Report, check, check_all, take
from specdec_labs.grade.exact import Malformed, read_law, read_number
from specdec_labs.grade.plain import plain

PROPERTIES = 9


@pytest.fixture(autouse=True)
def nothing_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner's progress is none of these tests' business."""
    monkeypatch.setenv("SPECDEC_FAST", "1")


def residual(p: Sequence[Any], q: Sequence[Any]) -> list[Any]:
    excess = [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]
    return [mass / sum(excess) for mass in excess] if sum(excess) else list(p)


def rejection_probability(p: Sequence[Any], q: Sequence[Any]) -> Any:
    return 1 - sum(min(p_x, q_x) for p_x, q_x in zip(p, q, strict=True))


GOOD = {"residual": residual, "rejection_probability": rejection_probability}


def constant(answer: Any) -> dict[str, Callable[..., Any]]:
    """Both functions return the same object whatever they are asked."""
    return {name: lambda p, q: answer for name in GOOD}


class EqualsEverything:
    """An answer that claims to be right."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None
    __lt__ = __le__ = __gt__ = __ge__ = __ne__ = __eq__

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Any:
        return iter([self, self])

    def __getitem__(self, index: int) -> Any:
        return self

    def __sub__(self, other: object) -> Any:
        return self

    __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __abs__ = __sub__

    @property
    def __class__(self) -> type:
        return Fraction


class EqualList(list):
    """A list of any content that equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None


class EqualFloat(float):
    """A float that equals everything; its value is what counts."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__
    __lt__ = __le__ = __gt__ = __ge__ = __eq__


@pytest.mark.parametrize(
    "answer",
    [
        EqualsEverything(),
        [EqualsEverything(), EqualsEverything()],
        EqualList([1, 0]),
        EqualFloat(7),
        [10**6000, -(10**6000)],
        [Fraction(10**400, 3)] * 2,
        [EqualFloat("nan")] * 2,
        None,
        "1/2",
        [True, False],
        {0: 1},
        (mass for mass in (1, 0)),
        np.array([1.0, 0.0]),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_p67_objects_that_are_no_answer_score_zero(answer: Any) -> None:
    report = check("E01.residual", constant(answer))
    assert report.score == 0 and not report.ok
    assert {result.status for result in report.results} == {"failed"}


def test_float_subclasses_count_by_their_value() -> None:
    floats = {"residual": lambda p, q: [np.float64(mass) for mass in residual(p, q)]}
    report = check("E01.residual", GOOD | floats)
    assert [result.name for result in report.results if result.status != "passed"] == ["fractions_stay_exact"]


@pytest.mark.parametrize("function", [residual, lambda p, q: list(p)], ids=["right", "wrong"])
def test_p67_redefined_functions_do_not_change_the_grade(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = check("E01.residual", GOOD | {"residual": function}).to_dict()
    namespace = GOOD | {"residual": function, "isinstance": lambda *_: True, "type": id, "assert_equal": print}
    monkeypatch.setattr(np, "allclose", lambda *_, **__: True)
    with monkeypatch.context() as patch:
        for name in ("isinstance", "abs", "all", "any", "issubclass", "sum"):
            patch.setattr(builtins, name, lambda *_: True)
        bent = check("E01.residual", namespace)
        still_bent = builtins.abs(-3)
    assert bent.to_dict() == honest
    assert still_bent is True  # the notebook keeps what it defined


def test_an_exception_becomes_a_result_with_the_learners_frames_only() -> None:
    def helper(p: Any) -> Any:
        return p[99]

    report = check("E01.residual", GOOD | {"residual": lambda p, q: helper(p)})
    result = report.result("is_a_law")
    assert result.status == "error"
    assert "in helper: return p[99]" in result.detail and "IndexError" in result.detail
    assert "specdec_labs" not in result.detail and "call" not in result.detail
    assert report.result("beta_is_the_refused_mass").status == "passed"


def test_exit_in_a_function_is_a_result() -> None:
    result = check("E01.residual", GOOD | {"residual": lambda p, q: sys.exit(3)}).result("is_a_law")
    assert result.status == "error" and "SystemExit: 3" in result.detail and "sys.exit()" in result.detail


def test_recursion_without_end_and_unprintable_messages_are_results() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def endless(p: Any, q: Any) -> Any:
        return endless(p, q)

    def unprintable(p: Any, q: Any) -> Any:
        raise Unprintable

    deep = check("E01.residual", GOOD | {"residual": endless}).result("is_a_law")
    assert deep.status == "error" and "RecursionError" in deep.detail and len(deep.detail) < 1000
    assert "Unprintable" in check("E01.residual", GOOD | {"residual": unprintable}).result("is_a_law").detail


def test_ctrl_c_ends_the_check() -> None:
    def interrupted(p: Any, q: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check("E01.residual", {"residual": interrupted})


def test_missing_and_unfinished_parts_do_not_hide_the_finished_one() -> None:
    missing = check("E01.residual", {"residual": residual})
    assert missing.result("beta_is_the_refused_mass").status == "not started"
    assert "rejection_probability is not there yet" in missing.result("beta_is_the_refused_mass").detail
    assert missing.score == (PROPERTIES - 1) / PROPERTIES and not missing.ok

    def unfinished(p: Any, q: Any) -> Any:
        if list(p) == list(q):
            raise NotImplementedError("E01: p = q")
        return residual(p, q)

    partly = check("E01.residual", GOOD | {"residual": unfinished})
    assert partly.result("equal_laws_fall_back_to_p").status == "not started"
    assert partly.result("recovers_the_target").status == "passed"
    assert not check("E01.residual", {}).ok


def test_a_name_that_is_no_function_is_said() -> None:
    report = check("E01.residual", GOOD | {"residual": [1, 2]})
    assert report.result("is_a_law").status == "failed"
    assert "residual is of type list" in report.result("is_a_law").detail


def test_the_wrong_number_of_parameters_is_said() -> None:
    report = check("E01.residual", GOOD | {"residual": lambda p: p})
    assert "TypeError" in report.result("is_a_law").detail and "takes 1 positional" in report.result("is_a_law").detail


def test_wrong_use_of_check() -> None:
    with pytest.raises(ValueError, match="there are: E01.residual"):
        check("E77", GOOD)
    with pytest.raises(ValueError, match="give globals\\(\\), or a function called"):
        check("E01.residual", 5)  # type: ignore[arg-type]


def test_the_smallest_failing_example_is_shown_in_tokens_and_fractions() -> None:
    report: Report = check("E01.residual", GOOD | {"residual": lambda p, q: list(p)})
    detail = report.result("recovers_the_target").detail
    assert detail.splitlines() == [
        "'cat' comes out with 3/4 instead of 1/2",
        "beta = 1/2",
        "token  p    q  kept  beta * yours  comes out  must be",
        "cat    1/2  1  1/2   1/4           3/4        1/2",
        "dog    1/2  0  0     1/4           1/4        1/2",
    ]


def test_a_constant_law_of_floats_is_judged_with_slack_not_crashed() -> None:
    nan = check("E01.residual", GOOD | {"residual": lambda p, q: [float("nan")] * len(p)})
    assert "nan; expected a finite number" in nan.result("is_a_law").detail
    assert [text.split(":")[0] for text in nan.diagnoses] == ["divides_zero_by_zero"]


def test_a_single_function_is_asked_only_about_itself() -> None:
    report = check("E01.residual", residual)
    assert report.ok and len(report.results) == PROPERTIES - 1
    with pytest.raises(ValueError, match="a function called 'other'"):
        other = lambda p, q: list(p)  # noqa: E731
        other.__name__ = "other"
        check("E01.residual", other)


def test_a_set_is_checked_as_a_whole_and_everything_at_once() -> None:
    reports = check("E03", {})
    assert [report.task_id for report in reports] == [task for task in TASKS if task.startswith("E03.")]
    assert not reports.ok and "not started: E03.acceptance" in str(reports)
    everything = check_all(GOOD)
    assert len(everything) == len(TASKS) and everything.of("E01.residual").ok and everything.points == PROPERTIES
    assert "hidden checks not run" in everything.summary


def test_p69_names_that_another_task_rebinds_do_not_matter() -> None:
    wrong = GOOD | {"residual": lambda p, q: list(p)}
    rebound = {"Fraction": int, "p": 3, "beta": None, "max": min, "check": 4, "isinstance": lambda *_: True}
    assert check("E01.residual", rebound | wrong).to_dict() == check("E01.residual", wrong).to_dict()


def test_take_hands_out_mine_or_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert take("residual", GOOD) is residual
    assert capsys.readouterr().out == ""
    wrong = lambda p, q: list(p)  # noqa: E731
    assert take("residual", GOOD | {"residual": wrong}) is wrong
    assert "yours, which fails" in capsys.readouterr().out

    def unwritten(p: Any, q: Any) -> Any:
        raise NotImplementedError("E01.residual: residual(p, q)")

    for namespace in ({}, {"residual": unwritten}):
        reference = take("residual", namespace)
        assert reference([1, 0], [0, 1]) == [1, 0]
        assert "the reference, since yours is not written yet" in capsys.readouterr().out
    assert take("residual", GOOD, use="reference") is not residual
    with pytest.raises(ValueError, match="the tasks ask for: rejection_probability"):
        take("residuals", GOOD)
    with pytest.raises(ValueError, match="expected 'mine' or 'reference'"):
        take("residual", GOOD, use="yours")  # type: ignore[arg-type]


@pytest.mark.parametrize("one", [torch.tensor(0.5), np.array(0.5), torch.tensor(0.25) * 2, np.float32(0.5)])
def test_a_number_in_a_tensor_without_dimensions_is_that_number(one) -> None:
    assert read_number(plain(one), "the answer") == Fraction(1, 2)
    reading = read_law(plain([one, one]), ["a", "b"])
    assert reading.values == (Fraction(1, 2),) * 2 and reading.has_floats


@pytest.mark.parametrize("other", [torch.tensor([0.5]), np.array([0.5]), torch.tensor(True), torch.tensor(torch.nan)])
def test_any_other_tensor_is_no_number(other) -> None:
    with pytest.raises(Malformed):
        read_number(plain(other), "the answer")
