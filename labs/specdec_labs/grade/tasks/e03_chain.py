"""Task E03.chain: token-wise verification of a chain of drafts, judged by enumerating every branch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
import random
from typing import Any

from specdec_core.coins import Coins
from specdec_core.exact_drafts import NextLaw, Prefix
from specdec_core.laws import target_law
from specdec_core.random_laws import random_law, sparse_law
from specdec_labs.grade.exact import Malformed, number_text, read_list
from specdec_labs.grade.plain import Shared
from specdec_labs.grade.rounds import (
    enumerate_rounds,
    gap,
    no_question_twice,
    read_token,
    rows_table,
    text_name,
    unasked,
)
from specdec_labs.grade.task import Ask, Property, Seen, Task


@dataclass(frozen=True, slots=True)
class Chain:
    """Laws that may depend on every token before, and how many tokens are drafted."""

    target: NextLaw
    draft: NextLaw
    drafted: int
    vocab: int

    def draw(self, coins: Coins) -> Prefix:
        """The drafted tokens."""
        tokens: Prefix = ()
        for node in range(self.drafted):
            tokens += (coins.draw(self.draft(tokens), node=node, purpose="draft"),)
        return tokens

    def rows(self, drafted: Prefix) -> tuple[list[Any], list[Any]]:
        """The draft's K laws and the target's K + 1 along the drafted tokens."""
        prefixes = [drafted[:length] for length in range(len(drafted) + 1)]
        return [list(self.draft(text)) for text in prefixes[:-1]], [list(self.target(text)) for text in prefixes]

    def arguments_for(self, drafted: Prefix, coins: Shared) -> list[Any]:
        """draft_tokens, draft_probs, target_probs, coins."""
        return [list(drafted), *self.rows(drafted), coins]

    def read(self, drafted: Prefix, answer: Any) -> Prefix:
        """The emitted tokens: accepted drafts, then one more."""
        entries = read_list(answer, "the emitted tokens")
        tokens = tuple(read_token(entry, self.vocab, f"token {place}") for place, entry in enumerate(entries))
        if not 1 <= len(tokens) <= len(drafted) + 1:
            raise Malformed(
                f"for the drafts {text_name(drafted)} your function returned {len(tokens)} tokens; a round emits the "
                f"accepted drafts and one more: 1 to {len(drafted) + 1}"
            )
        if tokens[:-1] != drafted[: len(tokens) - 1]:
            raise Malformed(
                f"for the drafts {text_name(drafted)} your function returned {text_name(tokens)}; all but the last "
                "token must be the drafts, from the first on"
            )
        return tokens

    def must_be(self) -> dict[Prefix, Fraction]:
        """The target's law of the next K + 1 tokens."""
        return target_law(self.target, (), self.drafted + 1)

    def continued(self, seen: Seen) -> dict[Prefix, Fraction]:
        """The law of the next K + 1 tokens when plain decoding goes on after the round."""
        law: dict[Prefix, Fraction] = {}
        for emitted, weight in seen.value.law_of(lambda drafted, outcome: outcome).items():
            for rest, chance in target_law(self.target, emitted, self.drafted + 1 - len(emitted)).items():
                law[emitted + rest] = law.get(emitted + rest, Fraction(0)) + weight * chance
        return law

    def survival(self) -> list[Fraction]:
        """The probability that at least i drafts are kept, i = 1..K, by the token-wise rule."""
        survival = []
        alive: dict[Prefix, Fraction] = {(): Fraction(1)}
        for _ in range(self.drafted):
            alive = {
                text + (token,): weight * min(p, q)
                for text, weight in alive.items()
                for token, (p, q) in enumerate(zip(self.target(text), self.draft(text), strict=True))
                if min(p, q)
            }
            survival.append(sum(alive.values(), Fraction(0)))
        return survival

    def table(self) -> str:
        """The laws of the first slot."""
        rows = [("p", self.target(()))] + ([("q", self.draft(()))] if self.drafted else [])
        return f"K = {self.drafted}; in the first slot\n{rows_table(rows)}"


def fixed(*rows: str) -> NextLaw:
    """Laws by position: one text of fractions a position, the last one from then on."""
    laws = [tuple(map(Fraction, row.split())) for row in rows]
    return lambda text: laws[min(len(text), len(laws) - 1)]


def public_cases() -> Sequence[Chain]:
    """Smallest first: no draft, one draft, p = q, a forbidden token, then chains with memory."""
    return (
        Chain(fixed("1/4 3/4"), fixed("1/2 1/2"), 0, 2),
        Chain(fixed("1/4 3/4"), fixed("1/2 1/2"), 1, 2),
        Chain(fixed("1/2 1/2", "1/3 2/3"), fixed("1/2 1/2"), 1, 2),
        Chain(fixed("3/5 2/5 0", "0 1 0"), fixed("1/5 3/10 1/2"), 1, 3),
        Chain(fixed("1/4 3/4", "2/3 1/3", "1/5 4/5"), fixed("1/2 1/2", "1/3 2/3"), 2, 2),
        Chain(random_law("E03 p", 3), random_law("E03 q", 3), 2, 3),
    )


def hidden_cases(seed: int) -> Sequence[Chain]:
    """Fresh laws with memory, some with zeros, 0 to 3 drafts."""
    rng = random.Random(seed)
    cases = [Chain(random_law(f"h{seed} p0", 3, zeros=False), random_law(f"h{seed} q0", 3), 0, 3)]
    for number, (vocab, drafted) in enumerate(((2, 1), (3, 1), (2, 2), (3, 2), (2, 3))):
        name = f"h{seed} {number} {rng.random()}"
        cases.append(Chain(random_law(f"p {name}", vocab, zeros=False), random_law(f"q {name}", vocab), drafted, vocab))
    cases.append(Chain(sparse_law(f"h{seed} ps", 3), sparse_law(f"h{seed} qs", 3), 2, 3))
    return cases


def read_case(*, target: list[list[Fraction]], draft: list[list[Fraction]]) -> Chain:
    """A case of an instructor's file: laws by position, K + 1 of the target and K of the draft. ValueError else."""
    vocab = len(target[0]) if target else 0
    rows = [*target, *draft]
    if len(target) != len(draft) + 1 or len(draft) > 3 or any(len(row) != vocab or sum(row) != 1 for row in rows):
        raise ValueError(f"target has {len(target)} rows, draft {len(draft)}; expected K + 1 and K laws, K at most 3")
    laws = [tuple(map(Fraction, row)) for row in target], [tuple(map(Fraction, row)) for row in draft]

    def by_place(side: int) -> NextLaw:
        return lambda text: laws[side][min(len(text), len(laws[side]) - 1)]

    return Chain(by_place(0), by_place(1), len(draft), vocab)


def judge_form(seen: Seen, case: Chain) -> str | None:
    """A round that keeps every draft emits one token more."""
    longest = max(len(outcome) for _, outcome in seen.value.law)
    if longest == case.drafted + 1 or (case.drafted and not case.survival()[-1]):
        return None
    return f"K = {case.drafted}: at most {longest} tokens come out of a round; with every draft kept it is K + 1"


def judge_first(seen: Seen, case: Chain) -> str | None:
    """The first emitted token has the target's law."""
    found = seen.value.law_of(lambda drafted, outcome: outcome[:1])
    wanted = {(token,): mass for token, mass in enumerate(case.target(())) if mass}
    problem = gap(found, wanted, text_name)
    return f"{problem}\n{case.table()}{unasked(seen)}" if problem else None


def judge_text(seen: Seen, case: Chain) -> str | None:
    """The next K + 1 tokens have the target's joint law."""
    problem = gap(case.continued(seen), case.must_be(), text_name)
    return f"of the texts of {case.drafted + 1} tokens {problem}\n{case.table()}{unasked(seen)}" if problem else None


def judge_mean(seen: Seen, case: Chain) -> str | None:
    """As many drafts are kept as the rule promises."""
    found, wanted = seen.value.mean(lambda drafted, outcome: len(outcome) - 1), sum(case.survival(), Fraction(0))
    if found == wanted:
        return None
    return f"{number_text(found)} drafts are kept on average, must be {number_text(wanted)}\n{case.table()}"


def at_least(drafts: int) -> Callable[[Chain], bool]:
    """Cases with so many drafts."""
    return lambda case: case.drafted >= drafts


ABOUT = "verify_drafts"
CHEN = "Leviathan et al. 2211.17192, algorithm 1; Chen et al. 2302.01318, algorithm 2"

TASK = Task(
    id="E03.chain",
    title="verify a chain of drafts",
    minutes=25,
    difficulty=3,
    asks=(Ask(name=ABOUT, public=public_cases, hidden=hidden_cases, observe=enumerate_rounds, read_case=read_case),),
    properties=(
        Property(
            name="bonus_after_full_acceptance",
            about=ABOUT,
            what="K accepted drafts give K + 1 tokens",
            why="the target's pass has the law of one token more; without the bonus a perfect draft gains "
            "nothing at K = 1",
            pointer=f"{CHEN}; docs/counting.md: 4 accepted drafts are 5 tokens",
            judge=judge_form,
        ),
        Property(
            name="first_token_has_the_targets_law",
            about=ABOUT,
            what="the first token that comes out has the target's law",
            why="min(p, q) is kept and the residual adds what p lacks; anything else bends every text from its "
            "first token",
            pointer="notebook 02, section 3",
            judge=judge_first,
            applies=at_least(1),
        ),
        Property(
            name="text_has_the_targets_law",
            about=ABOUT,
            what="the next K + 1 tokens have the target's joint law",
            why="a wrong row, a draft judged behind a refusal or a bonus from the wrong law show only beyond the "
            "first token",
            pointer="docs/rules.md; notebook 03, section 2",
            judge=judge_text,
        ),
        Property(
            name="keeps_what_can_be_kept",
            about=ABOUT,
            what="drafts are kept as often as min(1, p/q) allows",
            why="refusing every draft and asking the target is lossless too, and gains nothing",
            pointer="notebook 02, section 3: a draft is kept with the sum of min(p, q)",
            judge=judge_mean,
            applies=at_least(1),
        ),
        Property(
            name="asks_each_question_once",
            about=ABOUT,
            what="no two questions of a round share purpose and node",
            why="the production coins answer the same key with the same noise; then 0.60 becomes 0.63 (museum, "
            "reused_noise)",
            pointer="specdec museum reused_noise; vllm-project/vllm #47386",
            judge=no_question_twice,
        ),
    ),
)
