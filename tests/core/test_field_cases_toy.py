"""The TOY pair, cache rows included, for every gamma and length: the log of the reference, P28, P29, P39."""

import pytest

from specdec_core.cache import check_length
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.metrics import summarize
from specdec_core.toy import one_hot_logits, toy_draft_next, toy_pair, toy_target_next
from specdec_core.warp import SamplingParams

PROMPT = (1, 2, 3)
G16 = (2, 0, 5, 1, 0, 8, 3, 9, 8, 6, 1, 7, 6, 4, 9, 5)
GREEDY = SamplingParams(temperature=0)

# drafts, kept, emitted, target rows, drafter rows
LOG = [
    ((1, 8, 0, 7), 0, (0,), 4, 4),
    ((5, 1, 0, 9), 3, (5, 1, 0, 8), 8, 8),
    ((3, 9, 8, 7), 3, (3, 9, 8, 6), 12, 12),
    ((1, 7, 6, 5), 3, (1, 7, 6, 4), 16, 16),
    ((9,), 1, (9, 5), 18, 17),
]


def plain_text(count: int) -> tuple[int, ...]:
    tokens = list(PROMPT)
    for _ in range(count):
        tokens.append(toy_target_next(tokens))
    return tuple(tokens[len(PROMPT) :])


@pytest.fixture(params=["chain", "greedy"])
def rule_name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_the_pair_says_what_the_reference_says() -> None:
    assert plain_text(16) == G16
    tokens = [*PROMPT, *G16]
    for length in range(1, len(tokens)):
        slip = int(length % 4 == 0)
        assert toy_draft_next(tokens[:length]) == (toy_target_next(tokens[:length]) + slip) % 10
    assert one_hot_logits(3, 1) == [-30.0, 0.0, -30.0]


def test_the_log_of_gamma_4(rule_name: str) -> None:
    target, draft = toy_pair()
    generation = Engine(target, ModelDrafter(draft), rule_name, 4).generate(PROMPT, GREEDY, 16)
    assert generation.tokens == G16
    assert generation.trace.prefill_token == 2
    assert generation.finish_reason == "length"
    assert [
        (r.draft_tokens, r.num_accepted, r.emitted, r.target_rows, r.draft_rows) for r in generation.trace.rounds
    ] == LOG
    assert [r.kind for r in generation.trace.rounds] == ["recovered"] * 4 + ["bonus"]
    assert [r.length for r in generation.trace.rounds] == [4, 5, 9, 13, 17]
    metrics = summarize(generation.trace)
    assert (metrics.rounds, metrics.drafted, metrics.accepted, metrics.emitted) == (5, 17, 10, 16)


@pytest.mark.parametrize("gamma", range(9))
def test_every_length_equals_plain_and_keeps_the_cache_rule(gamma: int, rule_name: str, watched_model) -> None:
    for count in range(1, 20):
        target = watched_model(10, lambda prefix: one_hot_logits(10, toy_target_next(prefix)))
        draft = watched_model(10, lambda prefix: one_hot_logits(10, toy_draft_next(prefix)))
        generation = Engine(target, ModelDrafter(draft), rule_name, gamma).generate(PROMPT, GREEDY, count)
        assert generation.tokens == plain_text(count)
        rounds = generation.trace.rounds
        assert count == 1 + len(rounds) + sum(r.num_accepted for r in rounds)
        for r in rounds:
            assert r.target_rows == r.length + len(r.emitted) - 1
            assert r.draft_rows is not None
            assert r.draft_rows <= r.target_rows
            wanted = count - (r.length - len(PROMPT))
            assert len(r.draft_tokens) == min(gamma, wanted - 1)
        # rows hold the tokens themselves: nothing stale, nothing missing
        sequence = [*PROMPT, *generation.tokens]
        assert target.caches[0].tokens == sequence[:-1]
        drafted = draft.caches[0].tokens
        check_length(len(sequence) - 1, len(drafted))
        assert drafted == sequence[: len(drafted)]
        assert target.caches[0].rows_moved == draft.caches[0].rows_moved == 0


def test_p28_a_refused_first_draft_adds_one_token_not_six(spoken_model) -> None:
    prompt = [token % 7 for token in range(127)]
    target = spoken_model(7, lambda prefix: (prefix[-1] + 1) % 7)
    drafter = ModelDrafter(spoken_model(7, lambda prefix: (prefix[-1] + 2) % 7))
    stream = Engine(target, drafter, "chain", 5).stream(prompt, GREEDY, 20)
    next(stream)
    assert len(stream.generation.trace.tokens) == 128
    first = next(stream).round
    assert first is not None
    assert (len(first.draft_tokens), first.num_accepted) == (5, 0)
    assert len(stream.generation.trace.tokens) == 129


def test_p29_positions_fed_do_not_grow_with_the_text() -> None:
    target, draft = toy_pair()
    generation = Engine(target, ModelDrafter(draft), "chain", 4).generate(PROMPT, GREEDY, 16)
    assert (target.positions_fed, target.forwards) == (25, 6)
    assert target.positions_fed == 3 + sum(len(r.draft_tokens) + 1 for r in generation.trace.rounds)


def test_p39_every_round_is_handed_out_whole_and_once() -> None:
    target, draft = toy_pair()
    engine = Engine(target, ModelDrafter(draft), "chain", 4)
    groups = [step.tokens for step in engine.stream(PROMPT, GREEDY, 16)]
    assert groups == [(2,), (0,), (5, 1, 0, 8), (3, 9, 8, 6), (1, 7, 6, 4), (9, 5)]
    assert sum(groups, ()) == G16


def test_p39_a_step_carries_its_round_and_the_stream_what_is_out_so_far() -> None:
    target, draft = toy_pair()
    stream = Engine(target, ModelDrafter(draft), "chain", 4).stream(PROMPT, GREEDY, 16)
    assert stream.generation.tokens == ()
    seen: tuple[int, ...] = ()
    snapshots = []
    for index, step in enumerate(stream):
        seen += step.tokens
        assert (step.round is None) == (index == 0)
        assert stream.generation.tokens == seen
        snapshots.append((stream.generation, seen))
    assert stream.generation.finish_reason == "length"
    for generation, tokens in snapshots:
        assert generation.tokens == tokens == generation.trace.emitted, "a snapshot does not grow afterwards"
    with pytest.raises(StopIteration):
        next(stream)
