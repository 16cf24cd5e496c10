"""A draft tree without a script: its nodes, its mask and its cache rows as text."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from specdec_labs.widgets.tree.view_model import Frame, view_model
from specdec_labs.widgets.twin import StaticTwin, paragraph, table

_FATES = {"stays": "stays", "moves": "moves to row {to}", "freed": "freed", "": "waits for the verdict"}


def static_tree(frames: Sequence[Frame]) -> StaticTwin:
    """The first frame as HTML. ValueError when there is none."""
    return StaticTwin(render(view_model(frames)))


def render(view: Mapping[str, Any], frame: int = 0) -> str:
    """HTML of one frame."""
    shown = view["frames"][frame]
    rows = [
        (
            entry["row"],
            "pending" if entry["node"] < 0 else entry["node"],
            shown["pending"] if entry["node"] < 0 else shown["nodes"][entry["node"]]["token"],
            "" if entry["node"] < 0 else shown["nodes"][entry["node"]]["parent"],
            shown["prefix"] if entry["node"] < 0 else shown["nodes"][entry["node"]]["position"],
            "" if entry["node"] < 0 else shown["nodes"][entry["node"]]["state"],
            _FATES[entry["fate"]].format(to=entry["to"]),
        )
        for entry in shown["rows"]
    ]
    mask = "\n".join("".join("■" if seen == "1" else "·" for seen in row) for row in shown["mask"])
    return (
        paragraph(
            f"{shown['label']}: {shown['leaves']} paths, depth {shown['depth']}, after {shown['prefix']} cached tokens."
        )
        + table(("cache row", "node", "token", "parent", "position", "verdict", "its row"), rows)
        + paragraph("The mask among the fed rows (every row also sees the whole cache before them):")
        + f"<pre>{escape(mask)}</pre>"
    )
