"""The learner's names, wherever they live: in this process (`Here`) or in the grading process (`session.Child`)."""

import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
import os
from pathlib import Path
import sysconfig
import traceback
from types import ModuleType
from typing import Any, Literal, Protocol

from specdec_labs.grade.plain import Array, Proxy, Shared, as_tensor, plain

Presence = Literal["missing", "function", "value"]

GRADING = "SPECDEC_GRADING"
"""Set in the environment of a grading process, to a mark of its own."""

_PACKAGE = Path(__file__).resolve().parents[1]
_NOT_LEARNER = (str(_PACKAGE), *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")), "<frozen")
_BUILTINS = dict(builtins.__dict__)


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception of the learner's code: its type, what to show of it, and whether it means "not written yet"."""

    kind: str
    text: str
    unfinished: bool = False


class LearnerError(Exception):
    """The learner's code raised."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class LearnerStopped(Exception):
    """The learner's code had to be ended, or ended its process: the text says why."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back of a call, as plain data, and the arguments as they are after it."""

    value: Any
    after: tuple[Any, ...] = ()


class Names(Protocol):
    """Looks at the learner's names. Every value that comes back is plain data."""

    def begin(self) -> None:
        """A name is about to be looked at: it has the whole time limit, whatever happened to others."""
        ...

    def presence(self, name: str) -> Presence:
        """Whether the name is there, and can be called."""
        ...

    def remark(self, name: str) -> str:
        """Why a name is missing, where that is known; else an empty text."""
        ...

    def value(self, name: str) -> Any:
        """The value of a name."""
        ...

    def call(self, name: str, args: Sequence[Any], grid: tuple[int, ...] | None = None) -> Reply:
        """Calls a function with fresh copies of `args`; with a `grid`, launches a kernel on it.

        Raises:
            LearnerError: the function raised.
            LearnerStopped: it ran too long, or its process is gone.
        """
        ...

    def kind_of(self, name: str) -> str:
        """The name of the type of what the name is bound to."""
        ...


class Here:
    """The names of a namespace in this process. An endless loop is ended with the kernel's interrupt."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace

    def begin(self) -> None:
        """Nothing to do: there is no limit here."""

    def presence(self, name: str) -> Presence:
        """Whether the name is there, and can be called. A value that is None counts as missing."""
        found = self._namespace.get(name)
        if found is None:
            return "missing"
        return "function" if callable(found) else "value"

    def remark(self, name: str) -> str:
        """Nothing is known."""
        return ""

    def value(self, name: str) -> Any:
        """The value as plain data."""
        return plain(self._namespace[name])

    def kind_of(self, name: str) -> str:
        """Module and name of the type."""
        return _type(self._namespace.get(name))

    def call(self, name: str, args: Sequence[Any], grid: tuple[int, ...] | None = None) -> Reply:
        """Calls the function in this process."""
        own = [_copy(value) for value in args]
        try:
            function = self._namespace[name]
            result = function(*own) if grid is None else function[grid](*own)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: exit() in a function must not end the grading
            raise LearnerError(failure_of(error)) from None
        return Reply(plain(result), tuple(None if isinstance(entry, Proxy) else plain(entry) for entry in own))


def _copy(value: Any) -> Any:
    if isinstance(value, Shared):
        return Proxy(lambda method, args, kwargs: value.answer(method, plain(args), plain(kwargs)))
    if isinstance(value, list):
        return [_copy(entry) for entry in value]
    if isinstance(value, tuple):
        return tuple(_copy(entry) for entry in value)
    return as_tensor(value) if isinstance(value, Array) else value


def _type(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def refuse_while_grading(what: str) -> None:
    """NotImplementedError in a grading process: what it would hand out is not the learner's."""
    if os.environ.get(GRADING):
        raise NotImplementedError(f"{what} is not handed out while a submission is graded")


def failure_of(error: BaseException) -> Failure:
    """What is kept of an exception; Triton's interpreter wraps what a kernel raises."""
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
    return Failure(type(error).__name__, learner_traceback(error), isinstance(error, NotImplementedError))


def error_line(error: BaseException) -> str:
    """Type and message of an exception, safe against a message that cannot be printed."""
    line = "".join(traceback.TracebackException.from_exception(error, limit=0).format_exception_only()).strip()
    if isinstance(error, SystemExit):
        line += " (the code called exit() or sys.exit(); return a value instead)"
    return line[:500]


def learner_traceback(error: BaseException) -> str:
    """The exception with the last three frames of the learner's own code, none of the grader's or a library's."""
    if isinstance(error, NotImplementedError):
        return error_line(error)
    frames = [
        f"line {frame.lineno} in {frame.name}: {frame.line or ''}".rstrip(": ")
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_LEARNER)
    ]
    return "\n".join([*frames[-3:], error_line(error)])


def namespace_of(source: object, known: Sequence[str]) -> Mapping[str, Any]:
    """The names in `source`: a namespace, a module or one function (under its own name, which must be `known`).

    Raises:
        ValueError: none of these.
    """
    if isinstance(source, ModuleType):
        return vars(source)
    if isinstance(source, Mapping):
        return source
    name = getattr(source, "__name__", "")
    if callable(source) and name in known:
        return {name: source}
    found = f"a function called {name!r}" if callable(source) else f"of type {type(source).__name__}"
    raise ValueError(f"source is {found}; give globals(), or a function called {' or '.join(known)}")


@contextmanager
def original_builtins() -> Iterator[None]:
    """Undoes a replaced isinstance, abs or the like while grading: it would bend the checks and Fraction too."""
    current = dict(builtins.__dict__)
    builtins.__dict__.update(_BUILTINS)
    try:
        yield
    finally:
        builtins.__dict__.update(current)
