"""Ctrl-C at any moment: what is out is kept, and the engine is ready for the next call."""

from collections.abc import Callable
from pathlib import Path
import sys
from types import FrameType
from typing import Any

import pytest

import specdec_core
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.toy import PrefixModel, one_hot_logits, toy_draft_next, toy_pair, toy_target_next
from specdec_core.trace import Generation, Trace
from specdec_core.warp import SamplingParams

PROMPT = [1, 2, 3]
G16 = (2, 0, 5, 1, 0, 8, 3, 9, 8, 6, 1, 7, 6, 4, 9, 5)
GREEDY = SamplingParams(temperature=0)


class _Interrupted(PrefixModel):
    """Raises KeyboardInterrupt in forward number `at`, before or after its rows are in the cache."""

    at = -1
    late = False

    def forward(self, *args: Any, **kwargs: Any):
        is_due = self.forwards == self.at
        if is_due and not self.late:
            self.at = -1
            raise KeyboardInterrupt
        output = super().forward(*args, **kwargs)
        if is_due:
            self.at = -1
            raise KeyboardInterrupt
        return output


def interrupted_pair(who: str, at: int, late: bool) -> Engine:
    target = _Interrupted(10, lambda prefix: one_hot_logits(10, toy_target_next(prefix)))
    draft = _Interrupted(10, lambda prefix: one_hot_logits(10, toy_draft_next(prefix)))
    model = {"target": target, "draft": draft}[who]
    model.at, model.late = at, late
    return Engine(target, ModelDrafter(draft), "chain", 4)


def assert_consistent(generation: Generation) -> None:
    trace = generation.trace
    assert generation.tokens == trace.emitted == G16[: len(generation.tokens)]
    assert all(r.emitted for r in trace.rounds)
    assert Trace.from_dict(trace.to_dict()) == trace


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("who", "at", "out"),
    [("target", n, out) for n, out in enumerate([0, 1, 2, 6, 10, 14])] + [("draft", n, 1 + (n > 4)) for n in range(8)],
)
def test_a_forward_that_is_interrupted_loses_nothing(who: str, at: int, out: int, late: bool) -> None:
    engine = interrupted_pair(who, at, late)
    generation = engine.generate(PROMPT, GREEDY, 16)
    assert generation.finish_reason == generation.trace.finish_reason == "interrupted"
    assert generation.tokens == G16[:out]
    assert_consistent(generation)
    again = engine.generate(PROMPT, GREEDY, 16)
    assert (again.tokens, again.finish_reason) == (G16, "length")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("who", ["target", "draft"])
def test_a_stream_passes_the_interrupt_on_and_keeps_its_rounds(who: str, late: bool) -> None:
    engine = interrupted_pair(who, {"target": 3, "draft": 9}[who], late)
    stream = engine.stream(PROMPT, GREEDY, 16)
    shown: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        for step in stream:
            shown += step.tokens
    assert stream.generation.tokens == tuple(shown) == G16[:6]
    assert stream.generation.finish_reason == "interrupted"
    assert_consistent(stream.generation)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("who", "at"), [("target", 0), ("target", 2), ("draft", 0), ("draft", 2), ("draft", 6)])
def test_a_stream_stopped_inside_a_round_does_not_go_on_with_unsettled_caches(who: str, at: int, late: bool) -> None:
    engine = interrupted_pair(who, at, late)
    stream = engine.stream(PROMPT, GREEDY, 16)
    with pytest.raises(KeyboardInterrupt):
        list(stream)
    kept = stream.generation
    with pytest.raises(ValueError, match="stopped inside a round.*generation.trace.tokens"):
        next(stream)
    assert stream.generation.tokens == kept.tokens
    rest = engine.generate(kept.trace.tokens, GREEDY, 16 - len(kept.tokens))
    assert kept.tokens + rest.tokens == G16


def test_an_older_stream_does_not_go_on_with_the_drafter_of_a_newer_one() -> None:
    target, draft = toy_pair()
    engine = Engine(target, ModelDrafter(draft), "chain", 4)
    older = engine.stream(PROMPT, GREEDY, 16)
    assert [next(older).tokens, next(older).tokens] == [(2,), (0,)]
    newer = engine.stream([1, 2], GREEDY, 3)
    next(newer)
    with pytest.raises(ValueError, match="overtaken"):
        next(older)
    assert older.generation.tokens == G16[:2]
    assert len(list(newer)) > 0


def test_a_finished_stream_stays_finished_whatever_comes_later() -> None:
    target, draft = toy_pair()
    engine = Engine(target, ModelDrafter(draft), "chain", 4)
    older = engine.stream(PROMPT, GREEDY, 16)
    list(older)
    engine.generate([4], GREEDY, 3)
    assert list(older) == []
    assert older.generation.tokens == G16


def test_streams_without_a_drafter_may_interleave() -> None:
    engine = Engine(toy_pair()[0], None, "chain", 0)
    a, b = engine.stream(PROMPT, GREEDY, 16), engine.stream([4, 4], GREEDY, 16)
    for _ in range(16):
        next(a)
        next(b)
    assert a.generation.tokens == G16
    assert b.generation.tokens == engine.generate([4, 4], GREEDY, 16).tokens


def test_ctrl_c_before_the_first_token_leaves_an_empty_generation() -> None:
    generation = interrupted_pair("target", 0, False).generate(PROMPT, GREEDY, 16)
    assert (generation.tokens, generation.finish_reason) == ((), "interrupted")
    assert generation.trace.prefill_token is None
    assert generation.trace.rounds == []


CORE = str(Path(specdec_core.__file__).parent)
# lines that make the session and hand the answer over: an interrupt there has nothing to keep, or nowhere to put it
OUTSIDE = ("engine.py", "hardware.py", "trace.py")


def interrupt_at_line(number: int, call: Callable[[], Generation]) -> tuple[Generation | None, int]:
    """`call` with KeyboardInterrupt raised at the `number`-th line that runs in the core; and the lines that ran."""
    ran = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal ran
        name = frame.f_code.co_filename
        if not name.startswith(CORE) or name.endswith(OUTSIDE):
            return None
        if event == "line":
            ran += 1
            if ran == number:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call(), ran
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("step", [211, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_an_interrupt_at_any_line_loses_nothing(step: int, drafter: str) -> None:
    target, draft = toy_pair()
    engine = Engine(target, ModelDrafter(draft) if drafter == "model" else NGramDrafter(), "chain", 4, record_top=2)
    whole, lines = interrupt_at_line(0, lambda: engine.generate(PROMPT, GREEDY, 16))
    assert whole is not None
    assert whole.tokens == G16
    inside = 0
    for number in range(1, lines, step):
        try:
            generation, _ = interrupt_at_line(number, lambda: engine.generate(PROMPT, GREEDY, 16))
        except KeyboardInterrupt:
            # while the session was being made: nothing had come out
            assert number < 100
            continue
        assert generation is not None
        assert_consistent(generation)
        inside += generation.finish_reason == "interrupted"
    assert inside > 10
    assert engine.generate(PROMPT, GREEDY, 16).tokens == G16
