"""The result of a speed-up run as data: versioned JSON, CSV, and what it says in a line."""

from collections.abc import Mapping
import csv
from dataclasses import asdict, dataclass
import io
from typing import Any

from specdec_core.cost_curve import CostCurve
from specdec_labs.bench.points import AIM_MEDIAN, AIM_P90, Errors, Point, errors
from specdec_labs.bench.rows import BreakEven, SpeedupRow

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
    def errors(self) -> Errors:
        """How far measured and predicted are apart."""
        return errors(self.points)

    @property
    def last_line(self) -> str:
        """The error of the prediction, against its aim."""
        found = self.errors
        verdict = "reached" if found.reaches_aim else "missed"
        return (
            f"prediction error: median {100 * found.median:.1f} %, 90th percentile {100 * found.p90:.1f} % of "
            f"{found.points} points (aim {100 * AIM_MEDIAN:.0f} % and {100 * AIM_P90:.0f} %: {verdict}); "
            f"costs alone {100 * found.cost_median:.1f} % and {100 * found.cost_p90:.1f} %"
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
            "errors": asdict(self.errors),
            "curve": self.curve.to_dict(),
        }

    def to_csv(self) -> str:
        """One line a half of an arm and cell."""
        text = io.StringIO()
        columns = (
            *("drafter", "gamma", "task", "temperature", "half", "prompts", "tokens_per_round", "alpha"),
            *("measured_speedup", "predicted_speedup", "formula_speedup", "ratio"),
        )
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
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
                ]
            )
        return text.getvalue()
