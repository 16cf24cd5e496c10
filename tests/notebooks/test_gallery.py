"""`make gallery`: pages run at the learner's size, are kept with their pictures, and a failing cell fails the run."""

from collections.abc import Callable
import json
from pathlib import Path

import nbformat
import pytest

from specdec_labs.gallery import commit_of, main, report_table, run_page

ROOT = Path(__file__).resolve().parents[2]
SHOWS = """import os
assert "SPECDEC_FAST" not in os.environ
from IPython.display import display
import plotly.graph_objects as go
from specdec_labs.widgets.coin import coin_editor
from specdec_labs.widgets.predictions import note_prediction
note_prediction("which?", "this", 1.0, True)
display(coin_editor(["1/2", "1/2"], ["1/4", "3/4"], names=["cat", "dog"], drafted=1, u=0.9))
go.Figure(go.Scatter(y=[1, 4, 2]))"""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes a folder like a clone, whose notebooks hold the cells given; the shell around it asks for fast mode."""
    monkeypatch.setenv("SPECDEC_FAST", "1")

    def make(**pages: list[str]) -> Path:
        for folder in ("notebooks", "docs/results", "exercises", "specdec_core"):
            (tmp_path / folder).mkdir(parents=True)
        (tmp_path / "docs" / "gallery.md").write_text("# Pages\n\n<!-- gallery -->\n\nold\n", encoding="utf-8")
        for name, cells in pages.items():
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
            nbformat.write(notebook, tmp_path / "notebooks" / f"{name}.ipynb")
        return tmp_path

    return make


@pytest.mark.browser
def test_pages_are_kept_with_their_pictures_and_the_report(clone: Callable[..., Path]) -> None:
    root = clone(a=[SHOWS], b=["print('said in b')"])
    assert main(["--root", str(root)]) == 0
    made = root / "build" / "gallery"
    assert sorted(path.name for path in made.iterdir()) == ["a-01.png", "a-02.png", "a.html", "b.html", "index.html"]
    for name in ("a-01.png", "a-02.png"):
        picture = (made / name).read_bytes()
        assert picture[:4] == b"\x89PNG" and int.from_bytes(picture[16:20]) >= 600 and len(picture) > 5_000
    report = json.loads((root / "docs" / "results" / "gallery.json").read_text(encoding="utf-8"))
    assert [(page["notebook"], page["cells"], page["pictures"]) for page in report["pages"]] == [
        ("a", 1, 2),
        ("b", 1, 0),
    ]
    assert all(page["seconds"] > 0 and page["peak_mib"] > 20 for page in report["pages"])
    stamp = f"{report['hardware']['processor']}, {report['hardware']['cores']} cores, threads: "
    assert stamp in (made / "index.html").read_text(encoding="utf-8")
    html = (made / "a.html").read_text(encoding="utf-8")
    assert stamp in html and html.count('src="data:image/png;base64,') == 2 and "the same as text" in html
    assert "said in b" in (made / "b.html").read_text(encoding="utf-8")
    page = (root / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert page == f"# Pages\n\n<!-- gallery -->\n\n{report_table(report)}\n"
    assert not (root / "work").exists(), "a run of the gallery is nobody's progress"


def test_a_broken_cell_fails_the_run_and_keeps_the_report(
    clone: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    root = clone(a=["1 + 1", "[].missing", "print('never')"], b=["print('still run')"])
    assert main(["--root", str(root)]) == 1
    said = capsys.readouterr()
    assert "a: " in said.out and "FAILED at cell 1: AttributeError: 'list' object has no attribute" in said.out
    assert "not every cell ran: a; the report was left as it was" in said.err
    made = root / "build" / "gallery"
    assert "stopped at cell 1: AttributeError" in (made / "index.html").read_text(encoding="utf-8")
    assert "AttributeError" in (made / "a.html").read_text(encoding="utf-8")
    assert "still run" in (made / "b.html").read_text(encoding="utf-8")
    assert (root / "docs" / "gallery.md").read_text(encoding="utf-8").endswith("\n\nold\n")
    assert not (root / "docs" / "results" / "gallery.json").exists()


def test_a_cell_without_end_and_a_dead_kernel_are_failures(clone: Callable[..., Path]) -> None:
    root = clone(slow=["while True: pass"], dead=["import os\nos._exit(1)"])
    assert run_page(root / "notebooks" / "slow.ipynb", timeout_s=2).failure.startswith("cell 0: CellTimeoutError")
    assert run_page(root / "notebooks" / "dead.ipynb").failure.startswith("cell 0: DeadKernelError")


def test_one_page_alone_leaves_the_report(clone: Callable[..., Path]) -> None:
    root = clone(a=["1 + 1"], b=["[].missing"])
    assert main(["--root", str(root), str(root / "notebooks" / "a.ipynb")]) == 0
    assert not (root / "docs" / "results" / "gallery.json").exists()
    for wrong in ([str(root / "notebooks" / "c.ipynb")], ["--root", str(root / "docs")]):
        with pytest.raises(SystemExit):
            main(["--root", str(root), *wrong])


def test_outside_a_clone_the_commit_is_unknown(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == "unknown"


def test_the_committed_report_has_every_notebook_and_its_page_the_table() -> None:
    report = json.loads((ROOT / "docs" / "results" / "gallery.json").read_text(encoding="utf-8"))
    assert [page["notebook"] for page in report["pages"]] == sorted(
        path.stem for path in (ROOT / "notebooks").glob("*.ipynb")
    )
    assert report["hardware"]["processor"] and report["hardware"]["threads"] and report["commit"] != "unknown"
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert page.endswith(f"<!-- gallery -->\n\n{report_table(report)}\n")
