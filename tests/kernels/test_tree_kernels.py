"""The tree kernels decide as the scalar rules do, from logits: same path, same token, same kind."""

from dataclasses import replace

import pytest
import torch

from specdec_core.draft import DraftTree
from specdec_core.rules import verify_tree as tree_rule
from specdec_kernels.chain_launch import LaunchConfig
from specdec_kernels.verify_batch import KeyedNoise, VerifyBatch
from specdec_kernels.verify_tree import TreeVerdict, verify_tree, verify_tree_reference, verify_tree_triton

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

WITHOUT = ("recursive_without_replacement", "traversal_without_replacement")
CASES = [
    ("recursive", "none", False),
    ("recursive", "logits", True),
    ("recursive_without_replacement", "logits", False),
    ("recursive_without_replacement", "probs", True),
    ("target_only", "none", False),
    ("target_only", "logits", False),
    ("traversal", "none", True),
    ("traversal", "logits", False),
    ("traversal_without_replacement", "logits", False),
    ("traversal_without_replacement", "probs", True),
]
FEW = [
    ("recursive", "logits", True),
    ("recursive_without_replacement", "logits", False),
    ("target_only", "none", False),
    ("traversal", "none", True),
    ("traversal_without_replacement", "probs", False),
]
SOME = [CASES[2], CASES[4], CASES[6]]


@pytest.fixture
def poisoned_memory():
    """Fresh tensors hold NaN or the largest integer, so that reading what nobody wrote shows."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def make_trees(make_batch):
    """(seed, vocab=, requests=, nodes=, draft=, given=, method=) -> (batch, parents), drawn as the method wants."""

    def make(seed: int, *, vocab: int, requests: int, nodes: int, draft: str, given: bool, method: str):
        batch = make_batch(seed, vocab=vocab, requests=requests, max_draft=nodes, draft=draft, given=given)
        rng = torch.Generator().manual_seed(seed)
        parents, laws = torch.empty_like(batch.draft_tokens), batch.draft_logits
        laws = batch.draft_probs if laws is None else laws
        for request, (first, last) in enumerate(zip(batch.cu_num_draft[:-1].tolist(), batch.cu_num_draft[1:].tolist())):
            families: dict[int, list[int]] = {}
            for node in range(last - first):
                # wide and shallow more often than deep
                parent = int(torch.randint(-1, node, (), generator=rng)) // 2 if node else -1
                parents[first + node] = parent
                families.setdefault(parent, []).append(first + node)
            for parent, slots in families.items():
                draw_family(batch, laws, slots, first + request + parent + 1, request, method, rng)
        return batch, parents

    return make


def draw_family(batch, laws, slots, row, request, method, rng) -> None:
    """Siblings from one law that resembles the target's at their parent, drawn with or without replacement."""
    temperature = max(float(batch.temperature[request]), 0.05)
    flavour = int(torch.randint(0, 6, (), generator=rng))
    if laws is None:
        probs = torch.softmax(batch.target_logits[row] / temperature, -1)
    else:
        if batch.draft_probs is None and flavour == 0:
            batch.target_logits[row] = laws[slots[0]]
        elif batch.draft_probs is None and flavour < 4:
            near = laws[slots[0]] + torch.randn(batch.vocab, generator=rng)
            batch.target_logits[row] = near
        for slot in slots:
            laws[slot] = laws[slots[0]].clone()
        law = laws[slots[0]].double()
        probs = law if batch.draft_probs is not None else torch.softmax(law / temperature, -1)
    probs = probs.clone()
    for slot in slots:
        if int(batch.draft_tokens[slot]) < 0:
            continue
        if float(probs.sum()) <= 0:
            # more siblings than tokens: whatever a faulty drafter would send
            batch.draft_tokens[slot] = int(torch.randint(0, batch.vocab, (), generator=rng))
            continue
        batch.draft_tokens[slot] = int(torch.multinomial(probs, 1, generator=rng))
        if method in WITHOUT:
            probs[batch.draft_tokens[slot]] = 0


def check_trees(check_equal, batch, parents, got, method) -> None:
    wanted = verify_tree_reference(batch, parents, method=method)
    first_of = {id_: int(start) for id_, start in enumerate(batch.cu_num_draft[:-1])}

    def rule(tokens, draft, target, coins):
        request = next(requests)
        first = first_of[request]
        tree = DraftTree(tuple(tokens), tuple(parents[first : first + len(tokens)].tolist()))
        return tree_rule(tree, draft, target, coins, method=method)

    different = (got.verdict.emitted != wanted.verdict.emitted).any(1) | (
        got.verdict.next_token != wanted.verdict.next_token
    )
    requests = iter(different.nonzero()[:, 0].tolist())
    if check_equal(batch, got.verdict, wanted.verdict, rule) == 0:
        assert torch.equal(got.path, wanted.path)


@pytest.mark.parametrize(("method", "draft", "given"), FEW)
def test_kernels_decide_as_the_scalar_rule(method, draft, given, make_trees, check_equal, poisoned_memory):
    batch, parents = make_trees(1, vocab=5, requests=16, nodes=3, draft=draft, given=given, method=method)
    got = verify_tree_triton(batch, parents, method=method)
    check_trees(check_equal, batch, parents, got, method)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "draft", "given"), CASES)
def test_kernels_on_two_thousand_trees(method, draft, given, make_trees, check_equal, poisoned_memory):
    # 10 parameter sets of 400; a method of the last version has at least 800 of its own
    for vocab, requests, nodes in ((1, 30, 3), (3, 120, 7), (7, 200, 7), (17, 50, 12)):
        batch, parents = make_trees(
            20 + vocab, vocab=vocab, requests=requests, nodes=nodes, draft=draft, given=given, method=method
        )
        got = verify_tree_triton(batch, parents, method=method)
        check_trees(check_equal, batch, parents, got, method)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "draft", "given"), CASES)
def test_large_vocabularies(method, draft, given, make_trees, check_equal, poisoned_memory):
    batch, parents = make_trees(3, vocab=8193, requests=20, nodes=4, draft=draft, given=given, method=method)
    got = verify_tree_triton(batch, parents, method=method)
    check_trees(check_equal, batch, parents, got, method)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "draft", "given"), SOME)
def test_many_blocks_of_a_small_vocabulary(method, draft, given, make_trees, check_equal, poisoned_memory):
    batch, parents = make_trees(4, vocab=11, requests=16, nodes=4, draft=draft, given=given, method=method)
    got = verify_tree_triton(batch, parents, method=method, config=LaunchConfig(4, 4, 128))
    check_trees(check_equal, batch, parents, got, method)


def test_buffers_used_again_hold_nothing_stale(make_trees):
    method = "recursive"
    one, other = (
        make_trees(seed, vocab=5, requests=16, nodes=5, draft="none", given=False, method=method) for seed in (5, 6)
    )
    out = TreeVerdict.empty(one[0])
    first = verify_tree_triton(*one, method=method)
    verify_tree_triton(*other, method=method, out=out)
    assert verify_tree_triton(*one, method=method, out=out) is out
    assert torch.equal(first.path, out.path)
    assert torch.equal(first.verdict.emitted, out.verdict.emitted)
    assert torch.equal(first.verdict.next_token, out.verdict.next_token)


@pytest.mark.slow
def test_a_chain_is_judged_as_a_chain(make_batch):
    from specdec_kernels.verify_block import verify_block_triton
    from specdec_kernels.verify_chain import verify_chain_triton

    batch = make_batch(7, vocab=7, requests=40)
    nodes = torch.cat([torch.arange(count) for count in batch.cu_num_draft.diff().tolist()])
    for method, chain in (("recursive", verify_chain_triton), ("traversal", verify_block_triton)):
        assert torch.equal(verify_tree_triton(batch, nodes - 1, method=method).verdict.emitted, chain(batch).emitted)


@pytest.mark.slow
def test_enough_passes_for_the_tree_are_enough(make_trees):
    method = "recursive_without_replacement"
    batch, parents = make_trees(8, vocab=7, requests=20, nodes=4, draft="logits", given=False, method=method)
    everything = verify_tree_triton(batch, parents, method=method)
    # four nodes: no path has more than three refusals with a sibling behind
    assert torch.equal(everything.path, verify_tree_triton(batch, parents, method=method, max_passes=3).path)


def test_the_wrapper_answers_on_the_cpu_and_names_what_is_wrong(make_trees):
    batch, parents = make_trees(9, vocab=5, requests=6, nodes=3, draft="none", given=True, method="recursive")
    answer = verify_tree(batch, parents, method="recursive")
    assert torch.equal(answer.path, verify_tree_reference(batch, parents, method="recursive").path)
    with pytest.raises(ValueError, match="method is 'kseq'; expected one of recursive, "):
        verify_tree(batch, parents, method="kseq")
    with pytest.raises(ValueError, match=r"parents is torch.int32 of shape"):
        verify_tree(batch, parents.int(), method="recursive")
    with pytest.raises(ValueError, match="noise is given, but target_only draws once a level; give KeyedNoise"):
        verify_tree(batch, parents, method="target_only")
    small = replace(TreeVerdict.empty(batch), path=torch.empty(1, 1, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"out.path has shape \(1, 1\)"):
        verify_tree(batch, parents, method="recursive", out=small)


def test_no_request_is_no_work() -> None:
    batch = VerifyBatch(
        torch.empty(0, 5), torch.empty(0, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), torch.empty(0),
        KeyedNoise(torch.empty(0, 3, dtype=torch.int64)), 3,
    )  # fmt: skip
    assert verify_tree_triton(batch, batch.draft_tokens, method="traversal").path.shape == (0, 3)
