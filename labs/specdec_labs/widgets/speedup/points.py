"""Points on the explorer's map: what was measured here, and what the seed documents' table prints."""

from collections.abc import Iterable, Mapping
from typing import Any

from specdec_labs.seeds.h100_table import SPECULATIVE

ORIGINS = ("measured", "quoted")

SEED_POINTS: tuple[dict[str, Any], ...] = tuple(
    {"label": row.name, "alpha": row.alpha, "gamma": row.gamma, "speedup": row.speedup, "origin": "quoted"}
    for row in SPECULATIVE
)
"""The seed documents' H100 table. Its throughputs have no source there; on the map they are quoted figures."""


def checked_points(points: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The points as plain data, each with label, alpha, gamma, speedup, origin and drafter (None: not said).

    Raises:
        ValueError: an entry is missing or out of range; a point whose gamma is beyond the map is drawn at its edge.
    """
    found = []
    for place, point in enumerate(points):
        missing = [name for name in ("alpha", "gamma", "speedup") if name not in point]
        if missing:
            raise ValueError(f"points[{place}] lacks {', '.join(missing)}; expected alpha, gamma and speedup")
        origin = point.get("origin", "measured")
        if not 0 <= point["alpha"] <= 1 or not 1 <= point["gamma"] <= 64 or point["speedup"] <= 0:
            raise ValueError(
                f"points[{place}] is {dict(point)}; expected alpha 0 to 1, gamma 1 to 64 and a speed-up above 0"
            )
        if origin not in ORIGINS:
            raise ValueError(f"points[{place}] has origin {origin!r}; expected one of {', '.join(ORIGINS)}")
        found.append(
            {
                "label": str(point.get("label", f"point {place + 1}")),
                "alpha": float(point["alpha"]),
                "gamma": int(point["gamma"]),
                "speedup": float(point["speedup"]),
                "origin": origin,
                "drafter": point.get("drafter"),
            }
        )
    return found


def measured_points(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The points of a `specdec bench speedup` report (its JSON, or `SpeedupReport.to_dict()`), one a row.

    A row without tested drafts has no alpha and is left out.

    Raises:
        ValueError: another kind of file.
    """
    if not isinstance(report, Mapping) or report.get("schema") != "specdec.speedup":
        raise ValueError("report is no specdec.speedup; write one with `specdec bench speedup --json FILE`")
    return checked_points(
        {
            "label": f"{row['drafter']}, {row['task']}, T = {row['temperature']:g}",
            "alpha": row["alpha"],
            "gamma": row["gamma"],
            "speedup": row["speedup"],
            "origin": "measured",
            "drafter": row["drafter"],
        }
        for row in report["rows"]
        if row["alpha"] is not None
    )
