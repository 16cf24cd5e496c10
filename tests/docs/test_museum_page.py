"""docs/museum.md tells the stories of the museum, word for word; the figures are held by a slow test of the command."""

from pathlib import Path

from specdec_labs.museum import MUSEUM
from specdec_labs.museum.page import story_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "museum.md"


def test_the_page_tells_every_story():
    assert story_table(MUSEUM.values()) in PAGE.read_text(encoding="utf-8")


def test_the_page_has_a_measured_row_for_every_piece():
    measured = PAGE.read_text(encoding="utf-8").split("<!-- measured -->")[1]
    for piece in MUSEUM.values():
        (row,) = [line for line in measured.splitlines() if line.startswith(f"| `{piece.name}` |")]
        if piece.certificate is None:
            assert piece.instead in row
        else:
            assert f"| {piece.certificate.n:,} |" in row
