"""Museum tasks: a broken function is given; find the smallest input that tells it from the right one, then mend it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specdec_labs.grade.exact import Malformed
from specdec_labs.grade.rounds import enumerate_rounds, no_question_twice
from specdec_labs.grade.task import Ask, Property, Seen, Task, value
from specdec_labs.grade.tasks.slots import Slot, judge_kept, judge_lossless, rounds_of, token_law


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A broken function over slots, beside the right one.

    Attributes:
        wrong, right: functions of the same signature as the learner's.
        read_input: from the learner's value to a slot; raises Malformed.
        form: what the value must look like, in words.
        smallest: the size of the smallest slot that tells the two apart; a test searches for it.
        sizes: what the numbers of a size count, in the order in which they are compared.
    """

    wrong: Callable[..., Any]
    right: Callable[..., Any]
    read_input: Callable[[Any], Slot]
    form: str
    smallest: tuple[int, ...]
    sizes: tuple[str, ...]

    def tells_apart(self, case: Slot) -> bool:
        """Whether the broken function gives the token another law than the target's."""
        return token_law(rounds_of(self.wrong, case)) != case.law()


def judge_legal(exhibit: Exhibit) -> Callable[[Seen, Any], str | None]:
    """Judge: the input is one the functions take."""

    def judge(seen: Seen, case: Any) -> str | None:
        try:
            exhibit.read_input(seen.value)
        except Malformed as error:
            return f"{error}\nexpected {exhibit.form}"
        return None

    return judge


def judge_tells(exhibit: Exhibit) -> Callable[[Seen, Any], str | None]:
    """Judge: the broken function's output law differs from the target's on this input."""

    def judge(seen: Seen, case: Any) -> str | None:
        found = exhibit.read_input(seen.value)
        if exhibit.tells_apart(found):
            return None
        return f"on your input the broken function gives every token its probability p, exactly\n{found.table()}"

    return judge


def judge_smallest(exhibit: Exhibit) -> Callable[[Seen, Any], str | None]:
    """Judge: no smaller input tells the two apart."""

    def judge(seen: Seen, case: Any) -> str | None:
        size = exhibit.read_input(seen.value).size()
        if size <= exhibit.smallest:
            return None
        yours, enough = (
            ", ".join(f"{name} {number}" for name, number in zip(exhibit.sizes, numbers, strict=False))
            for numbers in (size, exhibit.smallest)
        )
        return f"yours has {yours}; enough: {enough} (compared in this order)"

    return judge


def about_input(name: str, exhibit: Exhibit, story: str) -> tuple[Property, ...]:
    """The three demands on the input: legal, distinguishing, smallest."""
    return (
        Property(
            name="input_is_legal",
            about=name,
            what=f"{name} is {exhibit.form}",
            why="a counter-example must be one that could happen",
            pointer="the statement's form of the input",
            judge=judge_legal(exhibit),
        ),
        Property(
            name="input_tells_them_apart",
            about=name,
            what="on it the broken function's output law, enumerated exactly, is not the target's",
            why="most inputs hide a bug; a test is worth what its input can show",
            pointer=story,
            judge=judge_tells(exhibit),
        ),
        Property(
            name="input_is_the_smallest",
            about=name,
            what=f"no smaller input does ({', then '.join(exhibit.sizes)})",
            why="the smallest one can be computed by hand, and shows the cause with nothing else in sight",
            pointer="docs/museum.md",
            judge=judge_smallest(exhibit),
        ),
    )


def about_mended(name: str, exhibit: Exhibit, *, damage: str, price: str, story: str) -> tuple[Property, ...]:
    """The two demands on the mended function: lossless, and still worth its drafts."""
    return (
        Property(
            name="mended_is_lossless",
            about=name,
            what="the token that comes out has exactly the target's law",
            why=damage,
            pointer=story,
            judge=judge_lossless,
        ),
        Property(
            name="mended_keeps_its_drafts",
            about=name,
            what="drafts are accepted as often as the right rule accepts them",
            why=price,
            pointer="notebook 02, section 3: acceptance in closed form",
            judge=judge_kept(exhibit.right),
        ),
    )


def asks_once(name: str) -> Property:
    """The demand that no question is asked twice."""
    return Property(
        name="asks_each_question_once",
        about=name,
        what="no two questions of a round share purpose and node",
        why="the production coins answer the same key with the same noise",
        pointer="specdec museum reused_noise",
        judge=no_question_twice,
    )


def museum_task(
    *,
    id: str,
    title: str,
    minutes: int,
    difficulty: int,
    input_name: str,
    mended_name: str,
    exhibit: Exhibit,
    public: Callable[[], Sequence[Any]],
    hidden: Callable[[int], Sequence[Any]],
    read_case: Callable[..., Any],
    damage: str,
    price: str,
    story: str,
    more: Sequence[Property] = (),
) -> Task:
    """The task of an exhibit.

    `damage` is why the law matters here, `price` why a mending must not give up drafts, `story` where to read on.
    """
    return Task(
        id=id,
        title=title,
        minutes=minutes,
        difficulty=difficulty,
        asks=(
            value(input_name),
            Ask(name=mended_name, public=public, hidden=hidden, observe=enumerate_rounds, read_case=read_case),
        ),
        properties=(
            *about_input(input_name, exhibit, story),
            *about_mended(mended_name, exhibit, damage=damage, price=price, story=story),
            *more,
        ),
        museum=True,
    )
