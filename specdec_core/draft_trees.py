"""Draft trees that follow the draft's confidence: EAGLE-2's expand and rerank, and best first over marginals.

Both are deterministic: a node's children are the draft's most probable tokens, in that order, and are verified as
such (`draft_probs=None`). The value of a node is the product of the draft's probabilities on its path; it never grows
along a path. Ties go to the shallower node, then to the lower index (for children: the lower token id).
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
import heapq

from torch import Tensor

from specdec_core.draft import DraftTree
from specdec_core.residual import Law, mass

Path = tuple[int, ...]
Number = float | Fraction
LawsOfPaths = Callable[[Sequence[Path]], Sequence[Law]]
"""The draft's next-token laws after the pending token and each of these paths of drafted tokens: one draft pass."""


def dynamic_tree(laws: LawsOfPaths, *, top_k: int, depth: int, nodes: int) -> DraftTree:
    """EAGLE-2: at each of `depth` levels the `top_k` best nodes grow `top_k` children; the best `nodes` of all stay.

    `laws` is called once a level, with the paths that grow: () first. Tokens the draft gives no mass are left out, so
    the tree may be smaller than asked for.

    Raises:
        ValueError: sizes below 1, laws that do not fit the paths.

    Source: Li et al., EAGLE-2, 2406.16858, section 4.
    """
    for name, size in (("top_k", top_k), ("depth", depth), ("nodes", nodes)):
        if size < 1:
            raise ValueError(f"{name} is {size}; expected at least 1")
    tokens: list[int] = []
    parents: list[int] = []
    values: list[Number] = []
    paths: dict[int, Path] = {-1: ()}
    frontier = [-1]
    for _ in range(depth):
        rows = laws([paths[node] for node in frontier])
        if len(rows) != len(frontier):
            raise ValueError(f"laws gave {len(rows)} rows for {len(frontier)} paths; give one law a path")
        level: list[int] = []
        for node, law in zip(frontier, rows):
            for token, chance in most_probable(law, top_k):
                level.append(len(tokens))
                paths[len(tokens)] = (*paths[node], token)
                tokens.append(token)
                parents.append(node)
                values.append(_value(1 if node < 0 else values[node], chance))
        frontier = sorted(level, key=lambda node: (-values[node], node))[:top_k]
        if not frontier:
            break
    return rerank(DraftTree(tuple(tokens), tuple(parents)), values, nodes)


def rerank(tree: DraftTree, values: Sequence[Number], nodes: int) -> DraftTree:
    """The `nodes` nodes of largest value over all depths, in their old order.

    With every node goes its whole path, because values never grow along one and ties go to the shallower node.

    Raises:
        ValueError: a value larger than that of its parent, or not one value a node.
    """
    if len(values) != len(tree):
        raise ValueError(f"values has {len(values)} entries for {len(tree)} nodes; give one value a node")
    for node, parent in enumerate(tree.parents):
        if parent >= 0 and values[node] > values[parent]:
            raise ValueError(f"values[{node}] is {values[node]}, more than its parent's {values[parent]}")
    depths = tree.depths
    kept = sorted(sorted(range(len(tree)), key=lambda node: (-values[node], depths[node], node))[:nodes])
    number = {-1: -1, **{node: place for place, node in enumerate(kept)}}
    return DraftTree(tuple(tree.tokens[node] for node in kept), tuple(number[tree.parents[node]] for node in kept))


def best_first_tree(marginals: Sequence[Law], budget: int) -> DraftTree:
    """The `budget` paths of largest value when position i of a path has the law `marginals[i]`, whatever came before.

    For drafters that predict several positions at once (Medusa heads, block diffusion). Nodes come out best first. A
    heap holds the next candidates: of each node taken, its next sibling and its first child. Tokens without mass are
    left out, so the tree may be smaller than `budget`.

    Source: the objective of EAGLE-2's rerank, solved best first on per-position marginals as DDTree does.
    """
    if budget < 0:
        raise ValueError(f"budget is {budget}; expected a number of nodes, at least 0")
    ranked = [most_probable(law, budget) for law in marginals]
    heap: list[tuple[Number, int, Path]] = []
    number: dict[Path, int] = {(): -1}
    values: dict[Path, Number] = {(): 1}
    tokens: list[int] = []

    def push(ranks: Path) -> None:
        place = len(ranks) - 1
        if place < len(ranked) and ranks[-1] < len(ranked[place]):
            values[ranks] = _value(values[ranks[:-1]], ranked[place][ranks[-1]][1])
            heapq.heappush(heap, (-values[ranks], len(ranks), ranks))

    push((0,))
    while heap and len(tokens) < budget:
        ranks = heapq.heappop(heap)[2]
        number[ranks] = len(tokens)
        tokens.append(ranked[len(ranks) - 1][ranks[-1]][0])
        push((*ranks[:-1], ranks[-1] + 1))
        push((*ranks, 0))
    parents = tuple(number[ranks[:-1]] for ranks in number if ranks)
    return DraftTree(tuple(tokens), parents)


def most_probable(law: Law, count: int) -> list[tuple[int, Number]]:
    """The `count` tokens of largest mass and their masses, largest first, the lower id on a tie; none without mass.

    Raises:
        ValueError: a NaN, an infinite mass or a negative one among them.
    """
    if isinstance(law, Tensor):
        if count < 1:
            return []
        largest = law.topk(min(count, len(law))).values
        # topk takes NaN for the largest value
        if not bool(largest.isfinite().all()):
            raise ValueError("law holds NaN or inf; a probability is finite - check the logits it was made from")
        # topk leaves the order of ties open
        candidates = (law >= largest[-1]).nonzero()[:, 0].tolist()
    else:
        candidates = list(range(len(law)))
    masses = [(token, mass(law, token)) for token in candidates]
    return sorted(((token, value) for token, value in masses if value > 0), key=lambda at: (-at[1], at[0]))[:count]


def _value(parent: Number, chance: Number) -> Number:
    # a float row may hold 1 + 1e-7; a value must not grow along a path
    return min(parent, parent * chance)
