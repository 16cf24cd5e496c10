"""Tasks of set E07 about siblings: recursive rejection, and two broken ways to judge several drafts for one slot."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from specdec_core.draft import DraftTree
from specdec_core.rules.tree import verify_recursive, verify_recursive_without_replacement
from specdec_labs.grade.exact import Malformed, read_list
from specdec_labs.grade.rounds import enumerate_rounds, no_question_twice, read_token
from specdec_labs.grade.task import Ask, Property, Task
from specdec_labs.grade.tasks.e03_museum import SIZES, Masses, case_of_laws, read_pair
from specdec_labs.grade.tasks.museum import Exhibit, asks_once, museum_task
from specdec_labs.grade.tasks.slots import (
    Slot,
    judge_kept,
    judge_lossless,
    random_slots,
    read_exact_law,
    slot,
)
from specdec_labs.museum.siblings import duplicate_judged_again

Judged = tuple[int | None, int]


class _FirstAnswer:
    """Coins that answer as `coins` do, but for the bonus: a slot ends with the accepted child."""

    def __init__(self, coins: Any) -> None:
        self._coins = coins

    def accept(self, p: Any, q: Any, *, node: int) -> bool:
        return self._coins.accept(p, q, node=node)

    def draw(self, weights: Any, *, node: int, purpose: str) -> int:
        return 0 if purpose == "bonus" and node > 0 else self._coins.draw(weights, node=node, purpose=purpose)


def _one_level(rule: Any, p: Masses, qs: Any, children: Sequence[int], coins: Any) -> Judged:
    tree = DraftTree(tuple(children), (-1,) * len(children))
    verdict = rule(tree, qs, [p] * (len(children) + 1), _FirstAnswer(coins))
    if verdict.num_accepted:
        return verdict.path[0], children[verdict.path[0]]
    return None, verdict.next_token


def recursive(p: Masses, q: Masses, children: Sequence[int], coins: Any) -> Judged:
    """Right for siblings drawn independently."""
    return _one_level(verify_recursive, p, [q] * len(children), children, coins)


def without_replacement(p: Masses, q: Masses, children: Sequence[int], coins: Any) -> Judged:
    """Right for siblings drawn without replacement."""
    return _one_level(verify_recursive_without_replacement, p, [q] * len(children), children, coins)


def given(p: Masses, children: Sequence[int], coins: Any) -> Judged:
    """Right for children that are given: q is one-hot."""
    return _one_level(verify_recursive, p, None, children, coins)


def judged_again(p: Masses, children: Sequence[int], coins: Any) -> Judged:
    """Broken: a child that equals a refused one is judged with its own share of p again."""
    return _one_level(duplicate_judged_again, p, None, children, coins)


def iid_slots() -> Sequence[Slot]:
    """One child, two, three; zeros and equal laws among them."""
    return (
        slot("1/4 3/4", "1/2 1/2", drawn="iid", count=1),
        slot("1/4 3/4", "1/2 1/2", drawn="iid", count=2),
        slot("1/2 1/2", "1/2 1/2", drawn="iid", count=2),
        slot("3/5 2/5 0", "1/5 3/10 1/2", drawn="iid", count=2),
        slot("1/2 3/8 1/8", "1/4 1/4 1/2", drawn="iid", count=2),
        slot("1/10 2/5 1/2", "3/5 1/5 1/5", drawn="iid", count=3),
    )


def fresh_iid_slots(seed: int) -> Sequence[Slot]:
    """Fresh slots of one to three children."""
    two = random_slots(seed, slot("1", "1", drawn="iid", count=2), (2, 3, 3, 4))
    three = random_slots(seed + 1, slot("1", "1", drawn="iid", count=3), (2, 3))
    one = random_slots(seed + 2, slot("1", "1", drawn="iid"), (2, 3))
    return [*one, *two, *three, slot("3/5 2/5 0", "1/5 3/10 1/2", drawn="iid", count=2)]


ABOUT = "judge_siblings"

SIBLINGS = Task(
    id="E07.siblings",
    title="judge several drafts for one slot",
    minutes=25,
    difficulty=4,
    asks=(
        Ask(
            name=ABOUT,
            public=iid_slots,
            hidden=fresh_iid_slots,
            observe=enumerate_rounds,
            read_case=case_of_laws("iid", 2),
        ),
    ),
    properties=(
        Property(
            name="one_child_is_the_chain_rule",
            about=ABOUT,
            what="with one child the token that comes out has the target's law",
            why="a tree with one branch is a chain",
            pointer="E03.chain",
            judge=judge_lossless,
            applies=lambda case: case.count == 1,
        ),
        Property(
            name="token_has_the_targets_law",
            about=ABOUT,
            what="with several children too",
            why="each refusal changes what is still wanted; a second child judged by the old p comes out too often",
            pointer="SpecInfer 2305.09781, section 4.3; notebook 06, section 2",
            judge=judge_lossless,
            applies=lambda case: case.count > 1,
        ),
        Property(
            name="every_child_gets_its_chance",
            about=ABOUT,
            what="a child is accepted as often as recursive rejection accepts one",
            why="looking at the first child only is lossless too, and wastes the others",
            pointer="notebook 06, section 2: what a refusal leaves for the next child",
            judge=judge_kept(recursive),
        ),
        Property(
            name="asks_each_question_once",
            about=ABOUT,
            what="no two questions of a round share purpose and node",
            why="siblings under one node would stand or fall by the same number",
            pointer="specdec museum reused_noise",
            judge=no_question_twice,
        ),
    ),
)


def read_children(answer: Any) -> Slot:
    """(p, children)."""
    entries = read_list(answer, "p and the children")
    if len(entries) != 2:
        raise Malformed(f"the input has {len(entries)} entries, expected the law p and the children")
    p = read_exact_law(entries[0], "p")
    children = tuple(read_token(entry, len(p), "a child") for entry in read_list(entries[1], "the children"))
    if not 1 <= len(children) <= 4:
        raise Malformed(f"there are {len(children)} children; expected 1 to 4")
    return Slot(p, drawn="given", children=children)


def read_children_case(*, p: list[Fraction], children: list[int]) -> Slot:
    """A case of an instructor's file."""
    try:
        return read_children([list(p), [int(child) for child in children]])
    except Malformed as error:
        raise ValueError(str(error)) from error


def given_slots() -> Sequence[Slot]:
    """Distinct children, twins, twins with another between them."""
    return (
        slot("1/2 1/2", drawn="given", children=(0,)),
        slot("1/2 1/2", drawn="given", children=(0, 0)),
        slot("1/2 1/4 1/4", drawn="given", children=(0, 1)),
        slot("1/2 1/4 1/4", drawn="given", children=(1, 1)),
        slot("1/2 1/4 1/4", drawn="given", children=(1, 2, 1)),
        slot("0 2/5 3/5", drawn="given", children=(0, 1)),
    )


def fresh_given_slots(seed: int) -> Sequence[Slot]:
    """Fresh ones, twins among them."""
    like = slot("1", drawn="given", children=(0, 0, 0))
    twins = slot("1/5 3/10 1/2", drawn="given", children=(2, 2))
    return [*random_slots(seed, like, (2, 3, 3, 4)), twins, slot("1/5 3/10 1/2", drawn="given", children=(0, 2, 0))]


DUPLICATES = museum_task(
    id="E07.duplicates",
    title="a duplicate sibling judged twice",
    minutes=20,
    difficulty=3,
    input_name="DUPLICATE_INPUT",
    mended_name="mended_duplicates",
    exhibit=Exhibit(
        wrong=judged_again,
        right=given,
        read_input=read_children,
        form="a pair (p, children): a law in Fractions and the token of each child",
        smallest=(2, 2, 2),
        sizes=(*SIZES, "children"),
    ),
    public=given_slots,
    hidden=fresh_given_slots,
    read_case=read_children_case,
    damage="a token that two lookups propose comes out with p (2 - p) in place of p",
    price="distinct children must all keep their chance: a level is passed with p(children)",
    story="specdec museum duplicate_siblings; foundation-model-stack/fms-extras #12",
)


def without_slots() -> Sequence[Slot]:
    """Two children drawn without replacement, three, and a law with one token only."""
    return (
        slot("1/4 3/4", "1/2 1/2", drawn="without", count=2),
        slot("1/2 1/4 1/4", "1/3 1/3 1/3", drawn="without", count=2),
        slot("1/2 3/8 1/8", "1/4 1/4 1/2", drawn="without", count=2),
        slot("1/10 2/5 1/2", "3/5 1/5 1/5", drawn="without", count=2),
        slot("1/10 2/5 1/2", "3/5 1/5 1/5", drawn="without", count=3),
        slot("1/2 1/2 0", "1 0 0", drawn="without", count=2),
    )


def fresh_without_slots(seed: int) -> Sequence[Slot]:
    """Fresh ones."""
    two = random_slots(seed, slot("1", "1", drawn="without", count=2), (3, 3, 4, 4))
    three = random_slots(seed + 1, slot("1", "1", drawn="without", count=3), (3, 4))
    return [*two, *three, slot("1/10 2/5 1/2", "3/5 1/5 1/5", drawn="without", count=2)]


REPLACEMENT = museum_task(
    id="E07.replacement",
    title="siblings drawn without replacement, judged as if with",
    minutes=25,
    difficulty=4,
    input_name="REPLACEMENT_INPUT",
    mended_name="mended_replacement",
    exhibit=Exhibit(
        wrong=recursive,
        right=without_replacement,
        read_input=lambda value: Slot(*read_pair(value), drawn="without", count=2),
        form="a pair (p, q) of laws in Fractions over the same tokens; two children are drawn from q without "
        "replacement",
        smallest=(3, 3, 0),
        sizes=SIZES,
    ),
    public=without_slots,
    hidden=fresh_without_slots,
    read_case=case_of_laws("without", 2),
    damage="the second child is judged against a law it was not drawn from; texts are off by a little everywhere",
    price="the second child of a pair without replacement is never a twin: that gain must stay",
    story="specdec museum replacement_mix_up; RSD 2402.14160, algorithm 1",
    more=(asks_once("mended_replacement"),),
)
