"""The theatre of a tree: every judged node in order, the recorded numbers, and the totals of the metrics."""

from typing import Any

import pytest

from specdec_core.draft import DraftTree
from specdec_core.drafters.tree import TreeDrafter
from specdec_core.engine import Engine
from specdec_core.metrics import summarize
from specdec_core.toy import toy_pair
from specdec_core.trace import Round, Trace
from specdec_core.warp import SamplingParams
from specdec_labs.widgets.theatre import static_theatre, view_model
from specdec_labs.widgets.theatre.tree_rounds import tree_layout

SHAPE = (-1, -1, 0, 0, 1)
RULES = [
    ("recursive", "iid"),
    ("recursive", "deterministic"),
    ("recursive_without_replacement", "without_replacement"),
    ("target_only", "iid"),
    ("traversal", "iid"),
    ("traversal_without_replacement", "without_replacement"),
]


def run(rule: str, proposal: Any, *, seed: int = 3, stop: tuple[int, ...] = ()) -> Trace:
    target, draft = toy_pair()
    engine = Engine(target, TreeDrafter(draft, SHAPE, proposal), rule, len(SHAPE), record_top=6)
    return engine.generate([1, 2, 3], SamplingParams(temperature=8.0, seed=seed, stop=stop), 40).trace


def tree_round(**changes: Any) -> Round:
    """Node 0 refused, node 1 accepted, its child 4 refused; nodes 2 and 3 never judged."""
    content: dict[str, Any] = {
        "index": 0,
        "length": 4,
        "draft_tokens": (10, 11, 12, 13, 14),
        "draft_parents": SHAPE,
        "proposal": "deterministic",
        "target_probs": (0.25, 0.5, 0.9, 0.1, 0.2),
        "draft_probs": None,
        "uniforms": (0.75, 0.5, None, None, 0.5),
        "num_accepted": 1,
        "num_tested": 2,
        "path": (1,),
        "next_token": 15,
        "kind": "recovered",
        "emitted": (11, 15),
        "target_rows": 6,
        "draft_rows": 5,
        "block_table": None,
        "top": None,
        "t_draft_s": 0.01,
        "t_verify_s": 0.05,
        "t_host_s": 0.001,
    }
    return Round(**{**content, **changes})


def steps_of(round_: Round, rule: str = "recursive") -> list[dict[str, Any]]:
    return view_model(Trace(prompt=(7,), prefill_token=3, rounds=[round_], settings={"rule": rule}))["steps"]


@pytest.mark.parametrize(("rule", "proposal"), RULES)
def test_the_story_of_every_rule_adds_up(rule: str, proposal: str) -> None:
    trace = run(rule, proposal)
    view = view_model(trace)
    metrics = summarize(trace)
    assert view["counters"]["rounds"] == metrics.rounds and view["counters"]["accepted"] == metrics.accepted > 0
    assert view["steps"][-1]["shown"] == len(trace.emitted) == len(view["tokens"])
    for round_ in trace.rounds:
        steps = [step for step in view["steps"] if step["round"] == round_.index + 1]
        judged = [step["draft"] for step in steps if step["kind"] == "judge"]
        asked = {node for node, uniform in enumerate(round_.uniforms) if uniform is not None}
        assert rule == "target_only" or set(judged) == asked
        assert len(judged) == len(set(judged))
        last = steps[-1]["drafts"]
        assert [node for node, (_, state) in enumerate(last) if state == "accepted"] == list(round_.path)
        assert "waiting" not in {state for _, state in last}


def test_a_walk_is_told_level_by_level_with_what_was_left_of_p() -> None:
    steps = steps_of(tree_round())
    assert [step["kind"] for step in steps] == [
        "start",
        "prefill",
        "round",
        "judge",
        "judge",
        "judge",
        "recovered",
        "end",
    ]
    assert [step["draft"] for step in steps[3:6]] == [0, 1, 4]
    assert [step["shown"] for step in steps] == [0, 1, 1, 1, 2, 2, 3, 3]
    assert [state for _, state in steps[4]["drafts"]] == ["refused", "accepted", "waiting", "waiting", "waiting"]
    assert [state for _, state in steps[6]["drafts"]] == ["refused", "accepted", "dropped", "dropped", "refused"]
    assert steps[3]["coin"] == {"p": 0.25, "q": 1.0, "ratio": 0.25, "u": 0.75, "accepted": False}
    # 0.5 of what node 0 left: 0.5 / 0.75
    assert steps[4]["coin"]["ratio"] == pytest.approx(2 / 3, abs=1e-6)
    assert "child 1 of 2" in steps[3]["label"] and "child 2 of 2" in steps[4]["label"]
    assert "1 refused child left of p" in steps[6]["say"]


def test_a_sampled_sibling_has_no_ratio_because_the_law_left_over_is_not_recorded() -> None:
    steps = steps_of(tree_round(proposal="iid", draft_probs=(0.5, 0.5, 0.1, 0.1, 0.4)))
    assert steps[3]["coin"]["ratio"] == 0.5 and steps[4]["coin"]["ratio"] is None
    assert "what 1 refused sibling left of p" in steps[4]["say"] and steps[4]["bars"] is None


def test_a_refused_token_proposed_again_has_nothing_left() -> None:
    steps = steps_of(
        tree_round(
            draft_tokens=(10, 10, 12, 13, 14),
            uniforms=(0.75, 0.0, None, None, None),
            path=(),
            num_accepted=0,
            num_tested=1,
            emitted=(15,),
        )
    )
    assert steps[4]["coin"]["ratio"] == 0.0 and "is refused" in steps[4]["say"]


def test_traversal_is_told_from_the_leaves_and_accepts_a_whole_path() -> None:
    round_ = tree_round(
        uniforms=(0.9, 0.8, 0.6, 0.7, 0.1),
        path=(1, 4),
        num_accepted=2,
        num_tested=2,
        emitted=(11, 14, 15),
        kind="bonus",
    )
    steps = steps_of(round_, "traversal")
    # node 1 is judged only when its child 4 is refused
    assert [step["draft"] for step in steps if step["kind"] == "judge"][:4] == [2, 3, 0, 4]
    accepted = next(step for step in steps if step["kind"] == "judge" and step["coin"]["accepted"])
    assert accepted["draft"] == 4 and accepted["shown"] == 3
    assert [state for _, state in accepted["drafts"]] == ["refused", "accepted", "refused", "refused", "accepted"]
    assert accepted["coin"]["ratio"] is None and "as a whole" in accepted["say"]


def test_a_stop_token_ends_the_text_inside_the_path() -> None:
    steps = steps_of(tree_round(kind="stopped", next_token=None, emitted=(11,), num_tested=1))
    assert steps[-2]["kind"] == "stopped" and "stop token" in steps[-2]["say"]
    assert [step["draft"] for step in steps if step["kind"] == "judge"] == [0, 1]


def test_first_children_stay_in_the_lane_of_their_parent() -> None:
    places = tree_layout(DraftTree((0,) * 5, SHAPE))
    assert places == [(1, 0, True), (1, 2, False), (2, 0, True), (2, 1, False), (2, 2, True)]
    assert len({(depth, lane) for depth, lane, _ in places}) == 5


def test_the_static_twin_tells_a_tree_too() -> None:
    html = static_theatre(run("recursive", "iid"), rounds=2).html
    assert "A tree of 5 nodes with 3 paths" in html and "node 0, child 1 of 2" in html
