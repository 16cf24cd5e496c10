"""The smallest distinguishing inputs of the museum tasks: nothing smaller tells broken from right."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
import re

import pytest

from specdec_labs.exercises import find_exercise
from specdec_labs.grade.access import Here
from specdec_labs.grade.checking import reference
from specdec_labs.grade.engine import run_task
from specdec_labs.grade.rounds import enumerate_rounds
from specdec_labs.grade.task import Seen
from specdec_labs.grade.tasks import TASKS
from specdec_labs.grade.tasks.e03_chain import judge_text
from specdec_labs.grade.tasks.e03_museum import one_hot_round, softmax_q_round, threshold_verify
from specdec_labs.grade.tasks.e04_museum import (
    SMALLEST_BLOCK,
    block,
    cut_after_looking,
    emitted,
    judge_block_tells,
    read_block,
    read_length,
)
from specdec_labs.grade.tasks.e07_siblings import judged_again, read_children, recursive
from specdec_labs.grade.tasks.slots import Slot, rounds_of, token_law
from specdec_labs.museum.block import residual_not_scaled

F = Fraction
Law = tuple[Fraction, ...]


def laws(vocab: int, denominator: int) -> list[Law]:
    """Every law over so many tokens with denominators up to this one."""
    found = {
        tuple(Fraction(count, whole) for count in counts)
        for whole in range(1, denominator + 1)
        for counts in product(range(whole + 1), repeat=vocab)
        if sum(counts) == whole
    }
    return sorted(found)


def thresholds(denominator: int) -> set[Fraction]:
    """Every probability with denominators up to this one."""
    return {Fraction(count, whole) for whole in range(1, denominator + 1) for count in range(whole + 1)}


def pairs(vocab: int, denominator: int, **more: object) -> Iterator[Slot]:
    """Every slot of two laws."""
    for p, q in product(laws(vocab, denominator), repeat=2):
        yield Slot(p, q, **more)  # type: ignore[arg-type]


def smaller_than(vocab: int, denominator: int) -> list[tuple[int, int]]:
    """The sizes before this one: fewer tokens with denominators up to 3, or smaller denominators."""
    return [*((size, 3) for size in range(1, vocab)), *((vocab, size) for size in range(1, denominator))]


def broken(function, case: Slot) -> bool:
    """Whether the function gives the token another law than p."""
    return token_law(rounds_of(function, case)) != case.law()


@pytest.mark.parametrize(
    ("function", "vocab", "denominator", "more"),
    [
        (threshold_verify, 2, 2, {}),
        (softmax_q_round, 2, 2, {"drawn": "none"}),
        (recursive, 3, 3, {"drawn": "without", "count": 2}),
    ],
)
def test_no_smaller_pair_of_laws_tells_them_apart(function, vocab: int, denominator: int, more: dict) -> None:
    assert any(broken(function, case) for case in pairs(vocab, denominator, **more))
    for size in smaller_than(vocab, denominator):
        assert not any(broken(function, case) for case in pairs(*size, **more))


def test_no_smaller_window_tells_them_apart() -> None:
    for size in smaller_than(2, 3):
        for case in pairs(*size, drawn="none"):
            for least in thresholds(size[1]):
                assert not broken(cut_after_looking, Slot(case.p, case.q, drawn="none", least=least))
    assert broken(cut_after_looking, read_length(reference(TASKS["E04.length"], "LENGTH_INPUT")))


def test_no_smaller_children_tell_them_apart() -> None:
    for vocab, denominator in smaller_than(2, 2):
        for p, count in product(laws(vocab, denominator), (1, 2, 3)):
            for children in product(range(vocab), repeat=count):
                assert not broken(judged_again, Slot(p, drawn="given", children=children))
    for p in laws(2, 2):
        for child in range(2):
            assert not broken(judged_again, Slot(p, drawn="given", children=(child,)))
    assert broken(judged_again, read_children(reference(TASKS["E07.duplicates"], "DUPLICATE_INPUT")))


def tells(rows_p: list[Law], rows_q: list[Law]) -> bool:
    """Whether a block shows the residual that is not scaled."""
    case = block(rows_p, rows_q)
    return judge_text(Seen(rounds_of(emitted(residual_not_scaled), case)), case) is not None  # type: ignore[arg-type]


def test_no_block_of_two_tokens_or_of_one_draft_tells_them_apart() -> None:
    for p1, q1, p2, q2 in product(laws(2, 2), repeat=4):
        assert not tells([p1, p2, p2], [q1, q2])
    for p, q in product(laws(3, 2), repeat=2):
        assert not tells([p, p], [q])
    found = reference(TASKS["E04.block_residual"], "BLOCK_INPUT")
    assert read_block(found).size() == SMALLEST_BLOCK and judge_block_tells(Seen(found), None) is None


@pytest.mark.slow
def test_no_block_of_halves_tells_them_apart() -> None:
    for p1, q1, p2, q2 in product(laws(3, 2), repeat=4):
        assert not tells([p1, p2, p2], [q1, q2])


@pytest.mark.parametrize(
    ("task", "name", "ours"),
    [
        ("E03.threshold", "threshold_verify", threshold_verify),
        ("E03.softmax_q", "softmax_q_round", softmax_q_round),
        ("E04.length", "cut_after_looking", cut_after_looking),
        ("E07.duplicates", "judges_twins_again", judged_again),
        ("E07.replacement", "judges_as_if_replaced", recursive),
    ],
)
def test_the_function_that_is_given_is_the_one_that_is_judged(task: str, name: str, ours) -> None:
    given = reference(TASKS[task], name)
    ask = TASKS[task].asks[1]
    for case in (*ask.public(), *ask.hidden(3)):
        assert rounds_of(given, case).law == rounds_of(ours, case).law


def test_the_block_that_is_given_is_the_museums() -> None:
    given = reference(TASKS["E04.block_residual"], "block_with_the_chains_residual")
    ask = TASKS["E04.block_residual"].asks[1]
    for case in ask.public():
        mine, theirs = (
            enumerate_rounds(Here({"f": function}), "f", case).value.law
            for function in (given, emitted(residual_not_scaled))
        )
        assert mine == theirs


def test_the_softmax_round_is_right_when_q_is_one_hot() -> None:
    for case in pairs(2, 3, drawn="none"):
        if max(case.q) == 1:
            assert rounds_of(softmax_q_round, case).law == rounds_of(one_hot_round, case).law


@pytest.mark.parametrize(
    ("task_id", "found", "told", "not_told"),
    [
        (
            "E03.threshold",
            {"THRESHOLD_INPUT": ([F(1, 2), F(1, 2)], [F(1, 3), F(2, 3)])},
            "yours has tokens 2, largest denominator 3; enough: tokens 2, largest denominator 2",
            "children",
        ),
        (
            "E07.duplicates",
            {"DUPLICATE_INPUT": ([F(1, 2), F(1, 2)], [0, 0, 0])},
            "children 3; enough: tokens 2, largest denominator 2, children 2",
            " x ",
        ),
    ],
)
def test_a_larger_input_is_told_what_counts_and_how_little_is_enough(
    task_id: str, found: dict, told: str, not_told: str
) -> None:
    result = run_task(TASKS[task_id], Here(found), ()).result("input_is_the_smallest")
    assert result.status == "failed" and told in result.detail
    assert not_told not in result.detail + result.what


INPUTS = [(task, ask) for task in TASKS.values() for ask in task.asks if ask.name.endswith("_INPUT")]


@pytest.mark.parametrize(("task", "ask"), INPUTS, ids=[ask.name for _, ask in INPUTS])
def test_both_statements_say_what_smallest_means(task, ask) -> None:
    """In the same words, since several numbers count and their order decides."""
    exercise = find_exercise(task.set_id)
    readme = exercise.folder / "README.md"
    order = re.compile(r"as few tokens as possible,? then (?:as few|drafts|the largest denominator)[^.:)]* as possible")
    section = readme.read_text(encoding="utf-8").split(f"## {task.id}:")[1].split("\n## ")[0]
    comment = exercise.starter.read_text(encoding="utf-8").split(f"\n{ask.name} = None")[0].rsplit("\n\n", 1)[1]
    found = [order.search(" ".join(re.sub(r"\n#? ?", " ", text).split())) for text in (section, comment)]
    assert all(found), (section, comment)
    assert found[0][0].replace(",", "") == found[1][0].replace(",", "")  # type: ignore[index]
