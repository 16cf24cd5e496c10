"""Judges a task: looks at the learner's names case by case, and asks each property what it thinks of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specdec_labs.grade.access import LearnerError, LearnerStopped, Names
from specdec_labs.grade.exact import Malformed
from specdec_labs.grade.report import Part, PropertyResult, Report, Status
from specdec_labs.grade.task import Ask, Property, Seen, Task
from specdec_labs.grade.zoo import WrongAnswer, recognised

Extra = Mapping[str, Sequence[Any]]
"""Held-back cases of an instructor by asked name."""


@dataclass
class Sight:
    """What a name does in a list of cases, looked at once and only as far as it is asked for."""

    names: Names
    ask: Ask
    cases: Sequence[Any]
    seen: dict[int, Seen | str] = field(default_factory=dict)
    stopped: str = ""

    def at(self, index: int) -> Seen | str:
        """What was seen in a case; a text when the form of the answer is wrong. LearnerStopped when it never ended."""
        if index not in self.seen:
            if self.stopped:
                raise LearnerStopped(self.stopped)
            try:
                reply = self.ask.observe(self.names, self.ask.name, self.cases[index])
                self.seen[index] = Seen(reply.value, reply.after)
            except Malformed as error:
                self.seen[index] = str(error)
            except LearnerError as error:
                self.seen[index] = Seen(failure=error.failure)
            except LearnerStopped as error:
                self.stopped = str(error)
                raise
        return self.seen[index]

    def all(self) -> list[Seen] | None:
        """Every case; None when one never ended. A malformed answer counts as a value of its own."""
        try:
            seen = [self.at(index) for index in range(len(self.cases))]
        except LearnerStopped:
            return None
        return [Seen(("malformed", entry)) if isinstance(entry, str) else entry for entry in seen]


def run_task(
    task: Task,
    names: Names,
    zoo: Sequence[WrongAnswer] = (),
    *,
    hidden_seed: int | None = None,
    extra: Extra | None = None,
    only: Sequence[str] | None = None,
) -> Report:
    """The report on one task.

    Args:
        task: the task.
        names: where the learner's names are.
        zoo: the task's wrong answers, for the diagnosis.
        hidden_seed: also judge the same properties on fresh random cases from this seed.
        extra: also judge them on an instructor's cases.
        only: ask for these names alone.
    """
    asks = [ask for ask in task.asks if only is None or ask.name in only]
    results: dict[tuple[Part, str], PropertyResult] = {}
    diagnoses: list[str] = []
    for ask in asks:
        names.begin()
        absent = _absent(ask, names)
        public = Sight(names, ask, ask.public())
        sights: dict[Part, Sight] = {"public": public}
        unseen = [*(ask.hidden(hidden_seed) if ask.hidden and hidden_seed is not None else ())]
        unseen += (extra or {}).get(ask.name, ())
        if unseen:
            sights["hidden"] = Sight(names, ask, unseen)
        for part, sight in sights.items():
            if sight is not public:
                sight.stopped = public.stopped
            for entry in task.properties_of(ask.name):
                if part == "hidden" and not any(entry.applies(case) for case in unseen):
                    continue
                results[part, entry.name] = _result(part, entry, *(absent or _judge(entry, sight)))
        troubled = {results["public", entry.name].status for entry in task.properties_of(ask.name)}
        if not absent and troubled & {"failed", "error"}:
            diagnoses += [f"{wrong.name}: {wrong.says}" for wrong in recognised(task, public, zoo)]
    parts: tuple[Part, ...] = ("public", "hidden")
    ordered = [results[key] for part in parts for entry in task.properties if (key := (part, entry.name)) in results]
    not_run = sum(len(task.properties_of(ask.name)) for ask in asks if ask.hidden and hidden_seed is None)
    return Report(task.id, task.title, tuple(ordered), tuple(diagnoses), (), hidden_seed, not_run)


def unreachable(task: Task, reason: str) -> Report:
    """The report on a task that could not be looked at: every property with the reason."""
    results = tuple(_result("public", entry, "error", reason) for entry in task.properties)
    return Report(task.id, task.title, results, (), (), None, 0)


def _result(part: Part, entry: Property, status: Status, detail: str) -> PropertyResult:
    return PropertyResult(part, entry.name, entry.about, status, entry.what, entry.why, entry.pointer, detail)


def _judge(entry: Property, sight: Sight) -> tuple[Status, str]:
    chosen = [index for index, case in enumerate(sight.cases) if entry.applies(case)]
    if not chosen:
        raise RuntimeError(f"no case exercises the property {entry.name}: the check could not fail")
    for index in chosen:
        was_stopped = bool(sight.stopped)
        try:
            seen = sight.at(index)
            problem = seen if isinstance(seen, str) else None
            if isinstance(seen, Seen):
                if seen.failure is not None:
                    return ("not started" if seen.failure.unfinished else "error"), seen.failure.text
                problem = entry.judge(seen, sight.cases[index])
        except Malformed as error:
            problem = str(error)
        except LearnerStopped as error:
            return "error", f"not reached: {error}" if was_stopped else str(error)
        if problem is not None:
            return "failed", problem
    return "passed", ""


def _absent(ask: Ask, names: Names) -> tuple[Status, str] | None:
    presence = names.presence(ask.name)
    if presence == "missing":
        remark = names.remark(ask.name)
        if remark:
            return "error", remark
        doing = "run the cell or save the file that defines it" if ask.kind != "value" else "set it"
        return "not started", f"{ask.name} is not there yet; {doing}"
    if ask.kind == "function" and presence == "value":
        return "failed", f"{ask.name} is of type {names.kind_of(ask.name)}; expected a function"
    if ask.kind == "value" and presence == "function":
        return "failed", f"{ask.name} is a function; expected a value"
    return None


def reports_of_all(
    tasks: Sequence[Task], names: Names, zoos: Mapping[str, Sequence[WrongAnswer]], hidden_seed: int | None = None
) -> Iterator[Report]:
    """The reports on several tasks, one by one."""
    for task in tasks:
        yield run_task(task, names, zoos.get(task.id, ()), hidden_seed=hidden_seed)
