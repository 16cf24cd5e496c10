"""Writes docs/mutation.md from a finished `mutmut run`: how many mutants of the rules and coins the tests kill.

A mutant is the code with one small change. Those no test notices are listed one by one, each with the reason why it
cannot change what the function answers; the reasons live beside the report in docs/mutation_survivors.toml. Run by
`make mutation`.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
import re
import subprocess
import sys
import tomllib

from specdec_core.hardware import describe_hardware

REPORT = Path("docs/mutation.md")
REASONS = Path("docs/mutation_survivors.toml")
KILLED = ("killed", "timeout", "segfault", "caught by type check")
NOT_RUN = "not checked"
UNEXPLAINED = "**unexplained**"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mutant and what became of it; `was` and `became` are filled for survivors only."""

    name: str
    status: str
    was: str = ""
    became: str = ""

    @property
    def file(self) -> str:
        """The file it is in."""
        module = self.name.rsplit(".", 1)[0]
        path = Path(*module.split("."))
        return f"{path}/__init__.py" if path.is_dir() else f"{path}.py"

    @property
    def function(self) -> str:
        """The function it changes, as `Class.method` or `function`."""
        mangled = self.name.rsplit(".", 1)[1].rsplit("__mutmut_", 1)[0]
        return mangled.removeprefix("xǁ").removeprefix("x_").replace("ǁ", ".")


def _mutmut(*arguments: str) -> str:
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def read_mutants() -> list[Mutant]:
    """Every mutant of the run in ./mutants, survivors with their change.

    Raises:
        ValueError: no finished run in this folder.
    """
    lines = re.findall(r"^\s+(\S+__mutmut_\d+): (.+)$", _mutmut("results", "--all", "true"), re.MULTILINE)
    if not lines:
        raise ValueError("mutants/ holds no results; run `mutmut run` in the repository first (make mutation)")
    return [
        Mutant(name, status) if status in (*KILLED, NOT_RUN) else _with_change(name, status) for name, status in lines
    ]


def _with_change(name: str, status: str) -> Mutant:
    diff = _mutmut("show", name).splitlines()
    was = [line[1:].strip() for line in diff if line.startswith("-") and not line.startswith("---")]
    became = [line[1:].strip() for line in diff if line.startswith("+") and not line.startswith("+++")]
    return Mutant(name, status, " ".join(was), " ".join(became))


def reason_of(mutant: Mutant, reasons: list[dict[str, str]]) -> str:
    """Why this survivor is harmless: the entry with its function whose `became` is its change."""
    for entry in reasons:
        if entry["function"] == mutant.function and entry["became"] == mutant.became:
            return entry["why"]
    return UNEXPLAINED


def page(mutants: list[Mutant], reasons: list[dict[str, str]], tool: str) -> str:
    """The report as markdown; `tool` names the program that made the mutants, with its version."""
    totals: dict[str, Counter[str]] = {}
    for mutant in mutants:
        totals.setdefault(mutant.file, Counter())[_outcome(mutant)] += 1
    killed = sum(count["killed"] for count in totals.values())
    survivors = [mutant for mutant in mutants if _outcome(mutant) == "survived"]
    run = killed + len(survivors)
    rows = [
        f"| `{file}` | {count.total()} | {count['killed']} | {count['survived']} | {count['not run']} |"
        for file, count in sorted(totals.items())
    ]
    unfinished = (
        [f"The run was stopped: {len(mutants) - run} mutants were not tried.", ""] if run < len(mutants) else []
    )
    listed = [
        f"| `{mutant.function}` | `{_cell(mutant.was)}` | `{_cell(mutant.became)}` | {reason_of(mutant, reasons)} |"
        for mutant in survivors
    ]
    return "\n".join(
        [
            "# Mutation report",
            "",
            "How many small changes to the rules and the coins do the tests notice? Written by `make mutation`",
            f"({tool}, {date.today().isoformat()}, {describe_hardware()['processor']}, "
            f"Python {sys.version.split()[0]}). What is changed and which tests judge is set in `[tool.mutmut]` of",
            "pyproject.toml. The texts of error messages are left out; that the errors are raised is not.",
            "",
            f"**{killed} of {run} mutants killed: {100 * killed / run:.1f} %.**",
            "",
            *unfinished,
            "| file | mutants | killed | survived | not run |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "## Survivors",
            "",
            "| function | was | became | why no test can tell |",
            "|---|---|---|---|",
            *listed,
            "",
        ]
    )


def _outcome(mutant: Mutant) -> str:
    if mutant.status == NOT_RUN:
        return "not run"
    return "killed" if mutant.status in KILLED else "survived"


def _cell(code: str) -> str:
    return code.replace("|", "\\|")


def main() -> None:
    """Writes the report and prints its verdict."""
    mutants = read_mutants()
    reasons = tomllib.loads(REASONS.read_text(encoding="utf-8"))["survivor"] if REASONS.exists() else []
    text = page(mutants, reasons, f"mutmut {version('mutmut')}")
    REPORT.write_text(text, encoding="utf-8")
    verdict = next(line for line in text.splitlines() if line.startswith("**"))
    print(f"{verdict.strip('*')} {text.count(UNEXPLAINED)} survivors unexplained. Written to {REPORT}.")


if __name__ == "__main__":
    main()
