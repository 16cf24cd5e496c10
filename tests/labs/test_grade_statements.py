"""How a submission is read: cells, magics, slips, and which statements the asked names need."""

import json
from pathlib import Path

import pytest

from specdec_labs.grade.statements import needed, read_cells, statements_of


def chosen(path: Path, text: str, *names: str) -> list[str]:
    """The first lines of the statements that are needed."""
    path.write_text(text, encoding="utf-8")
    cells = read_cells(path)
    lines = {cell.name: cell.text.split("\n") for cell in cells}
    return [lines[entry.cell][entry.line - 1] for entry in needed(statements_of(cells), names)]


def test_only_what_a_name_depends_on_is_chosen(tmp_path: Path) -> None:
    text = """import math
import torch
SCALE = 2
table = {}
for key in range(3):
    table[key] = SCALE
other = load_a_model()
table.update(x=1)
print(asked(1))
def helper(x):
    return table[x] * math.pi
def asked(x):
    return helper(x)
if __name__ == "__main__":
    asked(3)
"""
    assert chosen(tmp_path / "a.py", text, "asked") == [
        "import math",
        "SCALE = 2",
        "table = {}",
        "for key in range(3):",
        "table.update(x=1)",
        "def helper(x):",
        "def asked(x):",
    ]
    assert chosen(tmp_path / "a.py", text, "nothing") == []


def test_branches_unpacking_and_star_imports_are_seen(tmp_path: Path) -> None:
    text = "from math import *\nif FAST:\n    n = 1\nelse:\n    n = 2\n(a, b), c = pair\nclass K:\n    v = n\n"
    assert chosen(tmp_path / "a.py", text, "K") == ["from math import *", "if FAST:", "class K:"]
    assert chosen(tmp_path / "a.py", text, "b") == ["from math import *", "(a, b), c = pair"]


def test_magics_go_and_line_numbers_stay(tmp_path: Path) -> None:
    source = "%time x = 1\n!ls\nasked?\nif True:\n    %pip install x\ndef asked():\n    return 7 % 3"
    cells = [{"cell_type": "code", "source": text} for text in (source, "%%time\ny = 1", "%%bash\nls", "")]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    read = read_cells(path)
    assert [cell.problem for cell in read] == ["", "", ""]
    assert [entry.line for entry in statements_of(read) if "asked" in entry.binds] == [6]
    assert any("y" in entry.binds for entry in statements_of(read))


def test_a_slip_spoils_one_definition(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("import math\n\n@mark\ndef one():\n    return 1\n\ndef two(\n\ndef three():\n    pass\n")
    cells = read_cells(path)
    assert [bool(cell.problem) for cell in cells] == [False, False, True, False]
    assert cells[2].seems_to_bind == {"two"} and cells[2].name == "a.py:7"
    assert [entry.line for entry in statements_of(cells)] == [1, 4, 9]


@pytest.mark.parametrize("content", ["[]", '{"cells": 3}', "not json", '{"cells": [3]}'])
def test_what_is_no_notebook_is_said(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="is no notebook"):
        read_cells(path)


def test_bytes_that_are_no_text_and_nesting_without_end(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"\xef\xbb\xbfx = 1\r\ny = '\xff'\r\n")
    assert [cell.problem for cell in read_cells(path)] == [""]
    path.write_text("x = " + "(" * 5000 + ")" * 5000)
    assert all(cell.problem for cell in read_cells(path))
