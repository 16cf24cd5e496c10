"""The result of a speed-up run as data: versioned JSON, CSV, and what it says in a line."""

from collections.abc import Mapping
import csv
from dataclasses import asdict, dataclass
import io
from typing import Any

from specdec_core.cost_curve import CostCurve
from specdec_labs.bench.points import AIM_MEDIAN, AIM_P90, Errors, Point, errors
from specdec_labs.bench.rows import BreakEven, SpeedupRow
from specdec_labs.impossible import (
    Finding,
    Speedup,
    curve_noise,
    curve_problem,
    findings_of,
    needed_problem,
    rate_problem,
)

SCHEMA = "specdec.speedup"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class SpeedupReport:
    """Everything a speed-up run found; `points` are by half, `rows` over both halves."""

    pair: str
    settings: Mapping[str, Any]
    points: tuple[Point, ...]
    rows: tuple[SpeedupRow, ...]
    break_even: tuple[BreakEven, ...]
    curve: CostCurve
    prompts_run: int

    @property
    def baseline(self) -> str:
        """What is wrong with the plain arm of the whole run, by its cost curve; then no speed-up is shown."""
        return curve_problem(self.curve)

    def judged(self, row: SpeedupRow) -> Speedup:
        """The row's speed-up, if it can be."""
        return Speedup(row.speedup, row.tokens_per_round, row.low, row.high, self.baseline)

    def predictions(self, row: SpeedupRow) -> list[Speedup]:
        """The row's predictions, each beside the tokens it was made from; their noise is that of the curve."""
        noise = 1 - curve_noise(self.curve)
        pairs = zip(row.predicted, row.predicted_tokens)
        return [Speedup(value, tokens, noise * value, value, self.baseline) for value, tokens in pairs]

    @property
    def findings(self) -> list[Finding]:
        """What cannot be. Where the curve is wrong everything made from it is, and is not listed again."""
        if self.baseline:
            return findings_of({f"cost curve of {self.pair}": self.baseline})
        problems = {}
        for row in self.rows:
            predicted = next((f"the prediction: {each.problem}" for each in self.predictions(row) if each.problem), "")
            problems[row.label] = self.judged(row).problem or rate_problem("alpha", row.alpha) or predicted
        even = {f"{entry.arm.drafter}, gamma {entry.arm.gamma}": entry.needed for entry in self.break_even}
        return findings_of(problems | {name: needed_problem(value, self.curve) for name, value in even.items()})

    @property
    def errors(self) -> Errors | None:
        """How far measured and predicted are apart, where both can be; None where nothing is left."""
        refused = {
            (row.cell, row.arm)
            for row in self.rows
            if any(each.problem for each in (self.judged(row), *self.predictions(row)))
        }
        kept = [point for point in self.points if (point.cell, point.arm) not in refused]
        return errors(kept) if kept else None

    @property
    def last_line(self) -> str:
        """The error of the prediction, against its aim."""
        left = self.errors
        if left is None:
            return "prediction error: none, since every speed-up was refused"
        verdict = "reached" if left.reaches_aim else "missed"
        return (
            f"prediction error: median {100 * left.median:.1f} %, 90th percentile {100 * left.p90:.1f} % of "
            f"{left.points} points (aim {100 * AIM_MEDIAN:.0f} % and {100 * AIM_P90:.0f} %: {verdict}); "
            f"costs alone {100 * left.cost_median:.1f} % and {100 * left.cost_p90:.1f} %"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data with a schema name and version."""
        return {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "pair": self.pair,
            "settings": dict(self.settings),
            "rows": [row.to_dict() for row in self.rows],
            "points": [point.to_dict() for point in self.points],
            "break_even": [row.to_dict() for row in self.break_even],
            "errors": None if self.errors is None else asdict(self.errors),
            "findings": [finding.to_dict() for finding in self.findings],
            "curve": self.curve.to_dict(),
        }

    def to_csv(self) -> str:
        """One line a half of an arm and cell."""
        text = io.StringIO()
        columns = (
            *("drafter", "gamma", "task", "temperature", "half", "prompts", "tokens_per_round", "alpha"),
            *("measured_speedup", "predicted_speedup", "formula_speedup", "ratio", "finding"),
        )
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        problems = {(row.cell, row.arm): self.judged(row).problem for row in self.rows}
        for point in self.points:
            data = point.to_dict()
            writer.writerow(
                [
                    *(data[name] for name in columns[:6]),
                    point.tokens_per_round,
                    point.alpha,
                    point.measured,
                    point.predicted.speedup,
                    point.formula,
                    point.ratio,
                    problems[point.cell, point.arm],
                ]
            )
        return text.getvalue()
