"""A submission as top-level statements: read from a .py or .ipynb file, and cut down to what the asked names need.

Only definitions that an asked name depends on are run: a cell that plots, loads a model or calls `check` is not, and
one that cannot be read or never ends does not sink the others.
"""

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
import json
from pathlib import Path
import re
import warnings

_MAGIC = re.compile(r"^(\s*)(?:%(?!%)|!|\?).*$|^(\s*)[\w.]+\?{1,2}$", re.MULTILINE)
_CELL_MAGIC = re.compile(r"^\s*%%(\w+)[^\n]*\n?")
_KEEPS_CODE = ("time", "timeit", "capture", "prun")
_CHUNK = re.compile(r"^(?:def |class |async def |@|# %%|import |from )")
_SEEMS_TO_BIND = re.compile(r"^(?:def\s+(\w+)|(\w+)\s*(?::[^=\n]+)?=)", re.MULTILINE)
MAX_BYTES = 20 * 2**20


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of source, under the name it has in messages; `problem` says why it cannot be read."""

    name: str
    text: str
    problem: str = ""

    @property
    def seems_to_bind(self) -> set[str]:
        """The names that an unreadable cell looks like defining."""
        return {first or second for first, second in _SEEMS_TO_BIND.findall(self.text)}


@dataclass(frozen=True, slots=True)
class Statement:
    """One top-level statement: where it stands, the names it binds or changes, and those it reads."""

    cell: str
    index: int
    line: int
    binds: frozenset[str]
    uses: frozenset[str]
    always: bool = False

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.cell}, line {self.line}"


def read_cells(path: Path) -> list[Cell]:
    """The code of a submission: the cells of a notebook, or a file as one cell.

    A cell that goes on with an indented line belongs to the one before it (a split cell). A file that does not parse is
    taken apart at its definitions, so that one slip spoils one of them.

    Raises:
        ValueError: another kind of file, one that is too large, or a notebook that is none.
    """
    if path.suffix not in (".py", ".ipynb") or not path.is_file():
        raise ValueError(f"submission is {str(path)!r}; expected an existing .py or .ipynb file{_way_to_a_file(path)}")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"submission {path.name} has {path.stat().st_size} bytes; at most {MAX_BYTES} are read")
    text = path.read_bytes().decode("utf-8", errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    if path.suffix == ".py":
        cell = Cell(path.name, text)
        return [cell] if not _problem(text) else [_judged(chunk) for chunk in _chunks(cell)]
    return [_judged(cell) for cell in _joined(_notebook_cells(path, text))]


def statements_of(cells: Sequence[Cell]) -> list[Statement]:
    """The top-level statements of every readable cell, in order."""
    return [
        Statement(
            cell.name,
            index,
            node.lineno,
            frozenset(_bound(node)),
            frozenset(found.id for found in ast.walk(node) if isinstance(found, ast.Name)),
            isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names),
        )
        for cell in cells
        if not cell.problem
        for index, node in enumerate(_parse(cell.text).body)
    ]


def needed(statements: Sequence[Statement], names: Collection[str]) -> list[Statement]:
    """The statements that bind one of `names`, or anything they read, in order."""
    wanted, chosen = set(names), set[int]()
    grows = True
    while grows:
        grows = False
        for place, statement in enumerate(statements):
            if place not in chosen and (statement.always or statement.binds & wanted):
                chosen.add(place)
                wanted |= statement.uses
                grows = True
    return [statement for place, statement in enumerate(statements) if place in chosen]


def _way_to_a_file(path: Path) -> str:
    # a set or a task in place of the file, as the other commands take it
    named = re.fullmatch(r"(E\d\d)(?:[._]\w+)?", path.name, re.IGNORECASE)
    return f"; 'specdec start {named[1].upper()}' names the file and the command" if named else ""


def _notebook_cells(path: Path, text: str) -> list[Cell]:
    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell.get("cell_type") == "code" and cell.get("source")]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"submission {path.name} is no notebook ({type(error).__name__}: {error})") from error
    return [Cell(f"code cell {number}", _without_magics(source)) for number, source in enumerate(sources, start=1)]


def _without_magics(source: str) -> str:
    magic = _CELL_MAGIC.match(source)
    if magic is not None:
        if magic[1] not in _KEEPS_CODE:
            return ""
        source = "\n" + source[magic.end() :]
    return _MAGIC.sub(lambda match: f"{match[1] or match[2] or ''}pass", source)


def _joined(cells: Sequence[Cell]) -> list[Cell]:
    joined: list[Cell] = []
    for cell in cells:
        first = next((line for line in cell.text.split("\n") if line.strip()), "")
        if joined and first[:1] in (" ", "\t") and _problem(cell.text):
            before = joined[-1]
            joined[-1] = replace(before, name=f"{before.name} and {cell.name}", text=f"{before.text}\n{cell.text}")
        else:
            joined.append(cell)
    return joined


def _chunks(cell: Cell) -> Iterator[Cell]:
    lines = cell.text.split("\n")
    starts = [0]
    for number, line in enumerate(lines):
        if _CHUNK.match(line) and number and not lines[number - 1].startswith("@"):
            starts.append(number)
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        # blank lines in front keep the numbers of the lines
        text = "\n" * start + "\n".join(lines[start:end])
        if text.strip():
            yield Cell(f"{cell.name}:{start + 1}", text)


def _judged(cell: Cell) -> Cell:
    return replace(cell, problem=_problem(cell.text))


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd escape in a learner's text is not ours to report
        return ast.parse(text)


def _problem(text: str) -> str:
    try:
        _parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        return f"{type(error).__name__}: {getattr(error, 'msg', None) or error}{line}"
    return ""


def _bound(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        case ast.Assign(value=ast.Call(func=ast.Name("take") | ast.Attribute(attr="take"))):
            pass  # `name = take("name", globals())` would put the reference where the learner's own belongs
        case ast.Expr(value=ast.Call(func=ast.Attribute() as method)):
            yield from _base(method)  # table.append(1) changes the table
        case _:
            for found in ast.walk(node):
                if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store):
                    yield found.id
                elif isinstance(found, ast.Attribute | ast.Subscript) and isinstance(found.ctx, ast.Store):
                    yield from _base(found)
                elif found is not node and isinstance(found, ast.stmt):
                    yield from _bound(found)


def _base(node: ast.expr) -> Iterator[str]:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        yield node.id
