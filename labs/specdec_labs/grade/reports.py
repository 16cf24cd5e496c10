"""The reports of several tasks together: a table, JSON, JUnit XML and CSV."""

from collections.abc import Iterator, Sequence
import csv
from dataclasses import dataclass
from html import escape
import io
import re
from typing import Any
from xml.etree import ElementTree

from specdec_labs.grade.report import Report, ink

SCHEMA = "specdec.grade"
SCHEMA_VERSION = 2

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, repr=False)
class Reports(Sequence[Report]):
    """Reports in the order of the tasks, and remarks about the run as a whole.

    `alarms` say why the run cannot be trusted: it is not ok then, whatever the reports say.
    """

    reports: tuple[Report, ...]
    notes: tuple[str, ...] = ()
    title: str = ""
    alarms: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.reports)

    def __getitem__(self, index: Any) -> Any:
        return self.reports[index]

    def __iter__(self) -> Iterator[Report]:
        return iter(self.reports)

    def of(self, task_id: str) -> Report:
        """The report on one task. ValueError when there is none."""
        for report in self.reports:
            if report.task_id == task_id:
                return report
        raise ValueError(f"task_id is {task_id!r}; there are reports on {', '.join(r.task_id for r in self.reports)}")

    @property
    def ok(self) -> bool:
        """Whether every task is solved, and nothing speaks against the run."""
        return bool(self.reports) and not self.alarms and all(report.ok for report in self.reports)

    @property
    def points(self) -> int:
        """The points of all tasks."""
        return sum(report.points for report in self.reports)

    @property
    def most(self) -> int:
        """The points there are: one a property."""
        return sum(len({result.name for result in report.results}) for report in self.reports)

    @property
    def summary(self) -> str:
        """One sentence that never claims more than was run."""
        solved = sum(report.ok for report in self.reports)
        not_run = sum(report.hidden_not_run for report in self.reports)
        text = f"{solved} of {len(self.reports)} tasks solved, {self.points} of {self.most} properties"
        text += f"; {not_run} hidden checks not run" if not_run else ""
        return text + ("; NOT TO BE TRUSTED, see the warning" if self.alarms else "")

    def __str__(self) -> str:
        shown = [str(report) for report in self.reports if report.started or len(self.reports) == 1]
        missing = [report.task_id for report in self.reports if not report.started]
        if missing and len(self.reports) > 1:
            shown.append(
                f"not started: {', '.join(missing)}\nwhat a task asks: check it alone (--exercise {missing[0]})"
            )
        notes = [f"Note: {text}" for text in self.notes]
        alarms = [f"WARNING: {text}" for text in self.alarms]
        return "\n\n".join([*shown, "\n".join([*notes, *alarms, f"{self.title}{self.summary}"])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cards = "".join(report._repr_html_() for report in self.reports if report.started)
        missing = ", ".join(escape(report.task_id) for report in self.reports if not report.started)
        rest = f'<p style="{ink("not started")}">not started: {missing}</p>' if missing else ""
        notes = "".join(f"<p>{escape(text)}</p>" for text in self.notes)
        notes += "".join(f"<p><b>WARNING: {escape(text)}</b></p>" for text in self.alarms)
        return f"<div>{cards}{rest}{notes}<p><b>{escape(self.title)}{escape(self.summary)}</b></p></div>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data with a schema name and version."""
        return {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "ok": self.ok,
            "points": self.points,
            "of": self.most,
            "summary": self.summary,
            "tasks": [report.to_dict() for report in self.reports],
            "notes": list(self.notes),
            "alarms": list(self.alarms),
        }

    def to_junit(self) -> str:
        """JUnit XML: a suite a task, a test case a property; "not started" and an alarm count against it."""
        root = ElementTree.Element("testsuites", {"name": SCHEMA})
        for report in self.reports:
            _suite(root, report)
        if self.alarms:
            _alarm_suite(root, self.alarms)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"

    def to_csv(self, submission: str) -> str:
        """One row a task: submission, task, points, what there is to get, status in words, recognised mistakes."""
        sink = io.StringIO()
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(["submission", "task", "points", "of", "summary", "diagnoses"])
        for report in self.reports:
            most = len({result.name for result in report.results})
            names = " ".join(text.split(":")[0] for text in report.diagnoses)
            # nothing handed in must not look like nine wrong answers
            summary = report.summary if report.started else "not started"
            summary = f"WARNING: {' '.join(self.alarms)} {summary}" if self.alarms else summary
            writer.writerow([_cell(submission), report.task_id, report.points, most, _cell(summary), names])
        return sink.getvalue()


def _suite(root: ElementTree.Element, report: Report) -> None:
    statuses = [result.status for result in report.results]
    errors = statuses.count("error")
    failures = len(statuses) - errors - statuses.count("passed")
    counts = {"tests": len(statuses), "failures": failures, "errors": errors}
    attributes = {"name": report.task_id} | {name: str(count) for name, count in counts.items()}
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for result in report.results:
        owner = f"{report.task_id}.{result.part}.{result.about}"
        case = ElementTree.SubElement(suite, "testcase", {"classname": owner, "name": result.name})
        if result.status != "passed":
            tag = "error" if result.status == "error" else "failure"
            problem = ElementTree.SubElement(case, tag, {"message": result.what, "type": result.status})
            problem.text = _NOT_XML.sub("?", f"{result.detail}\nwhy it matters: {result.why}")
    remarks = _NOT_XML.sub("?", "\n".join((report.summary, *report.diagnoses, *report.notes)))
    ElementTree.SubElement(suite, "system-out").text = remarks


def _alarm_suite(root: ElementTree.Element, alarms: Sequence[str]) -> None:
    count = str(len(alarms))
    suite = ElementTree.SubElement(
        root, "testsuite", {"name": "the run", "tests": count, "failures": "0", "errors": count}
    )
    for number, text in enumerate(alarms, start=1):
        case = ElementTree.SubElement(suite, "testcase", {"classname": "the run", "name": f"alarm {number}"})
        ElementTree.SubElement(case, "error", {"message": _NOT_XML.sub("?", text), "type": "alarm"})


def _cell(text: str) -> str:
    # a spreadsheet takes a cell that begins so for a formula
    return f"'{text}" if text[:1] in "=+-@" else text
