"""What a run found, as data and as text: checks, times, bytes, share of the measured copy bandwidth, gaps."""

from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
import platform
from typing import Any

from specdec_labs.bench_kernels.plan import HEADLINES
from specdec_labs.bench_kernels.supervisor import Run, placed

DRY_RUN = "dry run: interpreter, no speeds"
PACKAGES = ("torch", "triton", "numpy", "vllm", "flashinfer-python")


def results(run: Run, *, device: str, command: str) -> dict[str, Any]:
    """The run as data for JSON, plots and tables."""
    checks, times, bandwidth = [], [], None
    for job, answer in placed(run):
        if job.kind == "copy":
            bandwidth = answer.get("bytes_per_s")
        elif job.kind == "check":
            checks.append({"operator": job.case.operator, "arm": job.arm, **answer})
        else:
            times.append({"case": asdict(job.case), "label": job.case.label, "arm": job.arm, **answer})
    for row in times:
        row["share"] = share(row, bandwidth)
    return {
        "title": DRY_RUN if device == "cpu" else "kernels on a GPU",
        "dry_run": device == "cpu",
        "command": command,
        "device": device,
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "copy_bytes_per_s": bandwidth,
        "checks": checks,
        "times": times,
        "left_out": [run.jobs[place].label for place in run.left_out],
        "interrupted": run.interrupted,
        "worker_processes": run.starts,
        "seconds": round(run.seconds, 1),
    }


def share(row: dict[str, Any], bandwidth: float | None) -> float | None:
    """Least bytes of the case over (median time in a graph, else of single calls) over the copy bandwidth."""
    time = row.get("graph_median_us") or row.get("median_us")
    if not time or not bandwidth or not row.get("floor_bytes"):
        return None
    return row["floor_bytes"] / (time * 1e-6) / bandwidth


def passed(found: dict[str, Any]) -> bool:
    """Every check right, and every case of our own kernels ran. A peer that fails is the peer's matter."""
    own = [row for row in found["times"] if row["arm"] == "triton"]
    return not wrong_checks(found) and not any("error" in row for row in own)


def wrong_checks(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Checks that found a difference or failed; one that cannot run on this device is neither."""
    return [check for check in found["checks"] if not check.get("passed") and "unavailable" not in check]


def summary(found: dict[str, Any]) -> str:
    """Text for the terminal: what is wrong first, then the headline cases."""
    lines = ["", found["title"]]
    if found["copy_bytes_per_s"]:
        lines.append(f"measured copy bandwidth (read + written): {found['copy_bytes_per_s'] / 1e9:.0f} GB/s")
    bad, right = wrong_checks(found), sum(bool(check.get("passed")) for check in found["checks"])
    lines.append(
        f"checks: {right} right, {len(bad)} wrong, {len(found['checks']) - right - len(bad)} not for this device"
    )
    lines += [f"  {check['operator']} {check['arm']}: {_problem(check)}" for check in bad]
    broken = [row for row in found["times"] if "error" in row]
    lines += [f"  failed: {row['label']}, {row['arm']}: {row['error'].splitlines()[0][:120]}" for row in broken]
    headlines = {case.label for case in HEADLINES}
    rows = [row for row in found["times"] if found["dry_run"] or row["label"] in headlines]
    lines += ["", *text_table(rows)]
    if found["left_out"]:
        lines.append(f"left out for want of time: {len(found['left_out'])} of the plan (listed in the JSON file)")
    ended = ", interrupted" if found["interrupted"] else ""
    lines.append(f"{found['seconds']:.0f} s, {found['worker_processes']} worker process(es){ended}")
    return "\n".join(lines)


def text_table(rows: Iterable[dict[str, Any]]) -> list[str]:
    """A row an arm: microseconds (min and median) in a graph and of single calls, MB moved at least, share."""
    table = [("case", "arm", "graph us", "single us", "MB", "share", "")]
    table += [(row["label"], row["arm"], *cells(row)) for row in rows]
    widths = [max(len(line[column]) for line in table) for column in range(6)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0])).rstrip() for line in table]


def cells(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """The figures of a row as text, and what stands in place of them."""
    if "error" in row or "unavailable" in row:
        return "", "", "", "", row.get("unavailable") or f"failed: {row['error'].splitlines()[0][:80]}"
    graph, single = (
        "" if row.get(f"{kind}median_us") is None else f"{row[f'{kind}min_us']:.1f} / {row[f'{kind}median_us']:.1f}"
        for kind in ("graph_", "")
    )
    size = "" if row.get("floor_bytes") is None else f"{row['floor_bytes'] / 1e6:.2f}"
    part = "" if row.get("share") is None else f"{100 * row['share']:.0f} %"
    note = row.get("note", "") + (f"; no graph: {row['graph_error']}"[:80] if row.get("graph_error") else "")
    return graph, single, size, part, note


def _problem(check: dict[str, Any]) -> str:
    if "error" in check:
        return f"failed: {check['error'].splitlines()[0][:160]} ({'; '.join(check.get('where', [])[-1:])})"
    return f"{check.get('wrong')} wrong and {check.get('near_ties')} near-ties of {check.get('cases')}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
