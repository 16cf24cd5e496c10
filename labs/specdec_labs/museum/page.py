"""The museum as Markdown tables: `docs/museum.md` holds them, and tests keep the page equal to the museum."""

from collections.abc import Iterable

from specdec_labs.museum.detect import CertificateKill, Finding
from specdec_labs.museum.piece import Piece


def story_table(pieces: Iterable[Piece]) -> str:
    """One row a piece: the mistake, its symptom, its cause, who met it, the fix."""
    rows = [
        (f"`{piece.name}`<br>{piece.title}", piece.symptom, piece.cause, piece.met_in, piece.fix) for piece in pieces
    ]
    return _table(("piece", "symptom", "cause", "met in", "fix"), rows)


def measured_table(findings: Iterable[Finding]) -> str:
    """One row a piece: what each detector says of the mistake."""
    rows = [
        (
            f"`{finding.piece.name}`",
            finding.exact_kill.wrong.says,
            finding.property_kill.wrong.says,
            *certificate_cells(finding.certificate_kill, finding.piece.instead),
        )
        for finding in findings
    ]
    return _table(("piece", "exact", "property", "certificate: n", "power", "p", "p of the right code"), rows)


def certificate_cells(kill: CertificateKill | None, instead: str) -> tuple[str, str, str, str]:
    """n, power, p-value of the wrong and of the right code; for what samples cannot show, why."""
    if kill is None:
        return (f"not visible: {instead}", "", "", "")
    return (f"{kill.wrong.n:,}", f"{kill.power:.4f}", p_text(kill.wrong.p_value), p_text(kill.right.p_value))


def p_text(p_value: float) -> str:
    """A p-value to two digits; 0 stands for a token that the target cannot say, and for numbers below 1e-300."""
    return "0" if p_value < 1e-300 else f"{p_value:.2g}"


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)
