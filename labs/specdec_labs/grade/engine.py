"""Runs the named properties of an exercise against a learner's functions."""

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
import sysconfig
import traceback
from types import ModuleType
from typing import Any

from specdec_labs.grade.exact import Malformed
from specdec_labs.grade.report import Part, PropertyResult, Report, Status

LearnerFunction = Callable[..., Any]
Source = Mapping[str, Any] | ModuleType | LearnerFunction

_PACKAGE = Path(__file__).resolve().parents[1]
_NOT_LEARNER = (str(_PACKAGE), *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")), "<frozen")
_BUILTINS = dict(builtins.__dict__)


class LearnerError(Exception):
    """The learner's function raised `error`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


@dataclass(frozen=True, slots=True)
class Property:
    """One demand on one function.

    `judge(function, case)` returns None when the case meets it, else the failing example in words and a
    table. `applies(case)` picks the cases it is about.
    """

    name: str
    function: str
    what: str
    why: str
    pointer: str
    judge: Callable[[LearnerFunction, Any], str | None]
    applies: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A typical wrong answer, recognised by what it returns.

    `fits(function, cases)` says whether the pattern of outputs over the public cases is this mistake's.
    """

    name: str
    function: str
    says: str
    fits: Callable[[LearnerFunction, Sequence[Any]], bool]


@dataclass(frozen=True, slots=True)
class Suite:
    """The checks of one exercise. Both case lists are ordered smallest first: the first failure is shown."""

    exercise_id: str
    functions: tuple[str, ...]
    properties: tuple[Property, ...]
    mistakes: tuple[Mistake, ...]
    public_cases: Callable[[], Sequence[Any]]
    hidden_cases: Callable[[int], Sequence[Any]]


def run_suite(suite: Suite, source: Source, hidden_seed: int | None = None) -> Report:
    """The report on the learner's functions found in `source` (a namespace, a module or one function).

    With one function only the properties about it are asked.

    Raises:
        ValueError: `source` is neither a namespace nor a function.
    """
    functions = find_functions(suite, source)
    results = tuple(judge_all(suite, functions, hidden_seed))
    diagnoses = tuple(diagnose(suite, functions, results))
    return Report(suite.exercise_id, results, diagnoses, (), hidden_seed)


def find_functions(suite: Suite, source: Source) -> dict[str, Any]:
    """The functions to grade by name; None where the namespace does not define one."""
    if isinstance(source, ModuleType):
        source = vars(source)
    if isinstance(source, Mapping):
        return {name: source.get(name) for name in suite.functions}
    if not callable(source):
        raise ValueError(
            f"source is of type {type(source).__name__}; give globals() or the function to check, "
            f"for example check({suite.exercise_id!r}, globals())"
        )
    name = getattr(source, "__name__", "")
    return {name if name in suite.functions else suite.functions[-1]: source}


def plan(suite: Suite, names: Sequence[str], hidden_seed: int | None) -> list[tuple[Part, Property]]:
    """Every property that will be judged, in order."""
    parts: list[Part] = ["public"] if hidden_seed is None else ["public", "hidden"]
    return [(part, entry) for part in parts for entry in suite.properties if entry.function in names]


def judge_all(suite: Suite, functions: Mapping[str, Any], hidden_seed: int | None) -> Iterator[PropertyResult]:
    """The results one by one, so that a caller can keep those before a crash."""
    cases: dict[Part, Sequence[Any]] = {"public": suite.public_cases()}
    if hidden_seed is not None:
        cases["hidden"] = suite.hidden_cases(hidden_seed)
    for part, entry in plan(suite, tuple(functions), hidden_seed):
        status, detail = _judge(entry, functions[entry.function], cases[part])
        yield result_of(part, entry, status, detail)


def result_of(part: Part, entry: Property, status: Status, detail: str) -> PropertyResult:
    """The result of a property with its texts."""
    return PropertyResult(part, entry.name, entry.function, status, entry.what, entry.why, entry.pointer, detail)


def _judge(entry: Property, function: Any, cases: Sequence[Any]) -> tuple[Status, str]:
    if function is None:
        return "not started", f"{entry.function} is not defined yet; run the cell or save the file that defines it"
    if not callable(function):
        return "failed", f"{entry.function} is of type {type(function).__name__}; expected a function"
    chosen = [case for case in cases if entry.applies(case)]
    if not chosen:
        raise RuntimeError(f"no case exercises the property {entry.name}: the check could not fail")
    for case in chosen:
        try:
            problem = entry.judge(guarded(function), case)
        except Malformed as error:
            problem = str(error)
        except LearnerError as error:
            if isinstance(error.error, NotImplementedError):
                return "not started", error_line(error.error)
            return "error", learner_traceback(error.error)
        if problem is not None:
            return "failed", problem
    return "passed", ""


def diagnose(suite: Suite, functions: Mapping[str, Any], results: Sequence[PropertyResult]) -> Iterator[str]:
    """What the recognised mistakes say, for functions with a failed or crashed property."""
    troubled = {result.function for result in results if result.status in ("failed", "error")}
    cases = suite.public_cases()
    for mistake in suite.mistakes:
        function = functions.get(mistake.function)
        if mistake.function in troubled and callable(function) and mistake.fits(guarded(function), cases):
            yield f"{mistake.name}: {mistake.says}"


def guarded(function: LearnerFunction) -> LearnerFunction:
    """`function`, with whatever it raises wrapped in LearnerError; only the learner's own Ctrl-C passes."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: exit() in a function must not end the grading
            raise LearnerError(error) from None

    return call


def error_line(error: BaseException) -> str:
    """Type and message of an exception, safe against a message that cannot be printed."""
    line = "".join(traceback.TracebackException.from_exception(error, limit=0).format_exception_only()).strip()
    if isinstance(error, SystemExit):
        line += " (the code called exit() or sys.exit(); return a value instead)"
    return line[:500]


def learner_traceback(error: BaseException) -> str:
    """The exception with the last three frames of the learner's own code, none of the grader's or a library's."""
    frames = [
        f"line {frame.lineno} in {frame.name}: {frame.line or ''}".rstrip(": ")
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_LEARNER)
    ]
    return "\n".join([*frames[-3:], error_line(error)])


@contextmanager
def original_builtins() -> Iterator[None]:
    """Undoes a replaced isinstance, abs or the like while grading: it would bend the checks and Fraction too."""
    current = dict(builtins.__dict__)
    builtins.__dict__.update(_BUILTINS)
    try:
        yield
    finally:
        builtins.__dict__.update(current)
