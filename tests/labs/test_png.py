"""Figures as pictures: drawn where there is a browser, refused by name where there is none."""

from pathlib import Path

import plotly.graph_objects as go
import pytest
from typer.testing import CliRunner

from specdec_labs.cli.app import app
from specdec_labs.plots.png import check_png, png_of, write_png

LINE = go.Figure(go.Scatter(x=[1, 2, 3], y=[1, 4, 2]), {"height": 300})


def size_of(picture: bytes) -> tuple[int, int]:
    """Width and height from the header of a PNG."""
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24])


@pytest.mark.browser
def test_a_figure_is_drawn_at_twice_its_size(tmp_path: Path) -> None:
    write_png(tmp_path / "a.png", LINE)
    assert size_of((tmp_path / "a.png").read_bytes()) == (2200, 600)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.png"]


@pytest.mark.browser
@pytest.mark.parametrize("command", ["curve", "speedup"])
def test_the_commands_draw_what_they_measured(command: str, tmp_path: Path) -> None:
    short = ["--minutes", "0.01"] if command == "speedup" else ["--rows", "1", "--context", "8", "--repeats", "2"]
    arguments = ["bench", command, "--pair", "toy", *short, "--tokens", "8", "--png", str(tmp_path / "a.png")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert size_of((tmp_path / "a.png").read_bytes())[0] == 2200


def test_without_a_browser_nothing_is_measured_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_browser(*_: object, **__: object) -> bytes:
        raise RuntimeError("Kaleido requires Google Chrome to be installed")

    monkeypatch.setattr(go.Figure, "to_image", no_browser)
    with pytest.raises(ValueError, match="no PNG could be drawn .*requires Google Chrome.*BROWSER_PATH.*--html"):
        png_of(LINE)
    arguments = ["bench", "curve", "--pair", "no-such-pair", "--png", str(tmp_path / "a.png")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code != 0 and "no PNG could be drawn" in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_looked_for_when_no_picture_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go.Figure, "to_image", None)
    check_png(None)
