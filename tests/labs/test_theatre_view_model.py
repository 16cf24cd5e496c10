"""The view model of the theatre tells what the trace recorded, step by step."""

from dataclasses import replace
import json
import re
from typing import Any

import pytest
import torch

from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.metrics import summarize
from specdec_core.toy import PrefixModel, toy_pair
from specdec_core.trace import Round, SlotTop, Trace
from specdec_core.warp import SamplingParams
from specdec_labs.widgets.texts import name_tokens
from specdec_labs.widgets.theatre import view_model
from specdec_labs.widgets.theatre.bars import MAX_ROWS, pair_bars, residual_bars, target_bars
from specdec_labs.widgets.theatre.numbers import short, told_apart

TEXTS = {1: "one", 2: "two", 3: "three", 4: "four", 9: "stop"}


def make_round(**changes: Any) -> Round:
    """A refusal at the second of three drafts, with `changes`."""
    drafts = changes.get("draft_tokens", (1, 2, 3))
    accepted = changes.get("num_accepted", 1)
    content = {
        "index": 0,
        "length": 4,
        "draft_tokens": drafts,
        "draft_parents": tuple(range(-1, len(drafts) - 1)),
        "proposal": "chain",
        "target_probs": (0.5, 0.15, 0.9),
        "draft_probs": (0.4, 0.6, 0.2),
        "uniforms": (0.75, 0.5, None),
        "num_accepted": accepted,
        "num_tested": min(accepted + 1, len(drafts)),
        "path": tuple(range(accepted)),
        "next_token": 4,
        "kind": "recovered",
        "emitted": (1, 4),
        "target_rows": 6,
        "draft_rows": 5,
        "block_table": None,
        "top": None,
        "t_draft_s": 0.01,
        "t_verify_s": 0.05,
        "t_host_s": 0.001,
    }
    return Round(**{**content, **changes})


def make_trace(*rounds: Round, **changes: Any) -> Trace:
    content = {"prompt": (7, 8), "prefill_token": 3, "finish_reason": "length", "texts": dict(TEXTS)}
    return Trace(**{**content, **changes}, rounds=[replace(one, index=i) for i, one in enumerate(rounds)])


def steps_of(*rounds: Round, **changes: Any) -> list[dict[str, Any]]:
    return view_model(make_trace(*rounds, **changes))["steps"]


def test_the_theatre_opens_on_the_first_refusal_or_the_next_best_step() -> None:
    kept = make_round(num_accepted=3, kind="bonus", emitted=(1, 2, 3, 4), uniforms=(0.1, 0.1, 0.1))
    plain = make_round(draft_tokens=(), num_accepted=0, kind="plain", emitted=(4,), uniforms=())
    for rounds, label in (
        ((plain, kept, make_round(), make_round()), "Round 3: draft 2 of 3"),
        ((plain, kept), "Round 2: draft 1 of 3"),
        ((plain,), "Round 1: plain step"),
        ((), "End"),
    ):
        view = view_model(make_trace(*rounds))
        assert view["steps"][view["opens_at"]]["label"] == label


def step_kinds(steps: list[dict[str, Any]]) -> list[str]:
    return [step["kind"] for step in steps]


def random_model(vocab: int, salt: int) -> PrefixModel:
    """Logits from a generator seeded by the prefix: any two models differ, each repeats itself."""

    def logits(prefix: tuple[int, ...]) -> torch.Tensor:
        seed = hash((salt, prefix)) % (1 << 31)
        return 2.0 * torch.randn(vocab, generator=torch.Generator().manual_seed(seed))

    return PrefixModel(vocab, logits)


def run(gamma: int, seed: int, *, tokens: int = 40, stop: tuple[int, ...] = (), top: int = 16, greedy: bool = False):
    engine = Engine(random_model(30, 1), ModelDrafter(random_model(30, 2)), "chain", gamma, record_top=top)
    params = SamplingParams(temperature=0.0 if greedy else 1.0, seed=seed, stop=stop)
    return engine.generate([1, 2, 3], params, tokens).trace


def test_a_refusal_is_told_in_reading_order() -> None:
    steps = steps_of(make_round())
    assert step_kinds(steps) == ["start", "prefill", "round", "judge", "judge", "recovered", "end"]
    assert [step["shown"] for step in steps] == [0, 1, 1, 2, 2, 3, 3]
    assert [state for _, state in steps[2]["drafts"]] == ["waiting"] * 3
    assert [state for _, state in steps[3]["drafts"]] == ["accepted", "waiting", "waiting"]
    assert [state for _, state in steps[4]["drafts"]] == ["accepted", "refused", "dropped"]
    assert [step["draft"] for step in steps] == [None, None, None, 0, 1, None, None]
    assert steps[5]["token"] == 4


def test_the_coin_carries_the_recorded_numbers() -> None:
    accepted, refused = steps_of(make_round())[3:5]
    assert accepted["coin"] == {"p": 0.5, "q": 0.4, "ratio": 1.0, "u": 0.75, "accepted": True}
    assert refused["coin"] == {"p": 0.15, "q": 0.6, "ratio": 0.25, "u": 0.5, "accepted": False}
    assert "“one” is accepted" in accepted["say"]
    assert all(number in accepted["say"] for number in ("0.5000", "0.4000", "0.7500"))
    assert "“two” is refused: u = 0.5000 ≥ 0.2500 = p/q = 0.1500/0.6000" in refused["say"]


def test_counters_count_finished_rounds_only() -> None:
    steps = steps_of(make_round())
    assert steps[4]["counters"] == {"rounds": 0, "drafted": 0, "accepted": 0, "mean_acceptance_length": None}
    assert steps[5]["counters"] == {"rounds": 1, "drafted": 3, "accepted": 1, "mean_acceptance_length": 2.0}


def test_all_kept_gives_a_bonus_step() -> None:
    round_ = make_round(
        draft_tokens=(1, 2),
        target_probs=(0.5, 0.6),
        draft_probs=(0.4, 0.6),
        uniforms=(0.1, 0.99),
        num_accepted=2,
        num_tested=2,
        kind="bonus",
        emitted=(1, 2, 4),
    )
    steps = steps_of(round_)
    assert step_kinds(steps)[3:6] == ["judge", "judge", "bonus"]
    assert "Both drafts were kept" in steps[5]["say"] and "“four”" in steps[5]["say"]


def test_a_stop_token_inside_the_draft_cuts_the_round() -> None:
    round_ = make_round(
        draft_tokens=(1, 9, 3),
        num_accepted=2,
        num_tested=2,
        target_probs=(0.5, 0.6, 0.1),
        uniforms=(0.1, 0.2, 0.3),
        next_token=None,
        kind="stopped",
        emitted=(1, 9),
    )
    steps = steps_of(round_, finish_reason="stop")
    assert step_kinds(steps) == ["start", "prefill", "round", "judge", "judge", "stopped", "end"]
    assert [state for _, state in steps[5]["drafts"]] == ["accepted", "accepted", "dropped"]
    assert "“stop” is a stop token" in steps[5]["say"] and "1 later draft" in steps[5]["say"]
    assert steps[5]["shown"] == steps[4]["shown"] == 3
    assert steps[6]["say"].startswith("A stop token came up: 3 tokens")


def test_a_deterministic_proposal_has_a_one_hot_q() -> None:
    top = (SlotTop(((2, 0.7), (1, 0.3)), None, ((2, 1.0),)),) * 2
    round_ = make_round(
        draft_tokens=(1,),
        proposal="deterministic",
        target_probs=(0.3,),
        draft_probs=None,
        uniforms=(0.8,),
        num_accepted=0,
        emitted=(4,),
        top=top,
    )
    step = steps_of(round_)[3]
    assert step["coin"] == {"p": 0.3, "q": 1.0, "ratio": 0.3, "u": 0.8, "accepted": False}
    assert step["bars"]["rows"] == [[2, 0.7, 0.0], [1, 0.3, 1.0]]
    assert "because q = 1" in step["say"]


def test_greedy_verification_needs_no_uniform() -> None:
    round_ = make_round(target_probs=(1.0, 0.0, 1.0), draft_probs=(1.0, 1.0, 1.0), uniforms=(None, None, None))
    accepted, refused, redraw = steps_of(round_)[3:6]
    assert accepted["coin"]["ratio"] is None and accepted["coin"]["u"] is None
    assert "it is the target's own first choice" in accepted["say"]
    assert "it is not the target's own first choice" in refused["say"]
    assert "the target's own first choice" in redraw["say"]


def test_a_token_without_target_mass_is_said_to_be_hopeless() -> None:
    round_ = make_round(target_probs=(0.5, 0.0, 0.9), uniforms=(0.1, 0.0, None))
    assert "p = 0, so no uniform can accept it" in steps_of(round_)[4]["say"]


def test_a_verdict_of_another_test_is_not_passed_off_as_the_ratio_test() -> None:
    round_ = make_round(uniforms=(0.75, 0.01, None))
    step = steps_of(round_)[4]
    assert step["coin"]["ratio"] is None
    assert "refused, although u·q < p" in step["say"]


def test_without_recorded_tops_the_drafted_token_is_the_only_row() -> None:
    steps = steps_of(make_round())
    assert steps[3]["bars"]["rows"] == [[1, 0.5, 0.4]]
    assert steps[3]["bars"]["rest"] == [None, None]
    assert steps[5]["bars"] is None


@pytest.mark.parametrize("prefill", [None, 3])
def test_an_empty_trace_still_has_a_first_and_a_last_step(prefill: int | None) -> None:
    view = view_model(Trace(prompt=(1, 2), prefill_token=prefill, finish_reason="interrupted"))
    kinds = step_kinds(view["steps"])
    assert kinds == (["start", "end"] if prefill is None else ["start", "prefill", "end"])
    assert view["counters"]["mean_acceptance_length"] is None
    assert "interrupted" in view["steps"][-1]["say"]


def test_gamma_zero_is_a_plain_step_a_round() -> None:
    trace = run(gamma=0, seed=5, tokens=6)
    view = view_model(trace)
    assert step_kinds(view["steps"]) == ["start", "prefill", *["plain"] * 5, "end"]
    assert view["counters"] == {"rounds": 5, "drafted": 0, "accepted": 0, "mean_acceptance_length": 1.0}
    assert view["steps"][2]["bars"]["series"] == ["p"]


def test_token_text_falls_back_to_the_id() -> None:
    view = view_model(make_trace(make_round(), texts={1: "one"}))
    assert view["texts"]["1"] == "one"
    assert view["texts"]["2"] == "#2"


class Numerals:
    """A tokenizer that calls every token by its number."""

    def token(self, token_id: int) -> str:
        return f"<{token_id}>"


def test_every_mentioned_token_gets_its_text() -> None:
    trace = name_tokens(run(gamma=3, seed=2), Numerals())
    view = view_model(trace)
    assert view["texts"] == {token: f"<{token}>" for token in view["texts"]}
    assert set(view["texts"]) >= {str(row[0]) for step in view["steps"] if step["bars"] for row in step["bars"]["rows"]}


@pytest.mark.parametrize("gamma", [1, 2, 4, 7])
@pytest.mark.parametrize("seed", range(4))
def test_real_runs_agree_with_the_trace_and_its_metrics(gamma: int, seed: int) -> None:
    trace = run(gamma, seed, stop=(11,), greedy=seed == 3)
    view, metrics = view_model(trace), summarize(trace)
    assert tuple(token for token, _, _ in view["tokens"]) == trace.emitted
    assert view["steps"][-1]["shown"] == len(trace.emitted)
    shown = [step["shown"] for step in view["steps"]]
    assert shown == sorted(shown) and max(b - a for a, b in zip(shown, shown[1:])) <= 1
    assert view["counters"] == {
        "rounds": metrics.rounds,
        "drafted": metrics.drafted,
        "accepted": metrics.accepted,
        "mean_acceptance_length": pytest.approx(metrics.mean_acceptance_length, rel=1e-5),
    }
    assert sum(step["kind"] == "judge" for step in view["steps"]) == metrics.tested
    assert json.loads(json.dumps(view)).keys() == view.keys()
    for step in view["steps"]:
        if step["kind"] == "judge":
            coin = step["coin"]
            assert coin["accepted"] == (coin["u"] * coin["q"] < coin["p"])
            assert coin["accepted"] == (step["drafts"][step["draft"]][1] == "accepted")


def test_the_toy_log_is_told_as_published() -> None:
    target, draft = toy_pair()
    engine = Engine(target, ModelDrafter(draft), "greedy", 4, record_top=4)
    trace = engine.generate([1, 2, 3], SamplingParams(temperature=0.0), 16).trace
    view = view_model(trace)
    assert [token for token, _, _ in view["tokens"]] == [2, 0, 5, 1, 0, 8, 3, 9, 8, 6, 1, 7, 6, 4, 9, 5]
    origins = [origin for _, origin, _ in view["tokens"]]
    assert origins == (["prefill", "recovered"] + (["accepted"] * 3 + ["recovered"]) * 3 + ["accepted", "bonus"])
    assert view["counters"] == {"rounds": 5, "drafted": 17, "accepted": 10, "mean_acceptance_length": 3.0}


def test_lookup_drafts_are_told_without_a_law() -> None:
    engine = Engine(toy_pair()[0], NGramDrafter(), "chain", 3, record_top=8)
    view = view_model(engine.generate([2, 0, 5, 1, 2, 0, 5, 1], SamplingParams(temperature=1.0, seed=1), 12).trace)
    said = [step["say"] for step in view["steps"] if step["kind"] == "round"]
    assert said and all("q is one-hot" in sentence for sentence in said)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_tested": 0}, "accepted <= tested <= drafted"),
        ({"emitted": (1,)}, "emitted 1 tokens"),
        ({"next_token": None, "emitted": (1,)}, "no next_token"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        view_model(make_trace(make_round(**changes)))


def test_bars_keep_the_drafted_token_and_the_missing_mass() -> None:
    target = tuple((token, 0.05) for token in range(16))
    bars = pair_bars(SlotTop(target, ((40, 0.9),), None), 99, 0.001, 0.002)
    assert len(bars["rows"]) == MAX_ROWS and bars["marked"] == 99
    assert [99, 0.001, 0.002] in bars["rows"]
    p_shown = sum(p for _, p, _ in bars["rows"] if p is not None)
    assert bars["rest"][0] == pytest.approx(1 - p_shown, abs=1e-5)
    # nothing unlisted can exceed the least listed probability, nor q the mass that is left
    assert bars["bound"] == [0.05, 0.1]
    assert [40, None, 0.9] in bars["rows"]


def test_a_law_listed_in_full_leaves_zeros_and_no_rest() -> None:
    bars = pair_bars(SlotTop(((1, 0.75), (2, 0.25)), ((3, 1.0),), None), 3, 0.0, 1.0)
    assert bars["rows"] == [[1, 0.75, 0.0], [2, 0.25, 0.0], [3, 0.0, 1.0]]
    assert bars["rest"] == [0.0, 0.0]


def test_charts_of_one_law_are_absent_where_nothing_was_recorded() -> None:
    assert target_bars(None, 1) is None
    assert residual_bars(SlotTop(((1, 1.0),), None, None), 1) is None
    assert residual_bars(SlotTop(((1, 1.0),), None, ((2, 0.6), (3, 0.4))), 3)["rows"] == [[2, 0.6], [3, 0.4]]


def test_numbers_are_short_but_never_hide_a_difference() -> None:
    assert [short(value) for value in (0.0, 1.0, 0.5, 0.05, 3e-7)] == ["0", "1", "0.5000", "0.0500", "3.0e-07"]
    assert told_apart(0.25, 0.75) == ("0.2500", "0.7500")
    assert told_apart(0.7512341, 0.7512349) == ("0.751234", "0.751235")
