"""`specdec museum`: the matrix ends with 21/21, a story, bad input, Ctrl-C."""

from dataclasses import replace
from io import StringIO
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from specdec_labs.cli import museum as command
from specdec_labs.cli.app import app
from specdec_labs.museum import MUSEUM
from specdec_labs.museum.detect import Finding, Kill, examine
from specdec_labs.museum.piece import Evidence

runner = CliRunner(env={"COLUMNS": "200"})
QUICK = "accept_at_equality"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The findings of a quick piece under every name: the matrix without its minute."""
    finding = examine(MUSEUM[QUICK])
    monkeypatch.setattr(
        command,
        "examine",
        lambda piece, **given: Finding(piece, finding.exact_kill, finding.property_kill, None, 0.0),
    )


def test_the_story_of_a_piece(tmp_path: Path) -> None:
    path = tmp_path / "piece.json"
    result = runner.invoke(app, ["museum", "argmax_verify", "--json", str(path)])
    assert result.exit_code == 0, result.output
    for text in ("argmax verify at T>0", "sgl-project/sglang #39253", "221/231", "n = 200", "killed"):
        assert text in result.output
    (piece,) = json.loads(path.read_text(encoding="utf-8"))["pieces"]
    assert piece["killed"] and piece["certificate"]["power"] >= 0.99
    assert piece["certificate"]["wrong"]["rejected"] and not piece["certificate"]["right"]["rejected"]


def test_a_piece_that_samples_cannot_show_says_so() -> None:
    result = runner.invoke(app, ["museum", QUICK])
    assert result.exit_code == 0
    assert "samples cannot show it" in result.output and "2^-32" in result.output


def test_the_matrix_ends_with_the_count(quick: None) -> None:
    result = runner.invoke(app, ["museum", "--plain-text"])
    assert result.exit_code == 0, result.output
    assert result.output.rstrip().splitlines()[-1] == "21/21"
    assert all(name in result.output for name in MUSEUM)


def test_names_are_whole_on_a_narrow_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names are what `specdec museum NAME` takes; real pieces, whose other columns are wide, share the line."""
    pieces = {name: MUSEUM[name] for name in ("duplicate_siblings", "accept_at_equality", "replacement_mix_up")}
    findings = [examine(piece) for piece in pieces.values()]
    wide = replace(findings[0], piece=MUSEUM["draft_temperature_ignored"])
    for width in (60, 80):
        screen = StringIO()
        Console(width=width, file=screen).print(command._matrix([*findings, wide]))
        shown = screen.getvalue()
        assert all(name in shown for name in (*pieces, "draft_temperature_ignored"))
        assert width < 80 or "…" not in shown


def test_a_survivor_is_exit_code_1(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = command.examine

    def blind(piece, **given):
        finding = honest(piece, **given)
        missed = Kill(Evidence(True, "nothing found"), Evidence(True, "nothing found"))
        return Finding(piece, missed, finding.property_kill, None, 0.0) if piece.name == "padded_slots" else finding

    monkeypatch.setattr(command, "examine", blind)
    result = runner.invoke(app, ["museum"])
    assert result.exit_code == 1
    assert "NOT KILLED" in result.output
    assert result.output.rstrip().splitlines()[-1] == "20/21"


def test_right_code_that_fails_is_not_a_kill() -> None:
    caught = Evidence(False, "caught")
    assert Kill(caught, Evidence(True, "fine")).holds
    assert not Kill(caught, caught).holds
    assert not Kill(Evidence(True, "missed"), Evidence(True, "fine")).holds


def test_ctrl_c_leaves_cleanly(quick: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    honest, seen = command.examine, []

    def interrupted(piece, **given):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(piece)
        return honest(piece, **given)

    monkeypatch.setattr(command, "examine", interrupted)
    path = tmp_path / "museum.json"
    result = runner.invoke(app, ["museum", "--json", str(path)])
    assert result.exit_code == 130
    assert "interrupted after 2 of 21 pieces: no verdict" in result.output
    assert not path.exists()


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["no_such_piece"], "softmax_q"),
        (["--seed", "-1"], "seed is -1"),
        (["--json", "no/such/folder/file.json"], "no/such/folder"),
    ],
)
def test_bad_input_is_explained(arguments: list[str], words: str) -> None:
    result = runner.invoke(app, ["museum", *arguments])
    assert result.exit_code == 2
    assert words in result.stderr and "Traceback" not in result.output


@pytest.mark.slow
def test_the_real_museum(tmp_path: Path) -> None:
    path = tmp_path / "tables.md"
    result = runner.invoke(app, ["museum", "--markdown", str(path)])
    assert result.exit_code == 0, result.output
    assert result.output.rstrip().splitlines()[-1] == "21/21"
    page = (Path(__file__).parents[2] / "docs" / "museum.md").read_text(encoding="utf-8")
    for table in path.read_text(encoding="utf-8").rstrip().split("\n\n"):
        assert table in page, "docs/museum.md is out of date: `specdec museum --markdown FILE` writes its tables"
