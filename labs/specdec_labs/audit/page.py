"""The tables of docs/audit.md, from the files in docs/results/."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
import itertools
from typing import Any

from specdec_core.goodness import Fit, fit
from specdec_core.laws import target_law
from specdec_core.rules import verify_block
from specdec_labs.audit.keyed_law import keyed_law
from specdec_labs.audit.tables import Tables, coin_example, paper_example
from specdec_labs.audit.vllm_audit import DRAFTED, HORIZON

PREDICTED = {
    "block-probabilistic-paper": paper_example,
    "block-greedy-coin": lambda: coin_example().greedy(),
}
"""Audits whose law is known exactly under position-keyed noise: pairs without memory."""


def findings_table(files: Iterable[dict[str, Any]]) -> str:
    """One row an audit."""
    rows = []
    for finding in (finding for file in files for finding in file["findings"]):
        certificate = finding["certificate"]
        worst = max(certificate["tests"], key=lambda test: test["fit"]["tv"])
        cells = (f"{certificate['n']:,}", f"{certificate['power']:.3f}", f"{certificate['p_value']:.2g}")
        distance = f"{worst['fit']['tv']:.3f} ({worst['noise_tv']:.3f})"
        sound = "no deviation found" if certificate["conclusive"] else "no verdict"
        verdict = sound if certificate["p_value"] > certificate["level"] else "**not the target's law**"
        rows.append((_name(finding), *cells, distance, verdict))
    return _table(("audit", "n", "power", "p", "TV", "verdict"), rows)


def prediction_table(files: Iterable[dict[str, Any]]) -> str:
    """How well all texts of an audit fit the target's law, and the law that position-keyed noise predicts."""
    rows = []
    for finding in (finding for file in files for finding in file["findings"]):
        if finding["name"] in PREDICTED:
            fits = prediction(finding)
            rows.append((_name(finding), *(f"{found.chi_square:.1f}, p = {found.p_value:.2g}" for found in fits)))
    return _table(("audit", "chi-square (31 df) to the target's law", "to the predicted law"), rows)


def prediction(finding: dict[str, Any]) -> tuple[Fit, Fit]:
    """The fit of an audit's texts to the target's law and to the predicted one."""
    pair: Tables = PREDICTED[finding["name"]]()
    texts = list(itertools.product(range(pair.vocab), repeat=HORIZON))
    counts = [finding["texts"].get(" ".join(map(str, text)), 0) for text in texts]
    laws = target_law(pair.target_after, (), HORIZON), keyed_law(pair, verify_block, DRAFTED, HORIZON)
    first, second = (fit(counts, [float(law.get(text, Fraction(0))) for text in texts], 1e-3) for law in laws)
    return first, second


def keys_table(file: dict[str, Any]) -> str:
    """One row a setting of `specdec_labs.audit.ablation`; block verification and, for comparison, chain with both."""
    rows = []
    for row in file["rows"]:
        keyed = " and ".join(row["keyed"]) or "nothing"
        cells = (f"{row['tv']:.4f} ({row['noise_tv']:.4f})", row["exact_tv"] or "", f"{row['second_token_zero']:.4f}")
        rows.append((row["pair"], row["rule"], keyed, *cells))
    return _table(("pair", "rule", "keyed by position", "TV", "exact", "P(second token = 0)"), rows)


def _name(finding: dict[str, Any]) -> str:
    seed = finding["certificate"]["seed"]
    return f"`{finding['name']}`" + (f", seed {seed}" if seed else "")


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
