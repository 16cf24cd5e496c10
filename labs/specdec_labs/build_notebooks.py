"""Builds notebooks/NN_name.ipynb from notebooks/src/NN_name.py (jupytext percent format), the same bytes every time.

`python -m specdec_labs.build_notebooks` writes what changed; with `--check` it writes nothing and fails when a
notebook is not what its source gives.

A cell that begins with `# %% task="E03.chain"` is filled with that task's starter from `exercises/`, so that a notebook
and an exercise never part; one with `check="E03.chain"` holds the call that checks it.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
import re
import sys
from typing import TYPE_CHECKING

from specdec_core import __version__
from specdec_labs.task_cells import Filling, fill_task_cells

if TYPE_CHECKING:
    from nbformat import NotebookNode

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_MADE_FOR = re.compile(r'^MADE_FOR = "([^"]*)"', re.MULTILINE)


def build(source: Path, filling: Filling = "starter") -> str:
    """Text of the notebook of one source: no outputs, cell ids from its name, kernel and version in the metadata.

    `filling` is what task cells hold: the "starter", or the "solution" for runs that show that everything works.

    Raises:
        ValueError: the source was made for another version of the package, has no cells, or names an unknown task.
    """
    import jupytext
    import nbformat

    text = source.read_text(encoding="utf-8")
    made_for = _MADE_FOR.search(text)
    if made_for is None or made_for[1] != __version__:
        found = "no MADE_FOR line" if made_for is None else f"MADE_FOR = {made_for[1]!r}"
        raise ValueError(f'{source.name} has {found}; expected MADE_FOR = "{__version__}", checked in its first cell')
    notebook = jupytext.reads(text, fmt="py:percent")
    if not notebook.cells:
        raise ValueError(f"{source.name} has no cells; start each with a line '# %%' or '# %% [markdown]'")
    fill_task_cells(notebook, filling)
    _settle(notebook, source.stem)
    nbformat.validate(notebook)
    return nbformat.writes(notebook, indent=1).rstrip("\n") + "\n"


def _settle(notebook: "NotebookNode", slug: str) -> None:
    """Fixes everything that would differ from one build to the next or from one machine to another."""
    notebook.metadata = {
        "kernelspec": KERNEL,
        "language_info": {"name": "python"},
        "specdec": {"version": __version__, "source": f"src/{slug}.py"},
    }
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"{slug.replace('_', '-')}-{index:02d}"
        if cell.cell_type == "code":
            cell["outputs"] = []
            cell["execution_count"] = None
            if _MADE_FOR.search(cell.source):
                # what it checks matters when it fails, and then the error is shown; a page begins with its subject
                cell["metadata"]["jupyter"] = {"source_hidden": True}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0, or 1 when `--check` found a notebook that is not what its source gives."""
    parser = argparse.ArgumentParser(prog="python -m specdec_labs.build_notebooks", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a notebook is out of date")
    parser.add_argument("--folder", type=Path, default=Path("notebooks"), help="folder with src/ (default: notebooks)")
    options = parser.parse_args(arguments)
    sources = sorted((options.folder / "src").glob("*.py"))
    if not sources:
        parser.error(f"{options.folder}/src has no .py file; run it from the repository's folder or give --folder")
    orphans = sorted({path.stem for path in options.folder.glob("*.ipynb")} - {source.stem for source in sources})
    for name in orphans:
        print(f"{name}.ipynb has no source in src/: delete it or add the source", file=sys.stderr)
    changed = [source for source in sources if _update(source, options.folder, write=not options.check)]
    if options.check and changed:
        print("run python -m specdec_labs.build_notebooks and commit the result", file=sys.stderr)
    return int(bool(orphans) or (options.check and bool(changed)))


def _update(source: Path, folder: Path, write: bool) -> bool:
    """Whether the notebook differed from its source."""
    path = folder / f"{source.stem}.ipynb"
    wanted = build(source)
    if path.exists() and path.read_text(encoding="utf-8") == wanted:
        return False
    if write:
        partial = path.with_suffix(".part")
        partial.write_text(wanted, encoding="utf-8")
        partial.replace(path)
        print(f"wrote {path.name}")
    else:
        print(f"{path.name} is not what src/{source.name} gives", file=sys.stderr)
    return True


if __name__ == "__main__":
    sys.exit(main())
