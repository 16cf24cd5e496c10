"""What a report says, as text, card, data and XML."""

import json
from xml.etree import ElementTree

import pytest

from specdec_labs.grade.report import PropertyResult, Report


def result(name: str, status: str, detail: str = "", part: str = "public") -> PropertyResult:
    """A result with short texts."""
    return PropertyResult(part, name, "residual", status, f"what {name}", f"why {name}", "P01", detail)  # type: ignore[arg-type]


PASSED = result("first", "passed")
FAILED = result("second", "failed", "<b>1/2</b> & \x00\x1b[31mred")
ERROR = result("third", "error", "ZeroDivisionError")
OPEN = result("fourth", "not started", "NotImplementedError")
HIDDEN = result("first", "passed", part="hidden")


def test_summary_never_claims_more_than_was_run() -> None:
    assert Report("E01", (PASSED,)).summary == "public checks passed (1), hidden not run"
    assert Report("E01", (PASSED, FAILED)).summary == "public checks: 1 of 2 passed, hidden not run"
    both = Report("E01", (PASSED, HIDDEN), hidden_seed=7)
    assert both.summary == "public checks passed (1), hidden checks passed (1), seed 7"
    for report in (both, Report("E01", (PASSED,))):
        assert report.ok and "all passed" not in str(report).lower() and "Stuck?" not in str(report)


def test_an_empty_report_is_not_ok() -> None:
    assert not Report("E01", ()).ok and Report("E01", ()).score == 0


def test_text_names_what_why_and_pointer_of_each_failure() -> None:
    report = Report("E01", (PASSED, FAILED, ERROR, OPEN), ("clamps_q: an epsilon",), ("a remark",))
    text = str(report)
    for part in ("[FAIL] second: what second", "why it matters: why second", "compare with: P01", "[ERROR] third"):
        assert part in text
    assert "why it matters: why first" not in text and "Diagnosis: clamps_q" in text and "Note: a remark" in text
    assert 'hint("E01", 1)' in text and report.score == 0.25 and repr(report) == text


def test_the_same_reason_is_printed_once() -> None:
    report = Report("E01", (ERROR, result("again", "error", "ZeroDivisionError")))
    assert str(report).count("ZeroDivisionError") == 1 and "as above" in str(report)
    assert report._repr_html_().count("ZeroDivisionError") == 1


def test_card_escapes_what_the_learner_wrote_and_shows_words_beside_colours() -> None:
    card = Report("E01", (PASSED, FAILED, ERROR), ("<script>",))._repr_html_()
    assert "<b>1/2</b>" not in card and "&lt;b&gt;1/2&lt;/b&gt;" in card and "<script>" not in card
    assert ">FAIL</b>" in card and ">pass</b>" in card
    ElementTree.fromstring(card.replace("\x00", "").replace("\x1b", ""))


def test_json_has_a_schema_and_every_result() -> None:
    data = json.loads(json.dumps(Report("E01", (PASSED, FAILED), ("d",), ("n",), 5).to_dict()))
    assert data["schema"] == "specdec.grade" and data["version"] == 1 and data["hidden_seed"] == 5
    assert [entry["status"] for entry in data["results"]] == ["passed", "failed"]
    assert data["ok"] is False and data["score"] == 0.5


def test_junit_is_valid_xml_with_counts() -> None:
    suite = ElementTree.fromstring(Report("E01", (PASSED, FAILED, ERROR, OPEN), ("d\x00",)).to_junit())
    assert suite.tag == "testsuite"
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "4",
        "failures": "2",
        "errors": "1",
    }
    cases = suite.findall("testcase")
    assert [len(list(case)) for case in cases] == [0, 1, 1, 1]
    assert cases[1].get("classname") == "E01.public.residual" and cases[1].find("failure") is not None


def test_unknown_result_name_lists_the_known() -> None:
    with pytest.raises(ValueError, match="first, second"):
        Report("E01", (PASSED, FAILED)).result("none")
