"""A draft tree from three sides: the tree, the mask that lets each node see its ancestors only, the cache rows.

A frame is one tree. `frames_of_trace` makes one a round of a recorded run, `frame_of` one of any tree.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from specdec_core.draft import DraftTree
from specdec_core.trace import Round, Trace
from specdec_labs.widgets.theatre.numbers import rounded, short
from specdec_labs.widgets.theatre.tree_rounds import tree_layout
from specdec_labs.widgets.theatre.view_model import token_text

MAX_NODES = 64
Frame = dict[str, Any]


def view_model(frames: Sequence[Frame]) -> dict[str, Any]:
    """The frames, ready for `json.dumps`.

    Raises:
        ValueError: no frames.
    """
    if not frames:
        raise ValueError("frames is empty; give at least one tree, or a trace with a round that drafted something")
    return {"version": 1, "frames": list(frames)}


def frames_of_trace(trace: Trace) -> list[Frame]:
    """One frame a round that drafted something, with what became of every node and of its cache row."""
    return [_frame_of_round(trace, round_) for round_ in trace.rounds if round_.draft_tokens]


def frame_of(
    tree: DraftTree,
    *,
    prefix: int = 0,
    path: Sequence[int] | None = None,
    name: Callable[[int], str] = str,
    label: str = "",
    notes: Mapping[int, str] | None = None,
    pending: str = "pending",
) -> Frame:
    """One tree after `prefix` cached tokens and the pending one. A `name` of "" says the tokens are not known.

    `nodes` has a row per node: id, token, parent, depth, lane, position, state (accepted, other, or "" without a
    `path`) and note. `mask` has a string per fed row (the pending token, then the nodes), "1" where it sees a fed
    column; every row sees the whole prefix. `rows` says what each cache row holds after the pass and where it goes:
    stays, moves to an earlier slot, or is freed.

    Raises:
        ValueError: more than 64 nodes, or a path that does not lead down from the root.
    """
    if len(tree) > MAX_NODES:
        raise ValueError(f"the tree has {len(tree)} nodes; the picture takes up to {MAX_NODES}")
    _check_path(tree, path or ())
    positions = tree.position_ids(prefix).tolist()
    layout = tree_layout(tree)
    nodes = [
        {
            "id": node,
            "token": name(token),
            "parent": tree.parents[node],
            "depth": layout[node][0],
            "lane": layout[node][1],
            "position": positions[node + 1],
            "state": "" if path is None else "accepted" if node in path else "other",
            "note": (notes or {}).get(node, ""),
        }
        for node, token in enumerate(tree.tokens)
    ]
    seen = tree.attention_mask(0).tolist()
    return {
        "label": label or f"{len(tree)} nodes",
        "prefix": prefix,
        "pending": pending,
        "nodes": nodes,
        "mask": ["".join("1" if visible else "0" for visible in row) for row in seen],
        "rows": _cache_rows(tree, prefix, path),
        "leaves": sum(not tree.children(node) for node in range(len(tree))),
        "depth": max(tree.depths, default=0),
    }


def _cache_rows(tree: DraftTree, prefix: int, path: Sequence[int] | None) -> list[dict[str, Any]]:
    """Rows that the pass wrote. After the verdict the path's rows stand first, in order; all others are freed."""
    rows: list[dict[str, Any]] = [{"row": prefix, "node": -1, "fate": "stays", "to": prefix}]
    for node in range(len(tree)):
        row = prefix + 1 + node
        if path is None or node not in path:
            rows.append({"row": row, "node": node, "fate": "" if path is None else "freed", "to": None})
            continue
        slot = prefix + 1 + list(path).index(node)
        rows.append({"row": row, "node": node, "fate": "stays" if slot == row else "moves", "to": slot})
    return rows


def _frame_of_round(trace: Trace, round_: Round) -> Frame:
    tree = DraftTree(round_.draft_tokens, round_.draft_parents)
    label = f"round {round_.index + 1}: {len(round_.path)} of {len(tree)} nodes accepted"
    return frame_of(
        tree,
        prefix=round_.length - 1,
        path=round_.path,
        name=lambda token: token_text(trace, token),
        label=label,
        notes={node: _note(round_, node) for node in range(len(tree))},
        pending=token_text(trace, trace.tokens[round_.length - 1]),
    )


def _note(round_: Round, node: int) -> str:
    parts = [f"p = {short(rounded(round_.target_probs[node]))}"]
    if round_.draft_probs is not None:
        parts.append(f"q = {short(rounded(round_.draft_probs[node]))}")
    uniform = round_.uniforms[node]
    parts.append("not judged by a uniform" if uniform is None else f"u = {short(rounded(uniform))}")
    return ", ".join(parts)


def _check_path(tree: DraftTree, path: Sequence[int]) -> None:
    above = -1
    for node in path:
        if node not in range(len(tree)) or tree.parents[node] != above:
            raise ValueError(f"path is {list(path)}; expected nodes from a child of the pending token down to one node")
        above = node
