"""Reported cases on stopping and length: P33, P34, P36, P37, P38."""

import pytest

from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.toy import one_hot_logits, toy_draft_next, toy_target_next
from specdec_core.warp import SamplingParams

G16 = (2, 0, 5, 1, 0, 8, 3, 9, 8, 6, 1, 7, 6, 4, 9, 5)
GREEDY = SamplingParams(temperature=0)


@pytest.fixture
def toy(watched_model):
    """The TOY pair with an eye on caches and positions; `toy(max_length)` gives target and draft model."""

    def make(max_length: int = 1 << 20):
        return (
            watched_model(10, lambda prefix: one_hot_logits(10, toy_target_next(prefix)), max_length=max_length),
            watched_model(10, lambda prefix: one_hot_logits(10, toy_draft_next(prefix)), max_length=max_length),
        )

    return make


@pytest.mark.parametrize(("eos", "emitted", "rows"), [(5, 3, 5), (3, 7, 9), (7, 12, 14), (8, 6, 8)])
def test_p33_eos_inside_a_block_ends_the_text_there(eos: int, emitted: int, rows: int, toy) -> None:
    target, draft = toy()
    params = SamplingParams(temperature=0, stop=(eos,))
    stream = Engine(target, ModelDrafter(draft), "chain", 4).stream([1, 2, 3], params, 16)
    streamed = sum((step.tokens for step in stream), ())
    generation = stream.generation
    assert streamed == generation.tokens == G16[:emitted]
    assert generation.finish_reason == "stop"
    assert generation.trace.rounds[-1].target_rows == len(target.caches[0]) == rows
    assert target.caches[0].tokens == [1, 2, 3, *G16[: emitted - 1]]
    plain = Engine(toy()[0], None, "chain", 0).generate([1, 2, 3], params, 16)
    assert (plain.tokens, plain.finish_reason) == (generation.tokens, "stop")


@pytest.mark.parametrize("eos", range(10))
@pytest.mark.parametrize("gamma", range(0, 9, 2))
def test_p33_caches_and_counts_hold_after_a_cut(eos: int, gamma: int, toy) -> None:
    target, draft = toy()
    params = SamplingParams(temperature=0, stop=(eos,))
    generation = Engine(target, ModelDrafter(draft), "chain", gamma).generate([1, 2, 3], params, 16)
    cut = G16.index(eos) + 1 if eos in G16 else 16
    assert generation.tokens == G16[:cut]
    sequence = [1, 2, 3, *generation.tokens]
    assert target.caches[0].tokens == sequence[:-1]
    assert draft.caches[0].tokens == sequence[:-1][: len(draft.caches[0])], "drafter rows are a prefix of the target's"
    for r in generation.trace.rounds:
        assert r.num_accepted <= r.num_tested <= len(r.draft_tokens)
        assert r.draft_rows is not None
        assert r.draft_rows <= r.target_rows
        assert (r.next_token is None) == (r.kind == "stopped")
        kept = tuple(r.draft_tokens[node] for node in r.path)
        assert r.emitted == kept + (() if r.next_token is None else (r.next_token,))
        assert len(r.path) == r.num_accepted


def test_p33_an_accepted_eos_removes_the_drafts_behind_it_from_the_counts(toy) -> None:
    target, draft = toy()
    last = (
        Engine(target, ModelDrafter(draft), "chain", 4)
        .generate([1, 2, 3], SamplingParams(temperature=0, stop=(5,)), 16)
        .trace.rounds[-1]
    )
    assert last.draft_tokens == (5, 1, 0, 9)
    assert (last.num_accepted, last.num_tested, last.path, last.next_token) == (1, 1, (0,), None)
    assert (last.kind, last.emitted) == ("stopped", (5,))


def test_p33_eos_as_the_very_first_token(toy) -> None:
    target, draft = toy()
    generation = Engine(target, ModelDrafter(draft), "chain", 4).generate(
        [1, 2, 3], SamplingParams(temperature=0, stop=(2,)), 16
    )
    assert (generation.tokens, generation.finish_reason, generation.trace.rounds) == ((2,), "stop", [])


STOP = 9


@pytest.fixture
def saying(spoken_model):
    """Runs an engine whose target says `text` and whose drafter agrees on all but the first token of the block."""

    def run(text: list[int], split: int, cap: int):
        def says(prefix: tuple[int, ...]) -> int:
            return text[min(len(prefix) - 1, len(text) - 1)]

        def drafts(prefix: tuple[int, ...]) -> int:
            # the drafter errs until `split` tokens are out, so that the rest comes as one block
            return says(prefix) if len(prefix) > split else (says(prefix) + 1) % 30

        params = SamplingParams(temperature=0, stop=(STOP,))
        engine = Engine(spoken_model(30, says), ModelDrafter(spoken_model(30, drafts)), "chain", 4)
        return engine.generate([0], params, cap)

    return run


@pytest.mark.parametrize(
    ("text", "split", "expected", "reason"),
    [
        ([10, 11, STOP, 20, 21, 22], 2, (10, 11, STOP), "stop"),
        ([10, 11, 12, 13, 20, STOP, 21], 4, (10, 11, 12, 13, 20), "length"),
        ([10, 11, 12, 13, STOP, 20], 4, (10, 11, 12, 13, STOP), "stop"),
    ],
)
def test_p34_stop_and_length_in_one_block(saying, text, split: int, expected, reason: str) -> None:
    generation = saying(text, split, 5)
    assert (generation.tokens, generation.finish_reason) == (expected, reason)


@pytest.mark.parametrize(
    ("count", "gamma", "drafted", "rows"), [(5, 8, [3, 2], 7), (2, 3, [0], 4), (1, 3, [], 3), (1, 0, [], 3)]
)
def test_p36_no_token_over_the_limit(count: int, gamma: int, drafted: list[int], rows: int, toy) -> None:
    target, draft = toy()
    generation = Engine(target, ModelDrafter(draft), "chain", gamma).generate([1, 2, 3], GREEDY, count)
    assert generation.tokens == G16[:count]
    assert [len(r.draft_tokens) for r in generation.trace.rounds] == drafted
    assert len(target.caches[0]) == rows
    assert generation.finish_reason == "length"


def test_p37_no_eos_configured(spoken_model) -> None:
    # the text repeats with period three, so that lookup drafting really drafts
    target = spoken_model(5, lambda prefix: (1, 2, 3)[len(prefix) % 3])
    engine = Engine(target, NGramDrafter(), "chain", 4)
    generation = engine.generate([1, 2, 3, 1, 2, 3], GREEDY, 15)
    assert len(generation.tokens) == 15
    assert sum(r.num_accepted for r in generation.trace.rounds) > 0


def test_p38_gamma_longer_than_the_room_left(toy) -> None:
    target, draft = toy(max_length=16)
    generation = Engine(target, ModelDrafter(draft), "chain", 5).generate([1] * 12, GREEDY, 10)
    assert generation.tokens == (5, 8, 8, 9)
    assert len(generation.trace.tokens) == 16
    assert generation.finish_reason == "length"
    assert [len(r.draft_tokens) for r in generation.trace.rounds] == [2]
    assert generation.trace.rounds[-1].target_rows == 15
    for model in (target, draft):
        assert max(before + len(fed) for before, fed in model.fed) <= 16


@pytest.mark.parametrize("draft_context", [4, 6, 9, 15])
def test_p38_a_drafter_with_a_shorter_context_stops_drafting(draft_context: int, toy) -> None:
    target, draft = toy()[0], toy(draft_context)[1]
    generation = Engine(target, ModelDrafter(draft), "chain", 4).generate([1, 2, 3], GREEDY, 16)
    assert generation.tokens == G16
    drafted = [len(r.draft_tokens) for r in generation.trace.rounds]
    assert drafted[-1] == 0
    assert all(before + len(fed) <= draft_context for before, fed in draft.fed)
    # the context is used up: the last draft was made where one more would not have fitted
    assert draft_context <= 4 or max(drafted) > 0
