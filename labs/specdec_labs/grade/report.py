"""The result of checking a task: plain text, a card for Jupyter, and plain data."""

from dataclasses import asdict, dataclass
from html import escape
import textwrap
from typing import Any, Literal

Status = Literal["passed", "failed", "error", "not started"]
Part = Literal["public", "hidden"]
MARKS: dict[Status, str] = {"passed": "pass", "failed": "FAIL", "error": "ERROR", "not started": "not started"}
COLOURS: dict[Status, str] = {"passed": "#2e7d32", "failed": "#c62828", "error": "#ad5a00", "not started": "#757575"}


@dataclass(frozen=True, slots=True)
class PropertyResult:
    """How one named property came out.

    `detail` is the smallest failing example ("failed"), a short traceback or reason ("error"), or what is
    still missing ("not started"); empty when the property passed. `about` is the function or value it is about.
    """

    part: Part
    name: str
    about: str
    status: Status
    what: str
    why: str
    pointer: str
    detail: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """All properties of one task, the recognised mistakes, and remarks about the run.

    `hidden_seed` is None when no random cases were run; `hidden_not_run` counts the properties that could have been.
    `len(results)` counts a property once a part.
    """

    task_id: str
    title: str
    results: tuple[PropertyResult, ...]
    diagnoses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    hidden_seed: int | None = None
    hidden_not_run: int = 0

    @property
    def ok(self) -> bool:
        """Whether every property that was asked for passed; an empty report is not ok."""
        return bool(self.results) and all(result.status == "passed" for result in self.results)

    @property
    def started(self) -> bool:
        """Whether anything was written."""
        return any(result.status != "not started" for result in self.results)

    @property
    def score(self) -> float:
        """Passed properties / properties, in [0, 1]."""
        return self.passed / max(len(self.results), 1)

    @property
    def passed(self) -> int:
        """Properties that passed, hidden ones counted apart."""
        return sum(result.status == "passed" for result in self.results)

    @property
    def points(self) -> int:
        """One a property that passed in every part that was run."""
        names = {result.name for result in self.results}
        return len(names - {result.name for result in self.results if result.status != "passed"})

    @property
    def summary(self) -> str:
        """One sentence that never claims more than was run."""
        parts = [self._count("public")]
        if any(result.part == "hidden" for result in self.results):
            seed = "" if self.hidden_seed is None else f", seed {self.hidden_seed}"
            parts.append(f"{self._count('hidden')}{seed}")
        if self.hidden_not_run:
            parts.append(f"{self.hidden_not_run} hidden not run")
        return ", ".join(parts)

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
        lines = [f"{self.task_id} {self.title}: {self.summary}"]
        for result, is_repeat in self._with_repeats():
            hidden = " (hidden)" if result.part == "hidden" else ""
            lines.append(f"  [{MARKS[result.status]}] {result.name}{hidden}: {result.what}")
            if is_repeat:
                lines.append("        as above")
            elif result.detail:
                lines.append(textwrap.indent(result.detail, " " * 8))
            if result.status == "failed" or (result.status == "error" and not is_repeat):
                lines += [f"      why it matters: {result.why}", f"      read on: {result.pointer}"]
        lines += [f"Diagnosis: {text}" for text in self.diagnoses]
        lines += [f"Note: {text}" for text in self.notes]
        if not self.ok:
            lines.append(f'Stuck? hint("{self.task_id}", 1) in a notebook, `specdec hint {self.task_id}` in a terminal')
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
            remarks += f'<p>Stuck? <code>hint("{escape(self.task_id)}", 1)</code></p>'
        edge = COLOURS["passed" if self.ok else "failed" if self.started else "not started"]
        return (
            f'<div style="border-left:4px solid {edge};padding:0 1em;text-align:left">'
            f"<p><b>{escape(self.task_id)}</b> {escape(self.title)}: {escape(self.summary)}</p>"
            f"{diagnoses}{rows}{remarks}</div>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "task": self.task_id,
            "title": self.title,
            "ok": self.ok,
            "score": self.score,
            "points": self.points,
            "summary": self.summary,
            "hidden_seed": self.hidden_seed,
            "hidden_not_run": self.hidden_not_run,
            "results": [asdict(result) for result in self.results],
            "diagnoses": list(self.diagnoses),
            "notes": list(self.notes),
        }


def ink(status: Status) -> str:
    """The colour of a status as a style: halfway to the colour of the text around it, so legible on light and dark.

    A browser that cannot mix colours keeps the first.
    """
    return f"color:{COLOURS[status]};color:color-mix(in srgb, {COLOURS[status]} 55%, currentColor)"


def _row(result: PropertyResult, is_repeat: bool) -> str:
    hidden = " (hidden)" if result.part == "hidden" else ""
    head = (
        f'<b style="{ink(result.status)}">{MARKS[result.status]}</b> '
        f"<code>{escape(result.name)}</code>{hidden}: {escape(result.what)}"
    )
    body = f"<p><i>Why it matters:</i> {escape(result.why)}<br/><i>Read on:</i> {escape(result.pointer)}</p>"
    if is_repeat:
        body = f"<p>As above.</p>{body}"
    elif result.detail:
        body = f'<pre style="overflow-x:auto">{escape(result.detail)}</pre>{body}'
    opened = ' open="open"' if result.status in ("failed", "error") and not is_repeat else ""
    return f"<details{opened}><summary>{head}</summary>{body}</details>"
