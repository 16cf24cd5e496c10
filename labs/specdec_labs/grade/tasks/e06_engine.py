"""Tasks of set E06: alpha from the counts of an engine, and a text that runs on behind its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
import random
from typing import Any

from specdec_core.coins import CoinSource
from specdec_core.laws import target_law
from specdec_labs.grade.access import Names, Reply
from specdec_labs.grade.exact import Malformed, read_list, read_whole
from specdec_labs.grade.rounds import WORDS, gap, text_name
from specdec_labs.grade.task import Ask, Property, Seen, Task, value
from specdec_labs.grade.tasks.formula import Call, call, is_exact, is_number, tagged
from specdec_labs.museum.decoding import Laws, law_of, memory_laws
from specdec_labs.museum.stopping import EOS, ending_law, text_of

ALPHA = "alpha_of_rounds"


def a_log(*rounds: tuple[int, int], tags: Sequence[str] = ("log",)) -> Call:
    """Rounds as (drafted, accepted)."""
    tested = sum(min(accepted + 1, drafted) for drafted, accepted in rounds)
    wanted = Fraction(sum(accepted for _, accepted in rounds), tested) if tested else None
    return call([tuple(entry) for entry in rounds], wanted=wanted, tags=tags)


def logs() -> Sequence[Call]:
    """One round, full acceptance, uneven rounds, the TOY pair's log, rounds without drafts, nothing at all."""
    return (
        a_log((4, 1)),
        a_log((2, 2), tags=["log", "full"]),
        a_log((4, 4), (4, 4), tags=["log", "full"]),
        a_log((4, 0), tags=["log"]),
        a_log((1, 1), (8, 0), tags=["uneven"]),
        a_log((1, 0), (6, 6), (2, 0), tags=["uneven"]),
        a_log((0, 0), (3, 1), tags=["log"]),
        a_log((4, 0), (4, 3), (4, 3), (4, 3), (1, 1), tags=["uneven"]),
        a_log(tags=["nothing"]),
        a_log((0, 0), (0, 0), tags=["nothing"]),
    )


def fresh_logs(seed: int) -> Sequence[Call]:
    """Random logs of each kind."""
    rng = random.Random(seed)
    cases = []
    for count in (1, 2, 5, 9):
        drafted = [rng.randrange(1, 8) for _ in range(count)]
        cases.append(a_log(*((size, rng.randrange(size)) for size in drafted)))
    full = a_log(*((size, size) for size in (2, 3, 5)), tags=["log", "full"])
    uneven = a_log((1, 1), (rng.randrange(3, 9), 0), (7, 5), tags=["uneven"])
    return (*cases, full, uneven, a_log(*[(0, 0)] * rng.randrange(1, 4), tags=["nothing"]))


def read_log(*, rounds: list[list[int]]) -> Call:
    """A case of an instructor's file."""
    if any(len(entry) != 2 or not 0 <= entry[1] <= entry[0] for entry in rounds):
        raise ValueError("expected rounds as [drafted, accepted]")
    return a_log(*((drafted, accepted) for drafted, accepted in rounds), tags=["log"])


ALPHA_TASK = Task(
    id="E06.alpha",
    title="alpha from what an engine counts",
    minutes=10,
    difficulty=2,
    asks=(Ask(name=ALPHA, public=logs, hidden=fresh_logs, read_case=read_log),),
    properties=(
        Property(
            name="divides_by_the_tested",
            about=ALPHA,
            what="alpha is accepted / tested, where drafts behind a refusal were not tested",
            why="accepted / drafted takes them for failures: predictions from it are off by 46 % in place of 12 %",
            pointer="docs/counting.md; notebook 05, section 4",
            judge=is_number(ALPHA),
            applies=tagged("log"),
        ),
        Property(
            name="full_acceptance_is_one",
            about=ALPHA,
            what="where every draft is accepted, alpha is 1",
            why="nothing was refused, so nothing is tested beyond the drafts: tested is min(accepted + 1, drafted)",
            pointer="docs/counting.md",
            judge=is_number(ALPHA),
            applies=tagged("full"),
        ),
        Property(
            name="pools_the_rounds",
            about=ALPHA,
            what="counts are added over rounds before they are divided",
            why="a round with one draft would weigh as much as one with eight",
            pointer="ratio of sums, not mean of ratios",
            judge=is_number(ALPHA),
            applies=tagged("uneven"),
        ),
        Property(
            name="nothing_tested_is_none",
            about=ALPHA,
            what="where nothing was tested the answer is None",
            why="0 would switch speculation off before it began; a ZeroDivisionError would end the engine",
            pointer="docs/counting.md",
            judge=is_number(ALPHA),
            applies=tagged("nothing"),
        ),
        Property(
            name="stays_exact",
            about=ALPHA,
            what="the answer is a Fraction",
            why="a ratio of two counts is exact; round when you print it",
            pointer="fractions.Fraction(accepted, tested)",
            judge=is_exact(ALPHA),
            applies=tagged("log", "full", "uneven"),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Cut:
    """A round's tokens and the stop tokens."""

    tokens: tuple[int, ...]
    stop: tuple[int, ...]

    def arguments(self) -> list[Any]:
        """As the learner's function gets them."""
        return [list(self.tokens), list(self.stop)]

    @property
    def wanted(self) -> tuple[int, ...]:
        """Up to the first stop token, that one included."""
        ends = [place for place, token in enumerate(self.tokens) if token in self.stop]
        return self.tokens[: ends[0] + 1] if ends else self.tokens


@dataclass(frozen=True, slots=True)
class Text:
    """Texts of a few tokens, decoded round by round, that end at EOS."""

    laws: Laws
    horizon: int = 3
    prompt: tuple[int, ...] = (0,)


def observe_cut(names: Names, name: str, case: Cut | Text) -> Reply:
    """One call; or the exact law of whole texts, with the learner's function behind every round."""
    if isinstance(case, Cut):
        return names.call(name, case.arguments())

    def cut(tokens: tuple[int, ...], stop: Sequence[int]) -> tuple[int, ...]:
        # an empty answer would never end the text; the whole round is the broken behaviour
        return read_kept(names.call(name, [list(tokens), list(stop)]).value, tuple(tokens)) or tuple(tokens)

    def text(coins: CoinSource) -> tuple[int, ...]:
        return text_of(case.laws, case.prompt, case.horizon, coins, cut)[: case.horizon]

    return Reply(law_of(text))


def read_kept(answer: Any, tokens: tuple[int, ...]) -> tuple[int, ...]:
    """The tokens that are left, which must be the first ones of the round."""
    kept = tuple(read_whole(entry, "a token") for entry in read_list(answer, "the tokens that are emitted"))
    if kept != tokens[: len(kept)]:
        raise Malformed(f"of the round {list(tokens)} your function returned {list(kept)}, which is not its beginning")
    return kept


def cuts() -> Sequence[Cut | Text]:
    """Small rounds, several stop tokens, and whole texts."""
    return (
        Cut((1,), (2,)),
        Cut((2, 1), (2,)),
        Cut((0, 2, 1), (2,)),
        Cut((0, 1, 2), (2,)),
        Cut((0, 1, 0), (2,)),
        Cut((1, 2, 0, 2), (2,)),
        Cut((0, 1, 2), (2, 1)),
        Cut((0, 1), ()),
        Text(memory_laws(0, 3)),
    )


def fresh_cuts(seed: int) -> Sequence[Cut | Text]:
    """Random rounds with no, one and several stop tokens, and a fresh law."""
    rng = random.Random(seed)
    rounds = [tuple(rng.randrange(5) for _ in range(rng.randrange(1, 6))) for _ in range(8)]
    cases: list[Cut | Text] = [Cut(tokens, tuple(rng.sample(range(5), rng.randrange(3)))) for tokens in rounds]
    return [*cases, Cut((3, 4, 1, 4), (4, 1)), Cut((0, 0), (1,)), Cut((2, 2), (2,)), Text(memory_laws(100 + seed, 3))]


def read_cut(*, tokens: list[int], stop: list[int]) -> Cut:
    """A case of an instructor's file."""
    return Cut(tuple(map(int, tokens)), tuple(map(int, stop)))


def judge_kept(seen: Seen, case: Cut) -> str | None:
    """What is emitted is the round up to its first stop token."""
    kept = read_kept(seen.value, case.tokens)
    if kept == case.wanted:
        return None
    return (
        f"round {list(case.tokens)}, stop tokens {list(case.stop)}: you emit {list(kept)}, must be {list(case.wanted)}"
    )


def judge_text_law(seen: Seen, case: Text) -> str | None:
    """Whole texts have the law of plain decoding that stops."""
    wanted = target_law(ending_law(case.laws.target, case.prompt), case.prompt, case.horizon)
    problem = gap(seen.value, wanted, text_name)
    return f"of texts of {case.horizon} tokens ({WORDS[EOS]!r} ends one) {problem}" if problem else None


def read_input(answer: Any) -> Cut:
    """(a round's tokens, stop tokens)."""
    entries = read_list(answer, "a round's tokens and the stop tokens")
    if len(entries) != 2:
        raise Malformed(f"EOS_INPUT has {len(entries)} entries; expected (tokens, stop tokens)")
    tokens, stop = (tuple(read_whole(entry, "a token") for entry in read_list(side, "tokens")) for side in entries)
    if not tokens or min((*tokens, *stop)) < 0:
        raise Malformed("a round emits at least one token, and tokens are not negative")
    return Cut(tokens, stop)


def judge_legal(seen: Seen, case: Any) -> str | None:
    """It can be read."""
    read_input(seen.value)
    return None


def judge_tells(seen: Seen, case: Any) -> str | None:
    """Something stands behind the first stop token."""
    found = read_input(seen.value)
    if found.wanted != found.tokens:
        return None
    return f"nothing stands behind a stop token in {list(found.tokens)}: emitting the whole round is right here"


def judge_smallest(seen: Seen, case: Any) -> str | None:
    """Two tokens, one stop token."""
    found = read_input(seen.value)
    if (len(found.tokens), len(found.stop)) <= (2, 1):
        return None
    return f"yours has {len(found.tokens)} tokens and {len(found.stop)} stop tokens; 2 and 1 are enough"


def has_stop(case: Cut | Text) -> bool:
    """A round with a stop token in it."""
    return isinstance(case, Cut) and case.wanted != case.tokens


INPUT, MENDED = "EOS_INPUT", "mended_cut"

EOS_TASK = Task(
    id="E06.eos",
    title="a text that runs on behind its end",
    minutes=15,
    difficulty=2,
    asks=(
        value(INPUT),
        Ask(name=MENDED, public=cuts, hidden=fresh_cuts, observe=observe_cut, read_case=read_cut),
    ),
    properties=(
        Property(
            name="input_is_legal",
            about=INPUT,
            what="EOS_INPUT is (a round's tokens, stop tokens)",
            why="a counter-example must be one that could happen",
            pointer="the statement's form of the input",
            judge=judge_legal,
        ),
        Property(
            name="input_tells_them_apart",
            about=INPUT,
            what="on it the broken function emits something behind the end",
            why="most rounds hide the bug: the end falls on the last token of a round, or there is none",
            pointer="specdec museum eos_inside_the_prefix; huggingface/transformers #47912",
            judge=judge_tells,
        ),
        Property(
            name="input_is_the_smallest",
            about=INPUT,
            what="no smaller input does (tokens, then stop tokens)",
            why="the smallest one shows the cause with nothing else in sight",
            pointer="docs/museum.md",
            judge=judge_smallest,
        ),
        Property(
            name="nothing_behind_the_end",
            about=MENDED,
            what="what comes after the first stop token of a round is dropped",
            why="accepted drafts behind the end were never part of the text",
            pointer="notebook 05, section 7; specdec museum eos_inside_the_prefix",
            judge=judge_kept,
            applies=has_stop,
        ),
        Property(
            name="keeps_what_does_not_end",
            about=MENDED,
            what="a round without a stop token, or with one at its end only, stays whole; the stop token is emitted",
            why="cutting one token too many loses text, and the caller waits for an end that it never sees",
            pointer="notebook 05, section 7; specdec museum eos_inside_the_prefix",
            judge=judge_kept,
            applies=lambda case: isinstance(case, Cut) and not has_stop(case),
        ),
        Property(
            name="texts_have_the_right_law",
            about=MENDED,
            what="whole texts, decoded with your function behind every round, have the law of plain decoding "
            "that stops",
            why="the tokens of a round can look right one by one while ends come too late too often",
            pointer="enumerated exactly over three tokens",
            judge=judge_text_law,
            applies=lambda case: isinstance(case, Text),
        ),
    ),
    museum=True,
)
