"""Static twins: plain HTML that says what a live view shows, for readers that run no scripts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class StaticTwin:
    """Ready HTML that a notebook shows as it is."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def paragraph(text: str) -> str:
    """A paragraph of plain text; nothing for no text."""
    return f"<p>{escape(text)}</p>" if text else ""


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of plain text."""
    head = "".join(f'<th style="text-align: left">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align: left">{escape(str(cell))}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
