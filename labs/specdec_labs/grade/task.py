"""What a task is: names that are asked for, cases they are tried on, and properties of what is seen there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from specdec_labs.grade.access import Failure, Names, Reply

Kind = Literal["function", "value", "kernel"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a name did in one case.

    Attributes:
        value: plain data: what the function returned, the value itself, or what `Ask.observe` made of many calls.
        after: the arguments after the call, for properties about changed inputs.
        failure: the learner's exception in place of a value.
    """

    value: Any = None
    after: tuple[Any, ...] = ()
    failure: Failure | None = None


Observe = Callable[[Names, str, Any], Reply]
"""(the learner's names, the name asked for, a case) -> what is seen; raises LearnerError or Malformed."""


def call_once(names: Names, name: str, case: Any) -> Reply:
    """The plain way to look at a function: one call with the arguments of the case."""
    return names.call(name, case.arguments())


def read_value(names: Names, name: str, case: Any) -> Reply:
    """The way to look at a value."""
    return Reply(names.value(name))


@dataclass(frozen=True, slots=True)
class Only:
    """The one case of a value."""

    label: str = "the value"


def only_case() -> Sequence[Any]:
    """The cases of a value: one."""
    return (Only(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One name that the learner writes.

    Attributes:
        name: unique over all tasks.
        kind: a function, a value, or a Triton kernel.
        public: the fixed cases, smallest first; one `Only` for a value.
        hidden: fresh cases from a seed; None for a value.
        observe: how the name is looked at in one case.
        read_case: a case from the entry of an instructor's file (keyword arguments); None when it takes none.
    """

    name: str
    kind: Kind = "function"
    public: Callable[[], Sequence[Any]] = only_case
    hidden: Callable[[int], Sequence[Any]] | None = None
    observe: Observe = call_once
    read_case: Callable[..., Any] | None = None


def value(name: str) -> Ask:
    """An `Ask` for a value."""
    return Ask(name=name, kind="value", observe=read_value)


def always(case: Any) -> bool:
    """Every case."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One demand on one name.

    Attributes:
        name: unique within its task.
        about: the asked name it is about.
        what, why, pointer: the demand, why it matters, where to read on.
        judge: (seen, case) -> None when the demand is met, else the failing example in words and a table.
        applies: picks the cases it is about.
    """

    name: str
    about: str
    what: str
    why: str
    pointer: str
    judge: Callable[[Seen, Any], str | None]
    applies: Callable[[Any], bool] = always


Fits = Callable[[Sequence[Seen], Sequence[Any]], bool]
"""(what was seen in the public cases, the cases) -> whether a mistake looks like that."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """A graded task. Its statement, starter, reference, hints and wrong answers lie in its set's exercise folder.

    Attributes:
        id: set and name, for example "E03.chain".
        title: a few words.
        minutes, difficulty: difficulty from 1 to 5.
        asks: what the learner writes, in order.
        properties: the demands; each is worth one point.
        recognisers: for mistakes with many shapes (any epsilon): name of the wrong answer -> whether it fits. Others
            are recognised when they do exactly what the wrong answer does in every public case.
        museum: whether a broken function is given, to be told apart and mended.
    """

    id: str
    title: str
    minutes: int
    difficulty: int
    asks: tuple[Ask, ...]
    properties: tuple[Property, ...]
    recognisers: Mapping[str, Fits] = field(default_factory=dict)
    museum: bool = False

    def __post_init__(self) -> None:
        names = {ask.name for ask in self.asks}
        if {entry.about for entry in self.properties} != names:
            raise ValueError(f"task {self.id}: every asked name needs a property, and every property an asked name")
        if len({entry.name for entry in self.properties}) != len(self.properties):
            raise ValueError(f"task {self.id}: property names must differ")

    @property
    def set_id(self) -> str:
        """For example "E03"."""
        return self.id.split(".")[0]

    @property
    def name(self) -> str:
        """The id without its set, for example "chain"."""
        return self.id.split(".")[1]

    @property
    def points(self) -> int:
        """One a property."""
        return len(self.properties)

    def ask(self, name: str) -> Ask:
        """What is asked under this name. ValueError for another name."""
        for ask in self.asks:
            if ask.name == name:
                return ask
        raise ValueError(f"name is {name!r}; task {self.id} asks for: {', '.join(ask.name for ask in self.asks)}")

    def properties_of(self, name: str) -> list[Property]:
        """The demands on one name, in order."""
        return [entry for entry in self.properties if entry.about == name]
