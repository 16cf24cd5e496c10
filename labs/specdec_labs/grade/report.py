"""The result of a check: plain text, a card for Jupyter, plain data and JUnit XML."""

from dataclasses import asdict, dataclass
from html import escape
import re
import textwrap
from typing import Any, Literal
from xml.etree import ElementTree

Status = Literal["passed", "failed", "error", "not started"]
Part = Literal["public", "hidden"]
MARKS: dict[Status, str] = {"passed": "pass", "failed": "FAIL", "error": "ERROR", "not started": "not started"}
COLOURS: dict[Status, str] = {"passed": "#2e7d32", "failed": "#c62828", "error": "#ad5a00", "not started": "#757575"}
SCHEMA = "specdec.grade"
SCHEMA_VERSION = 1

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class PropertyResult:
    """How one named property came out.

    `detail` is the smallest failing example ("failed"), a short traceback or reason ("error"), or what is
    still missing ("not started"); empty when the property passed.
    """

    part: Part
    name: str
    function: str
    status: Status
    what: str
    why: str
    pointer: str
    detail: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """All properties of one exercise, the recognised mistakes, and remarks about the run.

    `hidden_seed` is None when the hidden cases were not run. `len(results)` counts a property once a part.
    """

    exercise_id: str
    results: tuple[PropertyResult, ...]
    diagnoses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    hidden_seed: int | None = None

    @property
    def ok(self) -> bool:
        """Whether every property that was asked for passed; an empty report is not ok."""
        return bool(self.results) and all(result.status == "passed" for result in self.results)

    @property
    def score(self) -> float:
        """Passed properties / properties, in [0, 1]."""
        return sum(result.status == "passed" for result in self.results) / max(len(self.results), 1)

    @property
    def summary(self) -> str:
        """One sentence that never claims more than was run."""
        hidden = "hidden not run" if self.hidden_seed is None else f"{self._count('hidden')}, seed {self.hidden_seed}"
        return f"{self._count('public')}, {hidden}"

    def _count(self, part: Part) -> str:
        statuses = [result.status for result in self.results if result.part == part]
        passed = statuses.count("passed")
        if statuses and passed == len(statuses):
            return f"{part} checks passed ({passed})"
        return f"{part} checks: {passed} of {len(statuses)} passed"

    def result(self, name: str, part: Part = "public") -> PropertyResult:
        """The result of one property. ValueError when the report has none of that name."""
        for result in self.results:
            if result.name == name and result.part == part:
                return result
        names = ", ".join(result.name for result in self.results if result.part == part)
        raise ValueError(f"name is {name!r}; this report has the {part} properties: {names or 'none'}")

    def __str__(self) -> str:
        lines = [f"{self.exercise_id}: {self.summary}"]
        for result, is_repeat in self._with_repeats():
            hidden = " (hidden)" if result.part == "hidden" else ""
            lines.append(f"  [{MARKS[result.status]}] {result.name}{hidden}: {result.what}")
            if is_repeat:
                lines.append("        as above")
            elif result.detail:
                lines.append(textwrap.indent(result.detail, " " * 8))
            if result.status == "failed" or (result.status == "error" and not is_repeat):
                lines += [f"      why it matters: {result.why}", f"      compare with: {result.pointer}"]
        lines += [f"Diagnosis: {text}" for text in self.diagnoses]
        lines += [f"Note: {text}" for text in self.notes]
        if not self.ok:
            lines.append(f'Stuck? from specdec_labs.grade import hint; print(hint("{self.exercise_id}", 1))')
        return "\n".join(lines)

    # A notebook or prompt that ends in check(...) shows the text, not the fields.
    __repr__ = __str__

    def _with_repeats(self) -> list[tuple[PropertyResult, bool]]:
        # A file that does not load, or an unfinished function, gives every property the same reason.
        seen: set[str] = set()
        rows = []
        for result in self.results:
            rows.append((result, result.status != "passed" and result.detail in seen))
            seen.add(result.detail)
        return rows

    def _repr_html_(self) -> str:
        rows = "".join(_row(result, is_repeat) for result, is_repeat in self._with_repeats())
        diagnoses = "".join(f"<p><b>Diagnosis.</b> {escape(text)}</p>" for text in self.diagnoses)
        remarks = "".join(f"<p>{escape(text)}</p>" for text in self.notes)
        if not self.ok:
            remarks += f'<p>Stuck? <code>hint("{escape(self.exercise_id)}", 1)</code></p>'
        edge = COLOURS["passed" if self.ok else "failed"]
        return (
            f'<div style="border-left:4px solid {edge};padding:0 1em;text-align:left">'
            f"<p><b>{escape(self.exercise_id)}</b>: {escape(self.summary)}</p>{diagnoses}{rows}{remarks}</div>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data with a schema name and version."""
        return {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "exercise": self.exercise_id,
            "ok": self.ok,
            "score": self.score,
            "summary": self.summary,
            "hidden_seed": self.hidden_seed,
            "results": [asdict(result) for result in self.results],
            "diagnoses": list(self.diagnoses),
            "notes": list(self.notes),
        }

    def to_junit(self) -> str:
        """The report as JUnit XML: one test case a property; "not started" counts as a failure."""
        statuses = [result.status for result in self.results]
        errors = statuses.count("error")
        counts = {
            "tests": len(statuses),
            "failures": len(statuses) - errors - statuses.count("passed"),
            "errors": errors,
        }
        attributes = {"name": self.exercise_id} | {name: str(count) for name, count in counts.items()}
        suite = ElementTree.Element("testsuite", attributes)
        for result in self.results:
            owner = f"{self.exercise_id}.{result.part}.{result.function}"
            case = ElementTree.SubElement(suite, "testcase", {"classname": owner, "name": result.name})
            if result.status != "passed":
                tag = "error" if result.status == "error" else "failure"
                problem = ElementTree.SubElement(case, tag, {"message": result.what, "type": result.status})
                problem.text = _NOT_XML.sub("?", f"{result.detail}\nwhy it matters: {result.why}")
        remarks = _NOT_XML.sub("?", "\n".join((*self.diagnoses, *self.notes)))
        ElementTree.SubElement(suite, "system-out").text = remarks
        ElementTree.indent(suite)
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _row(result: PropertyResult, is_repeat: bool) -> str:
    hidden = " (hidden)" if result.part == "hidden" else ""
    head = (
        f'<b style="color:{COLOURS[result.status]}">{MARKS[result.status]}</b> '
        f"<code>{escape(result.name)}</code>{hidden}: {escape(result.what)}"
    )
    body = f"<p><i>Why it matters:</i> {escape(result.why)}<br/><i>Compare with:</i> {escape(result.pointer)}</p>"
    if is_repeat:
        body = f"<p>As above.</p>{body}"
    elif result.detail:
        body = f'<pre style="overflow-x:auto">{escape(result.detail)}</pre>{body}'
    opened = ' open="open"' if result.status in ("failed", "error") and not is_repeat else ""
    return f"<details{opened}><summary>{head}</summary>{body}</details>"
