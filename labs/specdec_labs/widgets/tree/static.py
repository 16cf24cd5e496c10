"""A draft tree without a script: its nodes, its mask and its cache rows as text."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from specdec_labs.widgets.tree.view_model import Frame, view_model
from specdec_labs.widgets.twin import StaticTwin, paragraph, table

_FATES = {"stays": "stays", "moves": "moves to slot {to}", "freed": "freed", "": "waits for the verdict"}


def static_tree(frames: Sequence[Frame]) -> StaticTwin:
    """The first frame as HTML. ValueError when there is none."""
    return StaticTwin(render(view_model(frames)))


def render(view: Mapping[str, Any], frame: int = 0) -> str:
    """HTML of one frame."""
    shown = view["frames"][frame]
    rows = [
        (
            entry["row"],
            _name(entry["node"]),
            shown["pending"] if entry["node"] < 0 else shown["nodes"][entry["node"]]["token"],
            "" if entry["node"] < 0 else shown["nodes"][entry["node"]]["parent"],
            shown["prefix"] if entry["node"] < 0 else shown["nodes"][entry["node"]]["position"],
            "" if entry["node"] < 0 else shown["nodes"][entry["node"]]["state"],
            _FATES[entry["fate"]].format(to=entry["to"]),
        )
        for entry in shown["rows"]
    ]
    mask = "\n".join(
        f"{_name(place - 1):>2} " + "".join("■" if seen == "1" else "·" for seen in row)
        for place, row in enumerate(shown["mask"])
    )
    cached = " (every row also sees the whole cache before them)" if shown["prefix"] else ""
    return (
        paragraph(
            f"{shown['label']}: {shown['leaves']} paths, depth {shown['depth']}, after {shown['prefix']} cached tokens."
        )
        + table(("cache slot", "node", "token", "parent", "position", "verdict", "its slot"), rows)
        + paragraph(f"The mask among the fed tokens{cached}, P for the pending one, then the nodes in order:")
        + f"<pre>{escape(mask)}</pre>"
    )


def _name(node: int) -> str:
    """A node's number as everywhere in the view; P is the pending token."""
    return "P" if node < 0 else str(node)
