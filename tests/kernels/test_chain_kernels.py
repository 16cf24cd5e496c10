"""The chain and block kernels decide as the scalar rules do, from logits, whatever the batch looks like."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
import torch

from specdec_core.rules import verify_block as block_rule
from specdec_core.rules import verify_chain as chain_rule
from specdec_kernels.chain_launch import LaunchConfig, Reads
from specdec_kernels.two_level_reference import verify_chain_two_level
from specdec_kernels.verify_batch import KernelVerdict, KeyedNoise, VerifyBatch
from specdec_kernels.verify_block import verify_block_reference, verify_block_triton
from specdec_kernels.verify_chain import verify_chain_reference, verify_chain_triton

pytest.importorskip("triton", reason="Triton has no wheel for this platform")


@dataclass(frozen=True)
class Kind:
    name: str
    rule: Callable[..., Any]
    reference: Callable[..., KernelVerdict]
    kernel: Callable[..., KernelVerdict]
    last: int


CHAIN = Kind("chain", chain_rule, verify_chain_reference, verify_chain_triton, 3)
BLOCK = Kind("block", block_rule, verify_block_reference, verify_block_triton, 2)
KINDS = pytest.mark.parametrize("kind", [CHAIN, BLOCK], ids=lambda kind: kind.name)
DRAFTS = pytest.mark.parametrize("draft", ["none", "logits", "probs"])
EARLIER = [(CHAIN, 1), (CHAIN, 2), (BLOCK, 1)]


def assert_same_bits(one: KernelVerdict, other: KernelVerdict) -> None:
    for entry in fields(KernelVerdict):
        assert torch.equal(getattr(one, entry.name), getattr(other, entry.name)), entry.name


@pytest.fixture
def poisoned_memory():
    """Fresh tensors hold NaN or the largest integer, so that reading what nobody wrote shows."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)


@KINDS
@pytest.mark.parametrize(
    ("draft", "given", "vocab"), [("none", False, 7), ("logits", False, 17), ("probs", True, 7), ("logits", True, 1)]
)
def test_last_version_decides_as_the_scalar_rule(kind, draft, given, vocab, make_batch, check_equal, poisoned_memory):
    batch = make_batch(vocab, vocab=vocab, requests=48, draft=draft, given=given)
    check_equal(batch, kind.kernel(batch), kind.reference(batch), kind.rule)


@pytest.mark.slow
@KINDS
@DRAFTS
@pytest.mark.parametrize("given", [False, True], ids=["keyed", "given"])
def test_last_version_on_thousands_of_requests(kind, draft, given, make_batch, check_equal, poisoned_memory):
    # 2,100 for each kernel and class of coins; three drafts fill a tile of four rows, five do not
    for vocab, requests, drafts in ((1, 50, 3), (2, 100, 5), (7, 300, 3), (17, 200, 5), (67, 50, 3)):
        batch = make_batch(1000 + vocab, vocab=vocab, requests=requests, max_draft=drafts, draft=draft, given=given)
        check_equal(batch, kind.kernel(batch), kind.reference(batch), kind.rule)


@pytest.mark.parametrize(("kind", "version"), EARLIER, ids=lambda value: getattr(value, "name", value))
def test_earlier_versions_on_a_few_requests(kind, version, make_batch, check_equal, poisoned_memory):
    batch = make_batch(5, vocab=7, requests=4)
    check_equal(batch, kind.kernel(batch, version=version), kind.reference(batch), kind.rule)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "version"), EARLIER, ids=lambda value: getattr(value, "name", value))
@DRAFTS
@pytest.mark.parametrize("given", [False, True], ids=["keyed", "given"])
def test_earlier_versions_on_two_hundred(kind, version, draft, given, make_batch, check_equal, poisoned_memory):
    # 6 parameter sets of 36 for each version
    for vocab in (7, 17):
        batch = make_batch(2000 + vocab, vocab=vocab, requests=18, draft=draft, given=given)
        check_equal(batch, kind.kernel(batch, version=version), kind.reference(batch), kind.rule)


@pytest.mark.slow
@KINDS
@DRAFTS
@pytest.mark.parametrize(("vocab", "requests", "given"), [(8193, 20, False), (8193, 20, True), (49_152, 2, False)])
def test_vocabularies_of_many_blocks(kind, draft, vocab, requests, given, make_batch, check_equal, poisoned_memory):
    batch = make_batch(3, vocab=vocab, requests=requests, max_draft=3, draft=draft, given=given)
    check_equal(batch, kind.kernel(batch), kind.reference(batch), kind.rule)


@pytest.mark.slow
@KINDS
def test_many_blocks_of_a_small_vocabulary(kind, make_batch, check_equal, poisoned_memory):
    batch = make_batch(4, vocab=19, requests=30)
    got = kind.kernel(batch, config=LaunchConfig(stats_block=8, race_block=4, rows=256))
    check_equal(batch, got, kind.reference(batch), kind.rule)


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_half_precision_logits(kind, dtype, make_batch, check_equal):
    batch = make_batch(6, vocab=7, requests=40, dtype=dtype)
    check_equal(batch, kind.kernel(batch), kind.reference(batch), kind.rule)


@pytest.mark.slow
@KINDS
def test_a_verdict_does_not_depend_on_the_batch(kind, make_batch):
    batch = make_batch(7, vocab=7, requests=24)
    together = kind.kernel(batch)
    for request in (5, 23):
        first, last = batch.cu_num_draft[request : request + 2].tolist()
        rows = slice(first + request, last + request + 1)
        alone = replace(
            batch,
            target_logits=batch.target_logits[rows],
            draft_tokens=batch.draft_tokens[first:last],
            cu_num_draft=torch.tensor([0, last - first]),
            temperature=batch.temperature[request : request + 1],
            noise=KeyedNoise(batch.noise.keys[request : request + 1]),
            draft_logits=batch.draft_logits[first:last],
        )
        assert kind.kernel(alone).emitted[0].tolist() == together.emitted[request].tolist()


@KINDS
def test_runs_repeat_to_the_bit_and_leave_nothing_stale(kind, make_batch):
    batch, other = make_batch(8, vocab=7, requests=30), make_batch(9, vocab=7, requests=30)
    out = KernelVerdict.empty(30, batch.slots, batch.device)
    first = kind.kernel(batch)
    kind.kernel(other, out)
    again = kind.kernel(batch, out)
    assert again is out
    assert_same_bits(first, again)


@pytest.mark.slow
@KINDS
def test_rows_may_lie_apart(kind, make_batch):
    batch = make_batch(10, vocab=7, requests=20)
    wide = torch.full((batch.target_logits.shape[0], 12), float("nan"))
    wide[:, :7] = batch.target_logits
    narrow = torch.full((batch.num_drafts, 9), float("nan"))
    narrow[:, :7] = batch.draft_logits
    apart = replace(batch, target_logits=wide[:, :7], draft_logits=narrow[:, :7])
    assert_same_bits(kind.kernel(batch), kind.kernel(apart))


@KINDS
@pytest.mark.parametrize(
    "vocab", [1, 9, pytest.param(17, marks=pytest.mark.slow), pytest.param(8193, marks=pytest.mark.slow)]
)
def test_p15_a_padding_lane_never_wins(kind, vocab):
    # the residual is one-hot at the last token, every other weight is zero
    hot = vocab - 1
    target, draft = torch.full((2, vocab), float("-inf")), torch.full((1, vocab), float("-inf"))
    target[:, hot], draft[0, 0], target[:, 0] = 0.0, 0.0, 0.0
    batch = one_request(target, draft, [0], uniform=0.75)
    got = kind.kernel(batch)
    assert got.next_token.tolist() == [hot]
    assert got.num_accepted.tolist() == [1 if vocab == 1 else 0]


@KINDS
def test_p21_exact_ties_take_the_lowest_id(kind):
    logits = torch.tensor([[1.0, 3, 3, -5], [3.0, 1, 3, 3]])
    for draft, emitted in ((2, [1, -1]), (1, [1, 0])):
        batch = replace(one_request(logits, None, [draft], uniform=0.0), temperature=torch.zeros(1))
        assert kind.kernel(batch).emitted.tolist() == [emitted]


@KINDS
@pytest.mark.parametrize("draft", ["none", "logits"])
def test_equal_laws_are_kept_at_the_largest_uniform(kind, draft, make_batch):
    batch = make_batch(11, vocab=33, requests=16, given=True)
    of_draft = torch.arange(batch.num_drafts) + torch.arange(16).repeat_interleave(batch.cu_num_draft.diff())
    target, tokens = batch.target_logits.clone(), batch.draft_logits.argmax(1)
    target[of_draft] = batch.draft_logits
    if draft == "none":
        target[of_draft] = torch.where(torch.arange(33) == tokens[:, None], 0.0, float("-inf"))
    batch = replace(
        batch,
        target_logits=target,
        draft_tokens=tokens,
        temperature=batch.temperature.clamp(min=0.2),
        noise=replace(batch.noise, uniforms=torch.full((batch.num_drafts,), 1 - 2.0**-24)),
        draft_logits=batch.draft_logits if draft == "logits" else None,
    )
    assert torch.equal(kind.kernel(batch).num_accepted, batch.cu_num_draft.diff())


@KINDS
def test_a_token_of_mass_zero_is_refused_at_uniform_zero(kind):
    target = torch.tensor([[0.0, float("-inf"), 0.0], [0.0, 0.0, 0.0]])
    got = kind.kernel(one_request(target, torch.zeros(1, 3), [1], uniform=0.0))
    assert got.num_accepted.tolist() == [0]
    assert int(got.next_token) in (0, 2)
    if kind is CHAIN:
        again = verify_chain_two_level(one_request(target, torch.zeros(1, 3), [1], uniform=0.0), block=2)[0]
        assert torch.equal(again.emitted, got.emitted)


@pytest.mark.slow
@KINDS
def test_more_drafts_than_slots_are_cut(kind, make_batch):
    batch = make_batch(12, vocab=7, requests=12, max_draft=5, padded=False)
    short = replace(batch, max_draft=3)
    got, wanted = kind.kernel(short), []
    for request, (first, last) in enumerate(zip(batch.cu_num_draft[:-1].tolist(), batch.cu_num_draft[1:].tolist())):
        last = min(last, first + 3)
        cut = replace(
            batch,
            target_logits=batch.target_logits[first + request : last + request + 1],
            draft_tokens=batch.draft_tokens[first:last],
            cu_num_draft=torch.tensor([0, last - first]),
            temperature=batch.temperature[request : request + 1],
            noise=KeyedNoise(batch.noise.keys[request : request + 1]),
            max_draft=3,
            draft_logits=batch.draft_logits[first:last],
        )
        wanted.append(kind.reference(cut).emitted[0].tolist())
    assert got.emitted.tolist() == wanted


def test_chain_reads_each_logit_at_most_twice(make_batch):
    for draft in ("none", "logits", "probs"):
        batch = make_batch(13, vocab=19, requests=40, draft=draft)
        reads = Reads.of(batch)
        got = verify_chain_triton(batch, reads=reads, config=LaunchConfig(16, 16, 256))
        assert int(reads.target.max()) == 2
        sampled = batch.temperature >= 1e-5
        # a second look is taken at one row of each request that draws, and at no other
        assert int((reads.target == 2).any(1).sum()) == int(sampled.sum())
        rows = batch.cu_num_draft[:-1] + torch.arange(40) + got.num_accepted
        assert bool((reads.target[rows[sampled]] == 2).all())
        if reads.draft is not None:
            assert int(reads.draft.max()) <= 2
            whole = (reads.draft >= (2 if draft == "logits" else 1)).all(1)
            assert int(whole.sum()) == int((sampled & ~got.is_bonus).sum())


@pytest.mark.parametrize("draft", ["none", "logits", "probs"])
@pytest.mark.parametrize("given", [False, True], ids=["keyed", "given"])
def test_chain_reads_what_the_two_level_reference_reads(draft, given, make_batch, check_equal):
    batch = make_batch(16, vocab=11, requests=24, draft=draft, given=given)
    # a draft behind padding: its rows are not read either
    first = int((batch.cu_num_draft.diff() >= 3).nonzero()[0])
    batch.draft_tokens[int(batch.cu_num_draft[first])] = -1
    verdict, wanted = verify_chain_two_level(batch, block=8)
    check_equal(batch, verdict, verify_chain_reference(batch), chain_rule)
    reads = Reads.of(batch)
    verify_chain_triton(batch, reads=reads, config=LaunchConfig(8, 8, 32))
    assert torch.equal(reads.target, wanted.target)
    if draft != "none":
        assert torch.equal(reads.draft, wanted.draft)


def test_equal_scores_of_two_blocks_give_the_lowest_token():
    target = torch.tensor([[0.0, 3.0, 0.0, 3.0, 3.0], [0.0, 0.0, 1.0, 0.0, 1.0]])
    batch = replace(one_request(target, None, [1], uniform=0.0), temperature=torch.zeros(1))
    assert verify_chain_two_level(batch, block=2)[0].emitted.tolist() == [[1, 2]]


def test_earlier_versions_do_not_count(make_batch):
    batch = make_batch(17, vocab=3, requests=1)
    for kind, version in EARLIER:
        with pytest.raises(ValueError, match=f"reads is given for version {version}; expected it with version"):
            kind.kernel(batch, version=version, reads=Reads.of(batch))


@pytest.mark.slow
def test_block_reads_each_logit_at_most_three_times(make_batch):
    batch = make_batch(14, vocab=19, requests=40)
    reads = Reads.of(batch)
    verify_block_triton(batch, reads=reads, config=LaunchConfig(16, 16, 256))
    assert int(reads.target.max()) == 3 and int(reads.draft.max()) == 3
    batch = make_batch(14, vocab=19, requests=40, draft="none")
    reads = Reads.of(batch)
    verify_block_triton(batch, reads=reads, config=LaunchConfig(16, 16, 256))
    assert int(reads.target.max()) == 2


@pytest.mark.slow
def test_counting_reads_changes_nothing(make_batch):
    batch = make_batch(15, vocab=17, requests=20)
    assert_same_bits(verify_chain_triton(batch), verify_chain_triton(batch, reads=Reads.of(batch)))


@KINDS
def test_no_request_is_no_work(kind):
    batch = VerifyBatch(
        torch.empty(0, 5), torch.empty(0, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), torch.empty(0),
        KeyedNoise(torch.empty(0, 3, dtype=torch.int64)), 3,
    )  # fmt: skip
    assert kind.kernel(batch).emitted.shape == (0, 4)
    assert kind.reference(batch).emitted.shape == (0, 4)


@KINDS
@pytest.mark.parametrize("version", [0, 9])
def test_an_unknown_version_is_refused(kind, version, make_batch):
    with pytest.raises(ValueError, match=f"version is {version}; expected 1 "):
        kind.kernel(make_batch(1, vocab=3, requests=1), version=version)


def one_request(target: torch.Tensor, draft: torch.Tensor | None, tokens: list[int], uniform: float) -> VerifyBatch:
    """One request at temperature 1 with given noise: the same uniform everywhere, equal exponentials."""
    from specdec_kernels.verify_batch import GivenNoise

    drafted = len(tokens)
    return VerifyBatch(
        target, torch.tensor(tokens), torch.tensor([0, drafted]), torch.ones(1),
        GivenNoise(torch.full((drafted,), uniform), torch.ones(1, target.shape[1])), drafted, draft_logits=draft,
    )  # fmt: skip
