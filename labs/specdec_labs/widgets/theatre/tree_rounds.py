"""A round that drafted a tree, told node by node in the order its rule judges them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from specdec_core.draft import DraftTree
from specdec_core.trace import Round
from specdec_labs.widgets.theatre import bars, words
from specdec_labs.widgets.theatre.numbers import rounded, short

Name = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Told:
    """One step: what is said, the state of every node by then, and what the stage shows."""

    kind: str
    label: str
    say: str
    states: list[tuple[int, str]]
    emits: int = 0
    node: int | None = None
    token: int | None = None
    bars: dict[str, Any] | None = None
    coin: dict[str, Any] | None = None
    ends_round: bool = False


def is_chain(round_: Round) -> bool:
    """Whether every drafted node continues the one before it; a round without drafts is one too."""
    return round_.draft_parents == tuple(range(-1, len(round_.draft_tokens) - 1))


def layout(round_: Round) -> list[tuple[int, int, bool]]:
    """`tree_layout` of the round's tree."""
    return tree_layout(DraftTree(round_.draft_tokens, round_.draft_parents))


def tree_layout(tree: DraftTree) -> list[tuple[int, int, bool]]:
    """(depth from 1, lane from 0, is first child) of each node: a first child stays in its parent's lane."""
    lanes: dict[int, int] = {}
    taken = 0

    def place(node: int, lane: int) -> None:
        nonlocal taken
        lanes[node] = lane
        for rank, child in enumerate(tree.children(node)):
            if rank:
                taken += 1
            place(child, lane if rank == 0 else taken)

    for rank, root in enumerate(tree.children(-1)):
        taken += rank > 0
        place(root, taken)
    first = {tree.children(parent)[0] for parent in {-1, *tree.parents} if tree.children(parent)}
    return [(depth, lanes[node], node in first) for node, depth in enumerate(tree.depths)]


def told(round_: Round, rule: str, name: Name) -> Iterator[Told]:
    """The draft, every judgement, and the round's last token."""
    tree = DraftTree(round_.draft_tokens, round_.draft_parents)
    yield Told("round", "the draft", _drafted(round_, tree), _states(round_, [], False))
    judged: list[int] = []
    order = _order(round_, tree, rule)
    for node in order:
        judged.append(node)
        yield _judgement(round_, tree, rule, node, judged, name)
    yield _last(round_, tree, rule, judged, name)


def _order(round_: Round, tree: DraftTree, rule: str) -> list[int]:
    """Judged nodes: level by level for a walk; leaves first, each before its parent, for traversal."""
    if "traversal" in rule:
        return [node for node in _postorder(tree, -1) if round_.uniforms[node] is not None]
    order: list[int] = []
    for level, here in enumerate((-1, *round_.path)):
        if len(round_.path) <= level and round_.kind == "stopped":
            break
        entered = round_.path[level] if level < len(round_.path) else None
        for child in tree.children(here):
            if round_.uniforms[child] is None and any(u is not None for u in round_.uniforms):
                break  # siblings ran out: the draft had no law left to have drawn this one from
            order.append(child)
            if child == entered:
                break
    return order


def _postorder(tree: DraftTree, node: int) -> Iterator[int]:
    for child in tree.children(node):
        yield from _postorder(tree, child)
        yield child


def _states(round_: Round, judged: Sequence[int], is_over: bool) -> list[tuple[int, str]]:
    states = []
    for node, token in enumerate(round_.draft_tokens):
        if node in round_.path and (is_over or (judged and _is_passed(round_, node, judged))):
            state = "accepted"
        elif node in judged and node not in round_.path:
            state = "refused"
        else:
            state = "dropped" if is_over else "waiting"
        states.append((token, state))
    return states


def _is_passed(round_: Round, node: int, judged: Sequence[int]) -> bool:
    """A node is known to be accepted once it was judged, or once the end of its path was (traversal)."""
    return node in judged or (judged[-1] == round_.path[-1] and judged[-1] > node)


def _judgement(round_: Round, tree: DraftTree, rule: str, node: int, judged: Sequence[int], name: Name) -> Told:
    accepted = node in round_.path
    siblings = tree.children(tree.parents[node])
    earlier = [n for n in siblings[: siblings.index(node)] if n in judged]
    whole = "traversal" in rule
    ratio = None if whole else _ratio(round_, node, earlier)
    emits = (len(round_.path) if whole else 1) if accepted else 0
    q = None if round_.draft_probs is None else round_.draft_probs[node]
    p = round_.target_probs[node]
    slot = None if round_.top is None else round_.top[node]
    return Told(
        kind="judge",
        label=f"node {node}, {'the path to it' if whole else f'child {siblings.index(node) + 1} of {len(siblings)}'}",
        say=_verdict(round_, node, ratio, earlier, whole, name),
        states=_states(round_, judged, False),
        emits=emits,
        node=node,
        # bars of p and q speak of the first child alone: the law that judges later ones is not recorded
        bars=None if earlier or whole else bars.pair_bars(slot, tree.tokens[node], p, q),
        coin={
            "p": rounded(p),
            "q": rounded(1.0 if q is None else q),
            "ratio": None if ratio is None else rounded(ratio),
            "u": None if (u := round_.uniforms[node]) is None else rounded(u),
            "accepted": accepted,
        },
    )


def _ratio(round_: Round, node: int, earlier: Sequence[int]) -> float | None:
    """What the uniform is compared with, where the trace holds all of it; None otherwise."""
    if round_.uniforms[node] is None:
        return None
    p = round_.target_probs[node]
    if round_.draft_probs is not None:
        q = round_.draft_probs[node]
        return None if earlier else min(1.0, p / q) if q > 0 else None
    refused = {round_.draft_tokens[n]: round_.target_probs[n] for n in earlier}
    if round_.draft_tokens[node] in refused:
        return 0.0
    left = 1.0 - sum(refused.values())
    return min(1.0, p / left) if left > 0 else None


def _verdict(round_: Round, node: int, ratio: float | None, earlier: Sequence[int], whole: bool, name: Name) -> str:
    accepted, uniform = node in round_.path, round_.uniforms[node]
    token = name(round_.draft_tokens[node])
    subject = f"The path that ends in {token}" if whole else token
    head = f"{subject} is {'accepted' if accepted else 'refused'}"
    if uniform is None:
        return f"{head}: the target's own draw is {'this token' if accepted else 'another token'}. No uniform is asked."
    if whole:
        return f"{head} as a whole, with u = {short(uniform)} against the weight of the path."
    if ratio is None:
        return f"{head}: u = {short(uniform)}, against what {words.counted(len(earlier), 'refused sibling')} left of p."
    sign = "<" if accepted else "≥"
    if round_.draft_probs is None:
        law = "p, because q = 1" if not earlier else "p over what the refused siblings left"
    else:
        law = f"p/q = {short(round_.target_probs[node])}/{short(round_.draft_probs[node])}"
    return f"{head}: u = {short(uniform)} {sign} {short(ratio)} = {law}."


def _last(round_: Round, tree: DraftTree, rule: str, judged: Sequence[int], name: Name) -> Told:
    """The token after the walk, or the stop that cut it off."""
    states = _states(round_, judged, True)
    if round_.kind == "stopped":
        say = f"{name(round_.emitted[-1])} is a stop token: the text ends there, without the round's extra token."
        return Told("stopped", "stop", say, states, ends_round=True)
    token = words.next_token(round_)
    if round_.kind == "bonus":
        path = words.counted(len(round_.path), "node")
        say = f"The walk ended at a leaf after {path}; the same pass holds the law p there: {name(token)} comes on top."
        chart = bars.target_bars(round_.top[-1] if round_.top else None, token)
        return Told("bonus", "bonus token", say, states, 1, None, token, chart, ends_round=True)
    end = round_.path[-1] if round_.path else -1
    refused = [node for node in tree.children(end) if node in judged]
    count = "1 refused child" if len(refused) == 1 else f"{len(refused)} refused children"
    say = f"{name(token)} is drawn from what {count} left of p."
    if all(round_.uniforms[node] is None for node in refused):
        say = f"The target's own draw, {name(token)}, is none of the children; it is the round's last token."
    # after a single refusal that is the residual of its slot; after more it is not recorded
    is_single = len(refused) == 1 and "traversal" not in rule
    slot = round_.top[refused[0]] if round_.top and is_single else None
    return Told("recovered", "redraw", say, states, 1, None, token, bars.residual_bars(slot, token), ends_round=True)


def _drafted(round_: Round, tree: DraftTree) -> str:
    how = {
        "iid": "siblings drawn independently from q",
        "without_replacement": "siblings drawn from q without replacement",
        "deterministic": "children proposed without drawing",
    }.get(round_.proposal, round_.proposal)
    leaves = sum(not tree.children(node) for node in range(len(tree)))
    return (
        f"A tree of {words.counted(len(tree), 'node')} with {words.counted(leaves, 'path')}, {how}. One pass of the "
        "target judges them all; every node sees only its own ancestors."
    )
