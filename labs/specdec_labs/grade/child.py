"""The grading process: holds the learner's code, runs what it is asked to and answers with plain data. Judges nothing.

Started by `session.Child`. Requests come as JSON lines on standard input, answers go out on standard output; the
learner's own input and output are turned elsewhere before any of their code runs. The standard library alone.
"""

import ast
from collections.abc import Callable
import json
import linecache
import os
import sys
from types import ModuleType
from typing import Any

from specdec_labs.grade.access import Failure, Here, LearnerError, failure_of
from specdec_labs.grade.plain import Proxy, build_arguments, decode, encode

MODULE = "submission"


class Answers:
    """The two ends of the pipe to the checker."""

    def __init__(self) -> None:
        self._requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
        self._replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)

    def receive(self) -> dict[str, Any] | None:
        """The next request, or None when the checker is gone."""
        line = self._requests.readline()
        return json.loads(line) if line else None

    def send(self, message: dict[str, Any]) -> None:
        """One answer."""
        self._replies.write(json.dumps(message) + "\n")
        self._replies.flush()


class Learner:
    """The learner's module, filled statement by statement."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._module = ModuleType(MODULE)
        sys.modules[MODULE] = self._module  # dataclasses look their module up
        self._namespace = vars(self._module)
        self._sources: dict[str, str] = {}

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        doing: Callable[[dict[str, Any]], dict[str, Any]] = getattr(self, f"_do_{request['do']}")
        try:
            return doing(request)
        except LearnerError as error:
            return _failure(error.failure)

    def _do_limits(self, request: dict[str, Any]) -> dict[str, Any]:
        # at the end: the learner may import a file of their own, and none of the standard library is shadowed
        sys.path.append(os.getcwd())
        _limit(request)
        return {}

    def _do_source(self, request: dict[str, Any]) -> dict[str, Any]:
        text, name = request["text"], request["name"]
        self._sources[name] = text
        # for tracebacks: the learner's own lines are shown, wherever their file was
        linecache.cache[name] = (len(text), None, [line + "\n" for line in text.split("\n")], name)
        return {}

    def _do_run(self, request: dict[str, Any]) -> dict[str, Any]:
        name = request["name"]
        try:
            statement = ast.parse(self._sources[name]).body[request["index"]]
            exec(compile(ast.Module([statement], []), name, "exec"), self._namespace)
        except BaseException as error:  # exit() at the top of a file included: it must become a result
            raise LearnerError(failure_of(error)) from None
        return {}

    def _do_presence(self, request: dict[str, Any]) -> dict[str, Any]:
        here = Here(self._namespace)
        return {"presence": here.presence(request["name"]), "kind": here.kind_of(request["name"])}

    def _do_value(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"value": encode(self._namespace[request["name"]])}

    def _do_call(self, request: dict[str, Any]) -> dict[str, Any]:
        own = build_arguments(request["args"], lambda number: Proxy(self._through(request["id"], number)))
        grid = request["grid"]
        try:
            function = self._namespace[request["name"]]
            result = function(*own) if grid is None else function[tuple(grid)](*own)
        except BaseException as error:  # SystemExit too
            raise LearnerError(failure_of(error)) from None
        return {
            "value": encode(result),
            "after": [None if isinstance(entry, Proxy) else encode(entry) for entry in own],
        }

    def _through(self, call: int, number: int) -> Callable[[str, list[Any], dict[str, Any]], Any]:
        def ask(method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
            question = {"ask": number, "call": call, "method": method, "args": encode(args), "kwargs": encode(kwargs)}
            self._answers.send(question)
            answer = self._answers.receive()
            if answer is None:
                os._exit(3)
            if "raise" in answer:
                raise (TypeError if answer["raise"][0] == "TypeError" else ValueError)(answer["raise"][1])
            return decode(answer["answer"])

        return ask


def _failure(failure: Failure) -> dict[str, Any]:
    return {"failure": [failure.kind, failure.text, failure.unfinished]}


def _limit(limits: dict[str, Any]) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits; the checker's time limit still holds
        return
    amounts = {
        resource.RLIMIT_CPU: limits["cpu_s"],
        resource.RLIMIT_AS: limits["memory"],
        resource.RLIMIT_FSIZE: limits["output"],
        resource.RLIMIT_CORE: 0,
    }
    for kind, amount in amounts.items():
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (amount if hard == resource.RLIM_INFINITY else min(amount, hard), hard))


def main() -> None:
    """Answers until the checker closes the pipe."""
    answers = Answers()
    learner = Learner(answers)
    while (request := answers.receive()) is not None:
        answers.send(learner.handle(request) | {"id": request["id"]})


if __name__ == "__main__":
    try:
        main()
    finally:
        os._exit(0)  # a thread the learner's code left running must not keep the process alive
