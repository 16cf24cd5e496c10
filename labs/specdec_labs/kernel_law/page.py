"""The tables of docs/kernel_law.md, from docs/results/kernel-law.json."""

from typing import Any


def law_table(file: dict[str, Any]) -> str:
    """One row a kernel that should have the target's law."""
    rows = []
    for finding in file["findings"]:
        if finding["mutant"] is None:
            coverage, n = finding["coverage"], finding["certificate"]["n"]
            cells = (f"{coverage['rounds'] / n:.2f}", f"{coverage['bonus'] / coverage['rounds']:.2f}")
            rows.append((f"`{finding['name']}`", finding["pair"], *_figures(finding), *cells, _verdict(finding)))
    return _table(("kernel", "pair", "n", "power", "p", "TV", "rounds a text", "without refusal", "verdict"), rows)


def mutant_table(file: dict[str, Any]) -> str:
    """One row a mutant."""
    rows = [
        (f"`{finding['name']}`", finding["mutant"], finding["pair"], *_figures(finding), _verdict(finding))
        for finding in file["findings"]
        if finding["mutant"] is not None
    ]
    return _table(("kernel", "mistake", "pair", "n", "power", "p", "TV", "verdict"), rows)


def _figures(finding: dict[str, Any]) -> tuple[str, str, str, str]:
    certificate = finding["certificate"]
    worst = max(certificate["tests"], key=lambda test: test["fit"]["tv"])
    return (
        f"{certificate['n']:,}",
        f"{certificate['power']:.3f}",
        f"{certificate['p_value']:.2g}",
        f"{worst['fit']['tv']:.3f} ({worst['noise_tv']:.3f})",
    )


def _verdict(finding: dict[str, Any]) -> str:
    names = {"passed": "no deviation found", "failed": "**not the target's law**", "no verdict": "no verdict"}
    return names[finding["certificate"]["verdict"]]


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
