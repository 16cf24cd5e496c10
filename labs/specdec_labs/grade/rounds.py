"""A learner's verification function under enumeration: every draft and every answer of the coins, with its weight."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any, Protocol

from specdec_core.coins import Coins, EnumeratingCoins, branches
from specdec_core.exact_drafts import Prefix
from specdec_labs.grade.access import Names, Reply
from specdec_labs.grade.exact import Malformed, number_text, read_whole, token_table
from specdec_labs.grade.plain import Array, Shared
from specdec_labs.grade.task import Seen

WORDS = ("cat", "dog", "owl", "fox", "bee", "ant", "cow", "elk", "hen")
PURPOSES = ("draft", "accept", "recover", "bonus", "sample")
MAX_BRANCHES = 20_000
MAX_QUESTIONS = 60
OTHER_QUESTIONS = "your function asks the coins other questions in each run; let all chance come from the coins"

Law = Mapping[Any, Fraction]
Outcome = tuple[Any, ...]


class RoundCase(Protocol):
    """One instance for a verification function."""

    def draw(self, coins: Coins) -> Any:
        """What is drafted, by the coins."""
        ...

    def arguments_for(self, drafted: Any, coins: Shared) -> list[Any]:
        """The function's arguments for this draft."""
        ...

    def read(self, drafted: Any, answer: Any) -> Outcome:
        """The answer as a hashable outcome. Raises Malformed when it cannot be one."""
        ...


@dataclass(frozen=True, slots=True)
class Rounds:
    """What a function does over all branches.

    Attributes:
        law: the probability of each (draft, outcome).
        repeated: the first question (purpose, node) that was asked twice in a round, or None.
        asked: whether any question was asked at all.
    """

    law: dict[tuple[Any, Outcome], Fraction]
    repeated: tuple[str, int] | None
    asked: bool

    def law_of(self, part: Callable[[Any, Outcome], Any]) -> dict[Any, Fraction]:
        """The law of a function of (draft, outcome)."""
        law: dict[Any, Fraction] = {}
        for (drafted, outcome), weight in self.law.items():
            key = part(drafted, outcome)
            law[key] = law.get(key, Fraction(0)) + weight
        return law

    def mean(self, number: Callable[[Any, Outcome], int]) -> Fraction:
        """The expected value of a function of (draft, outcome)."""
        return sum((weight * number(*key) for key, weight in self.law.items()), Fraction(0))


class Questions:
    """The coins a learner's function is handed: they note its questions, and stop one that never ends."""

    def __init__(self, coins: EnumeratingCoins) -> None:
        self._coins = coins
        self.keys: list[tuple[str, int]] = []
        self.problem = ""

    def accept(self, p: Any, q: Any, *, node: int) -> bool:
        """As the course's coins: true iff u * q < p."""
        self._note("accept", node)
        return self._coins.accept(p, q, node=node)

    def draw(self, weights: Any, *, node: int, purpose: Any) -> int:
        """As the course's coins: an index by its weight."""
        if purpose not in PURPOSES:
            raise ValueError(f"purpose is {purpose!r}; expected one of {', '.join(PURPOSES)}")
        self._note(purpose, node)
        weights = list(weights.data) if isinstance(weights, Array) else weights
        if not isinstance(weights, list | tuple):
            raise ValueError("weights is no list of numbers; give one weight a token")
        return self._coins.draw(weights, node=node, purpose=purpose)

    def _note(self, purpose: str, node: Any) -> None:
        if type(node) is not int:
            raise ValueError("node is not an int; give the number of the draft or row the question is about")
        self.keys.append((purpose, node))
        if len(self.keys) > MAX_QUESTIONS:
            self.problem = f"your function asked the coins more than {MAX_QUESTIONS} questions in one round"
            raise ValueError(self.problem)


def enumerate_rounds(names: Names, name: str, case: RoundCase) -> Reply:
    """The `Rounds` of a learner's function on one instance.

    Raises:
        Malformed: an answer that cannot be one, or questions that change from run to run.
        LearnerError, LearnerStopped: as `Names.call`.
    """
    law: dict[tuple[Any, Outcome], Fraction] = {}
    repeated: tuple[str, int] | None = None
    asked = False

    def run(coins: EnumeratingCoins) -> tuple[Any, Any, Questions]:
        drafted = case.draw(coins)
        questions = Questions(coins)
        reply = names.call(name, case.arguments_for(drafted, Shared(questions, ("accept", "draw"))))
        return drafted, reply.value, questions

    try:
        for count, (weight, (drafted, answer, questions)) in enumerate(islice(branches(run), MAX_BRANCHES + 1)):
            if questions.problem:
                raise Malformed(questions.problem)
            if count == MAX_BRANCHES:
                raise Malformed(OTHER_QUESTIONS)
            asked = asked or bool(questions.keys)
            repeated = repeated or next((key for key in questions.keys if questions.keys.count(key) > 1), None)
            key = (drafted, case.read(drafted, answer))
            law[key] = law.get(key, Fraction(0)) + weight
    except IndexError:  # a branch that asks less than the one before it, after the same answers
        raise Malformed(OTHER_QUESTIONS) from None
    if sum(law.values()) != 1:
        raise Malformed(OTHER_QUESTIONS)
    return Reply(Rounds(law, repeated, asked))


def gap(found: Law, wanted: Law, name: Callable[[Any], str]) -> str | None:
    """None when the laws are equal, else the shortest outcome whose probability differs, in words."""
    different = [key for key in {**wanted, **found} if found.get(key, 0) != wanted.get(key, 0)]
    if not different:
        return None
    key = min(different, key=lambda key: (len(key) if isinstance(key, tuple) else 0, key))
    yours, must = found.get(key, Fraction(0)), wanted.get(key, Fraction(0))
    return f"{name(key)} comes out with probability {number_text(yours)}, must be {number_text(must)}"


def text_name(tokens: Prefix) -> str:
    """A text in words: 'cat dog'."""
    return f"'{' '.join(WORDS[token] for token in tokens)}'" if tokens else "the empty text"


def no_question_twice(seen: Seen, case: Any) -> str | None:
    """Judge: no key of (purpose, node) is asked twice in a round."""
    if seen.value.repeated is None:
        return None
    purpose, node = seen.value.repeated
    return f"the question (purpose {purpose!r}, node {node}) is asked twice in one round: its noise would be read twice"


def unasked(seen: Seen) -> str:
    """A remark for a function that never asked the coins."""
    return "" if seen.value.asked else "\nyour function asked the coins nothing: all chance must come from coins"


def read_token(value: Any, vocab: int, what: str) -> int:
    """A token id. Raises Malformed for anything else."""
    token = read_whole(value, what)
    if not 0 <= token < vocab:
        raise Malformed(f"{what} is {token}; the vocabulary has the ids 0..{vocab - 1}")
    return token


def rows_table(rows: Sequence[tuple[str, Sequence[Fraction]]]) -> str:
    """Named laws as a table: one row a token, one column a law."""
    return token_table(WORDS[: len(rows[0][1])], dict(rows))
