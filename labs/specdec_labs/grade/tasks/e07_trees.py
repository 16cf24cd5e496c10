"""Tasks of set E07 about the shape of a tree: its paths, its attention mask, its positions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import random
from typing import Any

from specdec_core.draft import DraftTree
from specdec_labs.grade.exact import Malformed, read_list, read_whole
from specdec_labs.grade.plain import Array
from specdec_labs.grade.task import Ask, Property, Seen, Task, value
from specdec_labs.grade.tasks.formula import Call, call, is_number, tagged

PATHS, NODES = "count_paths", "count_nodes"
MASK, POSITIONS = "tree_mask", "tree_positions"
SPECINFER = "SpecInfer 2305.09781; Medusa 2401.10774, section 2.1.2"


def a_tree(branching: int, depth: int, nodes: bool) -> Call:
    """A full tree: every node down to depth - 1 has `branching` children."""
    paths = branching**depth
    wanted = sum(branching**level for level in range(1, depth + 1)) if nodes else paths
    kind = "root" if depth == 0 else "chain" if branching == 1 else "tree"
    return call(branching, depth, wanted=wanted, tags=[kind])


def trees(nodes: bool) -> Callable[[], Sequence[Call]]:
    """Small ones, chains, the tree of depth 0, the seeds' 3 and 4."""
    sizes = ((2, 1), (2, 2), (1, 3), (4, 0), (3, 2), (2, 4), (3, 4))
    return lambda: tuple(a_tree(branching, depth, nodes) for branching, depth in sizes)


def fresh_trees(nodes: bool) -> Callable[[int], Sequence[Call]]:
    """Random ones of each kind."""

    def cases(seed: int) -> Sequence[Call]:
        rng = random.Random(seed)
        full = [a_tree(rng.randrange(2, 6), rng.randrange(2, 6), nodes) for _ in range(4)]
        return (*full, a_tree(1, rng.randrange(2, 9), nodes), a_tree(rng.randrange(2, 6), 0, nodes))

    return cases


def read_tree(nodes: bool) -> Callable[..., Call]:
    """A case of an instructor's file."""

    def read(*, branching: int, depth: int) -> Call:
        if branching < 1 or not 0 <= depth <= 30:
            raise ValueError("expected branching of at least 1 and depth of 0 to 30")
        return a_tree(branching, depth, nodes)

    return read


def judge_seeds(seen: Seen, case: Any) -> str | None:
    """81."""
    found = read_whole(seen.value, "PATHS_3_4")
    if found == 81:
        return None
    return f"PATHS_3_4 is {found}; draw the first two levels: three nodes, then how many?"


PATHS_TASK = Task(
    id="E07.paths",
    title="how many candidates a tree holds",
    minutes=10,
    difficulty=1,
    asks=(
        Ask(name=PATHS, public=trees(False), hidden=fresh_trees(False), read_case=read_tree(False)),
        Ask(name=NODES, public=trees(True), hidden=fresh_trees(True), read_case=read_tree(True)),
        value("PATHS_3_4"),
    ),
    properties=(
        Property(
            name="counts_the_leaves",
            about=PATHS,
            what="every choice at every level gives another candidate: branching to the power of depth",
            why="this is what one pass of the target judges at once",
            pointer=f"notebook 06, section 2; {SPECINFER}",
            judge=is_number(PATHS),
            applies=tagged("tree"),
        ),
        Property(
            name="a_chain_is_one_path",
            about=PATHS,
            what="with branching 1 there is one candidate, and one (empty) at depth 0",
            why="a chain is the smallest tree; formulas for trees must meet it",
            pointer="notebook 06, section 2",
            judge=is_number(PATHS),
            applies=tagged("chain", "root"),
        ),
        Property(
            name="counts_the_drafted_nodes",
            about=NODES,
            what="the nodes of all levels, the pending token not counted",
            why="each node is a row of the pass and a row of the cache: this is what the tree costs",
            pointer="notebook 06, section 2",
            judge=is_number(NODES),
            applies=tagged("tree"),
        ),
        Property(
            name="a_chain_has_depth_nodes",
            about=NODES,
            what="with branching 1 there are `depth` nodes, and none at depth 0",
            why="a closed form divides by branching - 1 there",
            pointer="notebook 06, section 2",
            judge=is_number(NODES),
            applies=tagged("chain", "root"),
        ),
        Property(
            name="knows_the_seeds_example",
            about="PATHS_3_4",
            what="PATHS_3_4 is the number of candidates for branching 3 and depth 4",
            why="the one number to check a tree against",
            pointer="notebook 06, section 2",
            judge=judge_seeds,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The parents of drafted nodes (-1: the pending token), and how long the cached prefix is."""

    parents: tuple[int, ...]
    prefix: int

    def arguments(self) -> list[Any]:
        """As the learner's functions get them."""
        return [list(self.parents), self.prefix]

    @property
    def tree(self) -> DraftTree:
        """The tree."""
        return DraftTree((0,) * len(self.parents), self.parents)

    @property
    def mask(self) -> list[list[bool]]:
        """What must come out: row i may look at column j."""
        return self.tree.attention_mask(self.prefix).tolist()

    def name(self, column: int) -> str:
        """A column or a row in words."""
        at = column - self.prefix
        return f"prefix token {column}" if at < 0 else "the pending token" if at == 0 else f"node {at - 1}"

    def title(self) -> str:
        """The case in words."""
        return f"parents {list(self.parents)}, prefix of {self.prefix}"


def shapes() -> Sequence[Shape]:
    """No node, a chain, siblings, a tree, nodes numbered by branch, no prefix."""
    return (
        Shape((), 2),
        Shape((-1,), 1),
        Shape((-1, -1), 1),
        Shape((-1, 0), 0),
        Shape((-1, 0, 1), 2),
        Shape((-1, -1, 0, 0, 1), 2),
        Shape((-1, 0, 1, -1, 3, 0), 3),
    )


def fresh_shapes(seed: int) -> Sequence[Shape]:
    """Random trees."""
    rng = random.Random(seed)
    cases = [Shape((), 1), Shape((-1, 0, 1, 2), 2), Shape((-1, -1, 0, 0, 2), 1)]
    for nodes in (3, 5, 7, 9):
        cases.append(Shape(tuple(rng.randrange(-1, node) for node in range(nodes)), rng.randrange(4)))
    return cases


def read_shape(*, parents: list[int], prefix: int) -> Shape:
    """A case of an instructor's file."""
    case = Shape(tuple(parents), int(prefix))
    assert case.tree is not None and case.prefix >= 0
    return case


def read_mask(answer: Any, case: Shape) -> list[list[bool]]:
    """Rows of booleans; a tensor or array of booleans counts, numbers do not."""
    entries = answer.nested() if isinstance(answer, Array) and len(answer.shape) == 2 else answer
    rows = [read_list(row, "the columns of a row") for row in read_list(entries, "one row a node, and one before them")]
    wanted = case.mask
    if len(rows) != len(wanted) or any(len(row) != len(wanted[0]) for row in rows):
        shape = f"{len(rows)} rows of {sorted({len(row) for row in rows})} columns"
        raise Malformed(f"{case.title()}: your mask has {shape}; expected {len(wanted)} rows of {len(wanted[0])}")
    for row in rows:
        for entry in row:
            if type(entry) is not bool:
                raise Malformed(f"{case.title()}: your mask holds {entry!r}; expected True and False")
    return rows


def judge_cells(picks: Callable[[Shape, int, int], bool]) -> Callable[[Seen, Shape], str | None]:
    """Judge: the cells that `picks` chooses are what they must be."""

    def judge(seen: Seen, case: Shape) -> str | None:
        rows, wanted = read_mask(seen.value, case), case.mask
        for row, cells in enumerate(wanted):
            for column, must in enumerate(cells):
                if picks(case, row, column) and rows[row][column] != must:
                    verb = "must look" if must else "must not look"
                    return f"{case.title()}: {case.name(case.prefix + row)} {verb} at {case.name(column)}"
        return None

    return judge


def _relation(case: Shape, row: int, column: int) -> str:
    at = column - case.prefix
    if at <= 0:
        return "before"
    if row == at:
        return "self"
    paths = case.tree.paths()
    if row == 0:
        return "below"
    mine, other = paths[row - 1], paths[at - 1]
    return "ancestor" if at - 1 in mine else "below" if row - 1 in other else "cousin"


def related(*kinds: str) -> Callable[[Shape, int, int], bool]:
    """Picks the cells of these relations: before, self, ancestor, below, cousin."""
    return lambda case, row, column: _relation(case, row, column) in kinds


def judge_shape(seen: Seen, case: Shape) -> str | None:
    """It is a mask of the right shape."""
    read_mask(seen.value, case)
    return None


def deep(case: Shape) -> bool:
    """A node with a grandparent among the nodes."""
    return max(case.tree.depths, default=0) >= 2


def wide(case: Shape) -> bool:
    """Two nodes neither of which is above the other."""
    size = len(case.parents) + 1
    return any(
        related("cousin")(case, row, case.prefix + column) for row in range(1, size) for column in range(1, size)
    )


def has_nodes(case: Shape) -> bool:
    """At least one node."""
    return bool(case.parents)


MASK_TASK = Task(
    id="E07.mask",
    title="who looks at whom in a tree",
    minutes=15,
    difficulty=2,
    asks=(Ask(name=MASK, public=shapes, hidden=fresh_shapes, read_case=read_shape),),
    properties=(
        Property(
            name="has_a_row_for_the_pending_token",
            about=MASK,
            what="nodes + 1 rows, prefix + nodes + 1 columns, True and False",
            why="the pass has a row for the pending token too: its law judges the first level",
            pointer="specdec_core.draft.DraftTree.attention_mask",
            judge=judge_shape,
        ),
        Property(
            name="sees_what_is_before_the_tree",
            about=MASK,
            what="every row looks at the whole cached prefix and at the pending token",
            why="all candidates continue the same text",
            pointer=SPECINFER,
            judge=judge_cells(related("before")),
        ),
        Property(
            name="sees_itself",
            about=MASK,
            what="every row looks at itself",
            why="a row that looks at nothing of its own predicts from the token before it",
            pointer=SPECINFER,
            judge=judge_cells(related("self")),
        ),
        Property(
            name="sees_its_ancestors",
            about=MASK,
            what="a node looks at all nodes on its path, not at its parent alone",
            why="its law must be that of the whole candidate text",
            pointer="notebook 06, section 2",
            judge=judge_cells(related("ancestor")),
            applies=deep,
        ),
        Property(
            name="not_at_other_branches",
            about=MASK,
            what="a node does not look at siblings, cousins or uncles",
            why="they are other texts; a causal mask over the rows lets them leak in, and only the law shows it",
            pointer="notebook 06, section 2: two branches never see each other",
            judge=judge_cells(related("cousin")),
            applies=wide,
        ),
        Property(
            name="not_at_what_follows",
            about=MASK,
            what="no row looks at its own descendants",
            why="a target that sees the draft it is to judge will always agree with it",
            pointer="specdec_core.draft.DraftTree.attention_mask",
            judge=judge_cells(related("below")),
            applies=has_nodes,
        ),
    ),
)


def read_positions(seen: Seen, case: Shape) -> list[int]:
    """One whole number a row."""
    answer = list(seen.value.data) if isinstance(seen.value, Array) and len(seen.value.shape) == 1 else seen.value
    entries = [read_whole(entry, "a position") for entry in read_list(answer, "one position a row")]
    if len(entries) != len(case.parents) + 1:
        raise Malformed(
            f"{case.title()}: you return {len(entries)} positions; expected {len(case.parents) + 1}, the pending "
            f"token's "
            "first"
        )
    return entries


def judge_positions(rows: Callable[[Shape], Sequence[int]]) -> Callable[[Seen, Shape], str | None]:
    """Judge: the positions of these rows are offset + depth."""

    def judge(seen: Seen, case: Shape) -> str | None:
        found, wanted = read_positions(seen, case), case.tree.position_ids(case.prefix).tolist()
        for row in rows(case):
            if found[row] != wanted[row]:
                name = case.name(case.prefix + row)
                return (
                    f"parents {list(case.parents)}, offset {case.prefix}: {name} gets position {found[row]}, must be "
                    f"{wanted[row]}"
                )
        return None

    return judge


def _deeper(case: Shape) -> list[int]:
    return [node + 1 for node, depth in enumerate(case.tree.depths) if depth > 1]


def _first_level(case: Shape) -> list[int]:
    return [node + 1 for node, depth in enumerate(case.tree.depths) if depth == 1]


POSITIONS_TASK = Task(
    id="E07.positions",
    title="where the nodes of a tree stand",
    minutes=5,
    difficulty=1,
    asks=(Ask(name=POSITIONS, public=shapes, hidden=fresh_shapes, read_case=read_shape),),
    properties=(
        Property(
            name="the_pending_token_stands_at_the_offset",
            about=POSITIONS,
            what="the first row is the pending token, at `offset`",
            why="off by one here turns every rotary angle of the pass",
            pointer="specdec_core.draft.DraftTree.position_ids",
            judge=judge_positions(lambda case: [0]),
        ),
        Property(
            name="siblings_stand_at_the_same_place",
            about=POSITIONS,
            what="all nodes of the first level stand at offset + 1",
            why="they are candidates for one place of the text; numbered in a row, all but one stand wrongly",
            pointer="notebook 06, section 2",
            judge=judge_positions(_first_level),
            applies=lambda case: len(_first_level(case)) > 1,
        ),
        Property(
            name="depth_decides",
            about=POSITIONS,
            what="a node stands at offset + its depth, whatever its number is",
            why="nodes may be numbered by level or by branch",
            pointer="specdec_core.draft.DraftTree.position_ids",
            judge=judge_positions(_deeper),
            applies=deep,
        ),
    ),
)
