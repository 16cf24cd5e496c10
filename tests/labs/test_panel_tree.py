"""The tree visualiser's frames: tree, mask and cache rows say the same, and what the cache did."""

import json

import pytest

from specdec_core.draft import DraftTree
from specdec_core.drafters.tree import TreeDrafter
from specdec_core.engine import Engine
from specdec_core.toy import toy_pair
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams
from specdec_labs.widgets.tree import frame_of, frames_of_trace, static_tree, view_model

TREE = DraftTree((10, 11, 12, 13, 14), (-1, -1, 0, 1, 3))


def recorded() -> Trace:
    target, draft = toy_pair()
    engine = Engine(target, TreeDrafter(draft, (-1, -1, 0, 1, 3)), "recursive_without_replacement", 5)
    return engine.generate([1, 2, 3], SamplingParams(temperature=8.0, seed=3), 32).trace


def test_the_mask_is_ancestors_itself_and_the_pending_token() -> None:
    mask = frame_of(TREE, prefix=7)["mask"]
    assert mask == ["100000", "110000", "101000", "110100", "101010", "101011"]
    seen = TREE.attention_mask(7)
    assert [[cell == "1" for cell in row] for row in mask] == seen[:, 7:].tolist() and bool(seen[:, :7].all())


def test_positions_follow_depth_not_order() -> None:
    frame = frame_of(TREE, prefix=7)
    assert [node["position"] for node in frame["nodes"]] == TREE.position_ids(7).tolist()[1:] == [8, 8, 9, 9, 10]
    assert (frame["leaves"], frame["depth"]) == (2, 3)


def test_accepted_rows_move_to_the_front_and_the_rest_is_freed() -> None:
    rows = frame_of(TREE, prefix=7, path=(1, 3))["rows"]
    assert [(row["row"], row["fate"], row["to"]) for row in rows] == [
        (7, "stays", 7),
        (8, "freed", None),
        (9, "moves", 8),
        (10, "freed", None),
        (11, "moves", 9),
        (12, "freed", None),
    ]


def test_a_path_along_the_first_rows_moves_nothing() -> None:
    chain = DraftTree.chain((1, 2, 3))
    rows = frame_of(chain, prefix=4, path=(0, 1))["rows"]
    assert [row["fate"] for row in rows] == ["stays", "stays", "stays", "freed"]


def test_without_a_verdict_nothing_is_said_about_rows() -> None:
    frame = frame_of(TREE)
    assert {row["fate"] for row in frame["rows"][1:]} == {""} and {node["state"] for node in frame["nodes"]} == {""}


def test_the_frames_of_a_run_agree_with_its_trace() -> None:
    trace = recorded()
    frames = frames_of_trace(trace)
    drafted = [round_ for round_ in trace.rounds if round_.draft_tokens]
    assert len(frames) == len(drafted)
    for frame, round_ in zip(frames, drafted):
        assert frame["prefix"] == round_.length - 1
        assert [node["id"] for node in frame["nodes"] if node["state"] == "accepted"] == sorted(round_.path)
        kept = [row for row in frame["rows"] if row["fate"] in ("stays", "moves")]
        assert max(row["to"] for row in kept) + 1 == round_.target_rows
    assert any(row["fate"] == "moves" for frame in frames for row in frame["rows"])
    assert json.loads(json.dumps(view_model(frames)))


@pytest.mark.parametrize("path", [(0, 3), (4,), (9,), (0, 0)])
def test_a_path_that_leads_nowhere_is_refused(path: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="from a child of the pending token down"):
        frame_of(TREE, path=path)


def test_nothing_to_show_and_too_much_are_refused() -> None:
    with pytest.raises(ValueError, match="frames is empty"):
        view_model([])
    with pytest.raises(ValueError, match="65 nodes"):
        frame_of(DraftTree.chain(tuple(range(65))))


def test_the_twin_draws_the_mask_in_characters() -> None:
    html = static_tree([frame_of(TREE, prefix=7, path=(1, 3), name=lambda token: f"<{token}>")]).html
    assert "■·■·■■" in html and "moves to slot 8" in html
    assert "&lt;11&gt;" in html and "<11>" not in html
    assert " P ■·····\n 0 ■■····\n" in html and "whole cache before them" in html
    assert "whole cache before them" not in static_tree([frame_of(TREE)]).html
