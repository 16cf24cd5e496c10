"""What a report says, as text, card, data and XML."""

import csv
import io
import json
from typing import Any
from xml.etree import ElementTree

import pytest

from specdec_labs.grade.report import PropertyResult, Report
from specdec_labs.grade.reports import Reports


def result(name: str, status: str, detail: str = "", part: str = "public") -> PropertyResult:
    """A result with short texts."""
    return PropertyResult(part, name, "residual", status, f"what {name}", f"why {name}", "P01", detail)  # type: ignore[arg-type]


PASSED = result("first", "passed")
FAILED = result("second", "failed", "<b>1/2</b> & \x00\x1b[31mred")
ERROR = result("third", "error", "ZeroDivisionError")
OPEN = result("fourth", "not started", "NotImplementedError")
HIDDEN = result("first", "passed", part="hidden")


def report(*results: PropertyResult, **more: Any) -> Report:
    """A report of a task that does not exist."""
    return Report("E01.residual", "a title", results, **more)


def test_summary_never_claims_more_than_was_run() -> None:
    public = report(PASSED, hidden_not_run=1)
    assert public.summary == "public checks passed (1), 1 hidden not run"
    assert report(PASSED, FAILED, hidden_not_run=2).summary == "public checks: 1 of 2 passed, 2 hidden not run"
    both = report(PASSED, HIDDEN, hidden_seed=7)
    assert both.summary == "public checks passed (1), hidden checks passed (1), seed 7"
    for found in (both, public):
        assert found.ok and "all passed" not in str(found).lower() and "Stuck?" not in str(found)
    together = Reports((public, both))
    assert together.summary == "2 of 2 tasks solved, 2 of 2 properties; 1 hidden checks not run"


def test_points_count_a_property_once_and_only_when_it_passed_everywhere() -> None:
    failed = result("first", "failed", "an example", part="hidden")
    assert report(PASSED, HIDDEN, hidden_seed=1).points == 1
    assert report(PASSED, failed, hidden_seed=1).points == 0
    assert Reports((report(PASSED, FAILED), report(OPEN))).points == 1
    assert Reports((report(PASSED, FAILED), report(OPEN))).most == 3


def test_an_empty_report_is_not_ok() -> None:
    assert not Report("E01.residual", "a title", ()).ok and Report("E01.residual", "a title", ()).score == 0


def test_text_names_what_why_and_pointer_of_each_failure() -> None:
    found = report(PASSED, FAILED, ERROR, OPEN, diagnoses=("clamps_q: an epsilon",), notes=("a remark",))
    text = str(found)
    for part in ("[FAIL] second: what second", "why it matters: why second", "read on: P01", "[ERROR] third"):
        assert part in text
    assert "why it matters: why first" not in text and "Diagnosis: clamps_q" in text and "Note: a remark" in text
    assert 'hint("E01.residual", 1)' in text and found.score == 0.25 and repr(found) == text


def test_the_same_reason_is_printed_once() -> None:
    found = report(ERROR, result("again", "error", "ZeroDivisionError"))
    assert str(found).count("ZeroDivisionError") == 1 and "as above" in str(found)
    assert found._repr_html_().count("ZeroDivisionError") == 1


def test_card_escapes_what_the_learner_wrote_and_shows_words_beside_colours() -> None:
    card = report(PASSED, FAILED, ERROR, diagnoses=("<script>",))._repr_html_()
    assert "<b>1/2</b>" not in card and "&lt;b&gt;1/2&lt;/b&gt;" in card and "<script>" not in card
    assert ">FAIL</b>" in card and ">pass</b>" in card
    # on dark paper the colours alone had a contrast of 3 to 1
    assert card.count("currentColor)") == 3
    ElementTree.fromstring(card.replace("\x00", "").replace("\x1b", ""))


def test_json_has_a_schema_and_every_result() -> None:
    one = report(PASSED, FAILED, diagnoses=("d",), notes=("n",), hidden_seed=5)
    data = json.loads(json.dumps(Reports((one,), ("of all",)).to_dict()))
    assert data["schema"] == "specdec.grade" and data["version"] == 2 and data["notes"] == ["of all"]
    assert data["ok"] is False and data["points"] == 1 and data["of"] == 2
    (task,) = data["tasks"]
    assert task["task"] == "E01.residual" and task["hidden_seed"] == 5 and task["score"] == 0.5
    assert [entry["status"] for entry in task["results"]] == ["passed", "failed"]


def test_junit_is_valid_xml_with_counts() -> None:
    root = ElementTree.fromstring(Reports((report(PASSED, FAILED, ERROR, OPEN, diagnoses=("d\x00",)),)).to_junit())
    (suite,) = root
    assert root.tag == "testsuites" and suite.tag == "testsuite" and suite.get("name") == "E01.residual"
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "4",
        "failures": "2",
        "errors": "1",
    }
    cases = suite.findall("testcase")
    assert [len(list(case)) for case in cases] == [0, 1, 1, 1]
    assert cases[1].get("classname") == "E01.residual.public.residual" and cases[1].find("failure") is not None


def test_csv_has_a_row_a_task_and_no_formula() -> None:
    text = Reports((report(PASSED, FAILED, diagnoses=("clamps_q: an epsilon",)), report(OPEN))).to_csv("=cmd.py")
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["submission", "task", "points", "of", "summary", "diagnoses"]
    assert rows[1] == ["'=cmd.py", "E01.residual", "1", "2", "public checks: 1 of 2 passed", "clamps_q"]
    assert rows[2][2:5] == ["0", "1", "not started"], "nothing handed in is not a wrong answer"


def test_an_alarm_is_in_every_form_and_nothing_is_ok_then() -> None:
    found = Reports((report(PASSED),), alarms=("it changed <x>\x00",))
    assert not found.ok and found.to_dict()["ok"] is False and found.to_dict()["alarms"] == ["it changed <x>\x00"]
    assert "WARNING: it changed <x>" in str(found) and found.summary.endswith("NOT TO BE TRUSTED, see the warning")
    assert "WARNING: it changed &lt;x&gt;" in found._repr_html_()
    suite = ElementTree.fromstring(found.to_junit())[-1]
    assert suite.get("errors") == "1" and suite[0][0].get("message") == "it changed <x>?"
    assert list(csv.reader(io.StringIO(found.to_csv("a.py").replace("\x00", ""))))[1][4].startswith("WARNING: it")


def test_tasks_not_started_are_listed_and_not_spread_out() -> None:
    both = Reports((report(PASSED), Report("E99.other", "another", (OPEN,))))
    assert "not started: E99.other" in str(both) and "another" not in str(both)
    assert "--exercise E99.other" in str(both), "says how to see what is asked"
    assert "not started: E99.other" in both._repr_html_()
    assert "another" in str(Reports((Report("E99.other", "another", (OPEN,)),)))


def test_unknown_result_name_lists_the_known() -> None:
    with pytest.raises(ValueError, match="first, second"):
        Report("E01.residual", "a title", (PASSED, FAILED)).result("none")
