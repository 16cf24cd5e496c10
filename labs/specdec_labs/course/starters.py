"""`starter.py` of every set, made from its `solution.py`: asked functions lose their bodies, asked values become None.

`python -m specdec_labs.course.starters` writes what changed; with `--check` it writes nothing and fails instead. What
begins with an underscore belongs to the solution alone and is left out, and so are imports that only it needs.
"""

import argparse
import ast
from collections.abc import Collection, Mapping, Sequence
import sys

from specdec_core.whole_file import write_whole
from specdec_labs.exercises import all_exercises
from specdec_labs.grade.tasks import TASKS


def starter_text(solution: str, asked: Mapping[str, str]) -> str:
    """The starter of a solution; `asked` gives the task id of every name that is to be written by the learner."""
    lines = solution.splitlines()
    tree = ast.parse(solution)
    kept: list[str] = []
    last = 0
    for node in tree.body:
        first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", []))]) - 1
        end = node.end_lineno or node.lineno
        name = bound_name(node)
        if name.startswith("_") and not name.startswith("__"):
            del_from = first
            while (
                del_from > last and lines[del_from - 1].startswith("# ") and not lines[del_from - 1].startswith("# %%")
            ):
                del_from -= 1
            kept += lines[last:del_from]
            while kept and not kept[-1]:
                kept.pop()
        elif name in asked:
            kept += lines[last:first] + _unwritten(node, lines, asked[name])
        else:
            kept += lines[last:end]
        last = end
    kept += lines[last:]
    return _without_unused_imports("\n".join(kept).rstrip() + "\n")


def bound_name(node: ast.stmt) -> str:
    """The name that a top-level definition or assignment binds; empty for anything else."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else ""


def body_start(node: ast.FunctionDef) -> int:
    """The line (from 1) on which the body begins, behind the docstring."""
    has_docstring = ast.get_docstring(node) is not None
    if has_docstring and len(node.body) == 1:
        return (node.body[0].end_lineno or node.body[0].lineno) + 1
    return node.body[int(has_docstring)].lineno


def _unwritten(node: ast.stmt, lines: Sequence[str], task_id: str) -> list[str]:
    if not isinstance(node, ast.FunctionDef):
        return [f"{bound_name(node)} = None"]
    first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)]) - 1
    call = f"{node.name}({', '.join(arg.arg for arg in node.args.args)})"
    return [*lines[first : body_start(node) - 1], f'    raise NotImplementedError("{task_id}: {call}")']


def _without_unused_imports(text: str) -> str:
    tree = ast.parse(text)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    lines = text.splitlines()
    for node in reversed(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.asname or alias.name.split(".")[0] for alias in node.names]
            left = [ast.unparse(alias) for alias, name in zip(node.names, names, strict=True) if name in used]
            if len(left) == len(names):
                continue
            source = f"from {node.module} import " if isinstance(node, ast.ImportFrom) else "import "
            lines[node.lineno - 1 : node.end_lineno] = [source + ", ".join(left)] if left else []
    return "\n".join(lines).rstrip() + "\n"


def starters() -> dict[str, tuple[str, str]]:
    """Path of every starter -> (what is there, what should be there)."""
    asked: dict[str, dict[str, str]] = {}
    for task in TASKS.values():
        asked.setdefault(task.set_id, {}).update({ask.name: task.id for ask in task.asks})
    found = {}
    for set_id, exercise in all_exercises().items():
        path = exercise.starter
        text = starter_text(exercise.solution.read_text(encoding="utf-8"), asked.get(set_id, {}))
        found[str(path)] = (path.read_text(encoding="utf-8") if path.exists() else "", text)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0, or 1 when `--check` found a starter that is not what its solution gives."""
    parser = argparse.ArgumentParser(prog="python -m specdec_labs.course.starters", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a starter is out of date")
    options = parser.parse_args(arguments)
    stale: Collection[str] = [path for path, (old, new) in starters().items() if old != new]
    for path in stale:
        if not options.check:
            write_whole(path, starters()[path][1])
        print(f"{'out of date' if options.check else 'wrote'}: {path}")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
