"""A trace says what the kernels did: every read, by the program that made it, and every decision."""

from collections import Counter
import json

import pytest
import torch

from specdec_kernels.chain_launch import LaunchConfig, Reads
from specdec_kernels.kernel_trace import LaunchTrace, ProgramTrace, example, trace_kernels
from specdec_kernels.two_level_reference import verify_chain_two_level
from specdec_kernels.verify_batch import GivenNoise, VerifyBatch
from specdec_kernels.verify_chain import verify_chain_triton
from specdec_kernels.verify_tree import verify_tree_triton

pytest.importorskip("triton", reason="Triton has no wheel for this platform")


def owned(batch: VerifyBatch, side: str, place: int) -> tuple[int, int]:
    """(request, row) of a row of logits."""
    for request, (first, last) in enumerate(zip(batch.cu_num_draft[:-1].tolist(), batch.cu_num_draft[1:].tolist())):
        start, count = (first + request, last - first + 1) if side == "target" else (first, last - first)
        if start <= place < start + count:
            return request, place - start
    raise AssertionError(place)


def rows_read(batch: VerifyBatch, reads: Reads) -> Counter:
    total: Counter = Counter()
    for side, counts in (("target", reads.target), ("draft", reads.draft)):
        if counts is not None:
            for place, row in enumerate(counts.sum(1).tolist()):
                if row:
                    total[(side, *owned(batch, side, place))] = row
    return total


@pytest.mark.parametrize("draft", ["none", "logits", "probs"])
def test_the_reads_are_those_of_an_independent_count(draft, make_batch):
    batch = make_batch(21, vocab=11, requests=6, max_draft=3, draft=draft)
    verdict, trace = trace_kernels(batch, "chain", config=LaunchConfig(8, 4, 4))
    wanted, reads = verify_chain_two_level(batch, block=4)
    assert trace.scores_read() == rows_read(batch, reads)
    assert verdict.emitted.tolist() == wanted.emitted.tolist() == verify_chain_triton(batch).emitted.tolist()


def test_every_program_reads_its_own_tile_and_no_other(make_batch):
    batch = make_batch(22, vocab=11, requests=3, max_draft=3, draft="logits", padded=False)
    _, trace = trace_kernels(batch, "chain", config=LaunchConfig(8, 4, 1))
    assert [launch.kernel for launch in trace.launches] == [
        "local_stats_kernel", "decide_chain_kernel", "race_kernel", "finish_kernel",
    ]  # fmt: skip
    stats, _, race, _ = trace.launches
    assert (stats.grid, race.grid) == ((12, 2), (3, 3))
    assert [program.id for program in stats.programs] == [(entry, block) for entry in range(12) for block in range(2)]
    counts = batch.cu_num_draft.diff().tolist()
    for program in stats.programs:
        (request, row), first = divmod(program.id[0], 4), 8 * program.id[1]
        live = row <= counts[request]
        assert [(read.request, read.row, read.first, read.last) for read in program.reads if read.side == "target"] == (
            [(request, row, first, min(first + 7, 10))] if live else []
        )
        assert stats.masked(program) == 8 - (live * (min(first + 8, 11) - first))
    for program in race.programs:
        decision, first = trace.decisions[program.id[0]], 4 * program.id[1]
        wanted = [] if decision.mode == "greedy" else [("target", decision.row, first)]
        wanted += [("draft", decision.row, first)] if decision.mode == "recover" else []
        assert [(read.side, read.row, read.first) for read in program.reads] == wanted


def test_decisions_are_the_verdict_and_its_races(make_batch):
    batch = make_batch(23, vocab=11, requests=12, max_draft=3, draft="logits", given=True)
    verdict, trace = trace_kernels(batch, "chain", config=LaunchConfig(8, 4, 4))
    assert {decision.mode for decision in trace.decisions} == {"recover", "bonus", "greedy"}
    for request, decision in enumerate(trace.decisions):
        kept = int(verdict.num_accepted[request])
        assert (decision.num_accepted, decision.next_token) == (kept, int(verdict.next_token[request]))
        assert decision.emitted == tuple(verdict.emitted[request, : kept + 1].tolist())
        assert (decision.mode == "bonus") == (bool(verdict.is_bonus[request]) and decision.mode != "greedy")
        if decision.mode != "greedy":
            best = max(decision.winners, key=lambda winner: winner.score)
            assert best.token == decision.next_token
            assert best.token // 4 == best.block
    assert isinstance(batch.noise, GivenNoise)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["block", "recursive", "target_only", "traversal"])
def test_other_rules_are_traced_as_their_kernels_count(rule, make_batch):
    batch = make_batch(24, vocab=7, requests=4, max_draft=2, draft="none" if rule == "target_only" else "logits")
    parents, method = None, rule
    if rule != "block":
        # chains as trees: each node the child of the one before
        parents = torch.cat([torch.arange(count) for count in batch.cu_num_draft.diff().tolist()]) - 1
    verdict, trace = trace_kernels(batch, rule, parents, config=LaunchConfig(8, 8, 4))
    reads = Reads.of(batch)
    if parents is None:
        from specdec_kernels.verify_block import verify_block_triton

        plain = verify_block_triton(batch, reads=reads, config=LaunchConfig(8, 8, 4))
    else:
        plain = verify_tree_triton(batch, parents, method=method, reads=reads, config=LaunchConfig(8, 8, 4)).verdict
    traced, counted = trace.scores_read(), rows_read(batch, reads)
    # a walk looks at a drafted token on the way down and again on the way up: one program, so one read of the trace
    again = batch.num_drafts if rule == "traversal" else 0
    assert traced.keys() == counted.keys()
    assert 0 <= sum((counted - traced).values()) <= 2 * again
    assert not traced - counted
    assert verdict.emitted.tolist() == plain.emitted.tolist()
    assert [len(decision.path) for decision in trace.decisions] == verdict.num_accepted.tolist()


def test_the_example_shows_every_program(capsys):
    trace = example()
    shown = capsys.readouterr().out
    assert shown.count("  program ") == sum(len(launch.programs) for launch in trace.launches)
    assert "race_kernel, grid (2, 2)" in shown
    assert shown.count("best of each block: token ") == 2


def test_a_trace_is_plain_data(make_batch):
    batch = make_batch(25, vocab=5, requests=2, max_draft=2)
    _, trace = trace_kernels(batch, "chain", config=LaunchConfig(4, 4, 1))
    data = json.loads(json.dumps(trace.to_dict(), allow_nan=False))
    assert (data["format"], data["rule"], data["version"], data["vocab"]) == (1, "chain", 3, 5)
    assert data["draft_tokens"] == [list(tokens) for tokens in trace.draft_tokens]
    assert len(data["launches"][0]["programs"]) == 12
    assert data["decisions"][0]["next_token"] == trace.decisions[0].next_token


def test_what_cannot_be_traced_is_named(make_batch, monkeypatch):
    batch = make_batch(26, vocab=5, requests=2)
    with pytest.raises(ValueError, match="rule is 'chain' and parents is given; trees have parents"):
        trace_kernels(batch, "chain", batch.draft_tokens)
    with pytest.raises(ValueError, match="rule is 'recursive' and parents is not given"):
        trace_kernels(batch, "recursive")
    monkeypatch.setattr("specdec_kernels.kernel_trace.MOST_PROGRAMS", 3)
    with pytest.raises(ValueError, match=r"local_stats_kernel has \d+ programs; a trace takes 3"):
        trace_kernels(batch, "chain", config=LaunchConfig(4, 4, 1))


def test_a_program_without_tokens_has_no_mask() -> None:
    program = ProgramTrace((0,), ())
    assert LaunchTrace("finish_kernel", (1,), 4, 0, (program,)).masked(program) is None
