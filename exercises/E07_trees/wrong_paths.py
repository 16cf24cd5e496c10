"""Typical wrong answers to E07.paths."""

from typing import Any

from specdec_labs.grade.zoo import WrongAnswer, wrong


@wrong(
    "E07.paths",
    "count_paths",
    "counts_the_leaves",
    "your function multiplies branching and depth. Every level multiplies the candidates, it does not add to them.",
)
def branching_times_depth(branching: int, depth: int) -> int:
    return branching * depth if depth and branching > 1 else 1


@wrong(
    "E07.paths",
    "count_paths",
    "counts_the_leaves",
    "your function counts the nodes. Candidates share their beginnings; each leaf is one candidate.",
)
def counts_nodes(branching: int, depth: int) -> int:
    return sum(branching**level for level in range(1, depth + 1)) if branching > 1 and depth else 1


@wrong(
    "E07.paths",
    "count_paths",
    "a_chain_is_one_path",
    "base and exponent are swapped: depth to the power of branching. With branching 1 that is `depth`, not one path.",
)
def swaps_base_and_exponent(branching: int, depth: int) -> int:
    return depth**branching


@wrong(
    "E07.paths",
    "count_nodes",
    "counts_the_drafted_nodes",
    "your function counts the pending token too; it was emitted before and is not drafted.",
)
def counts_the_root(branching: int, depth: int) -> int:
    return sum(branching**level for level in range(depth + 1))


@wrong(
    "E07.paths",
    "count_nodes",
    "counts_the_drafted_nodes",
    "your function draws every candidate in full, depth times the leaves. Candidates share their first tokens, "
    "which is "
    "what a tree saves.",
)
def shares_nothing(branching: int, depth: int) -> int:
    return depth * branching**depth


@wrong(
    "E07.paths",
    "count_nodes",
    "a_chain_has_depth_nodes",
    "the closed form divides by branching - 1, which is 0 for a chain; there the answer is `depth`.",
)
def divides_by_zero(branching: int, depth: int) -> int:
    return branching * (branching**depth - 1) // (branching - 1)


def _value(name: str, answer: Any, says: str) -> WrongAnswer:
    return WrongAnswer(
        name=name,
        task="E07.paths",
        replaces="PATHS_3_4",
        caught_by="knows_the_seeds_example",
        says=says,
        answer=answer,
    )


TWELVE = _value("twelve", 12, "12 is 3 times 4; every level multiplies by three.")
NODES = _value("the_nodes", 120, "120 is the number of drafted nodes; the candidates are the leaves.")
SWAPPED = _value("swapped", 64, "64 is 4 to the power of 3; branching is the base, depth the exponent.")
