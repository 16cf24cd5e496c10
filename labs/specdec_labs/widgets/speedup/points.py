"""Points on the explorer's map: what was measured here, and what the seed documents' table prints."""

from collections.abc import Iterable, Mapping
from typing import Any

from specdec_core.cost_curve import CostCurve
from specdec_labs.impossible import Speedup, curve_problem, rate_problem
from specdec_labs.seeds.h100_table import SPECULATIVE

ORIGINS = ("measured", "quoted")

SEED_POINTS: tuple[dict[str, Any], ...] = tuple(
    {"label": row.name, "alpha": row.alpha, "gamma": row.gamma, "speedup": row.speedup, "origin": "quoted"}
    for row in SPECULATIVE
)
"""The seed documents' H100 table. Its throughputs have no source there; on the map they are quoted figures."""


def checked_points(points: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The points as plain data, each with label, alpha, gamma, speedup, origin, drafter (None: not said) and problem.

    A measured point may bring `tokens` (a round; without it gamma + 1, the most there can be), the ends `low` and
    `high` of its interval, and a `problem` of its run. `problem` then says what is wrong with it; a figure above its
    tokens within its noise is drawn at them. Quoted points are left as they were printed.

    Raises:
        ValueError: an entry is missing or out of range; a point whose gamma is beyond the map is drawn at its edge.
    """
    found = []
    for place, point in enumerate(points):
        missing = [name for name in ("alpha", "gamma", "speedup") if name not in point]
        if missing:
            raise ValueError(f"points[{place}] lacks {', '.join(missing)}; expected alpha, gamma and speedup")
        origin = point.get("origin", "measured")
        known = point.get("problem", "")
        if known == "" and (not 0 <= point["alpha"] <= 1 or not 1 <= point["gamma"] <= 64 or point["speedup"] <= 0):
            raise ValueError(
                f"points[{place}] is {dict(point)}; expected alpha 0 to 1, gamma 1 to 64 and a speed-up above 0"
            )
        if origin not in ORIGINS:
            raise ValueError(f"points[{place}] has origin {origin!r}; expected one of {', '.join(ORIGINS)}")
        speedup, problem = float(point["speedup"]), ""
        if origin == "measured":
            ends, tokens = (point.get("low"), point.get("high")), point.get("tokens", point["gamma"] + 1)
            judged = Speedup(speedup, tokens, *ends, baseline=known)
            speedup, problem = judged.possible or speedup, judged.problem
        found.append(
            {
                "label": str(point.get("label", f"point {place + 1}")),
                "alpha": float(point["alpha"]),
                "gamma": int(point["gamma"]),
                "speedup": speedup,
                "origin": origin,
                "drafter": point.get("drafter"),
                "problem": problem,
            }
        )
    return found


def refusals(points: Iterable[Mapping[str, Any]]) -> str:
    """The sentences on points that are not drawn because their figures cannot be; a common reason is said once."""
    labels: dict[str, list[str]] = {}
    for point in points:
        if point["problem"]:
            labels.setdefault(point["problem"], []).append(f"{point['label']}, gamma {point['gamma']}")
    return " ".join(f"Not drawn: {'; '.join(names)} - {problem}." for problem, names in labels.items())


def measured_points(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The points of a `specdec bench speedup` report (its JSON, or `SpeedupReport.to_dict()`), one a row.

    A row without tested drafts has no alpha and is left out. What is wrong with the run's cost curve is wrong with
    every point.

    Raises:
        ValueError: another kind of file.
    """
    if not isinstance(report, Mapping) or report.get("schema") != "specdec.speedup":
        raise ValueError("report is no specdec.speedup; write one with `specdec bench speedup --json FILE`")
    baseline = curve_problem(CostCurve.from_dict(report["curve"])) if "curve" in report else ""
    return [
        {
            "label": f"{row['drafter']}, {row['task']}, T = {row['temperature']:g}",
            "alpha": row["alpha"],
            "gamma": row["gamma"],
            "speedup": row["speedup"],
            "tokens": row.get("tokens_per_round", row["gamma"] + 1),
            "low": row.get("low"),
            "high": row.get("high"),
            "problem": baseline or rate_problem("alpha", row["alpha"]),
            "origin": "measured",
            "drafter": row["drafter"],
        }
        for row in report["rows"]
        if row["alpha"] is not None
    ]
