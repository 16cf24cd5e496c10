"""The tree kernels decide as the scalar rules do, from logits: same path, same token, same kind."""

from dataclasses import replace

import pytest
import torch

from specdec_core.draft import DraftTree
from specdec_kernels.chain_launch import LaunchConfig, power_of_two
from specdec_kernels.tree_bounded import verify_tree_bounded
from specdec_kernels.verify_batch import GivenNoise, KeyedNoise, VerifyBatch
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
# method -> the drafts it judges
DRAFTS = {
    "recursive": ("none", "logits", "probs"),
    "recursive_without_replacement": ("logits", "probs"),
    "target_only": ("none", "logits"),
    "traversal": ("none", "logits", "probs"),
    "traversal_without_replacement": ("logits", "probs"),
}
METHODS = pytest.mark.parametrize("method", DRAFTS)
# method, coins class: target-only draws once a level, so its noise is keyed
CLASSES = [(method, given) for method in DRAFTS for given in (False, True) if not (given and method == "target_only")]
# share of the requests, vocabulary, nodes
SIZES = ((0.05, 1, 3), (0.25, 3, 7), (0.45, 7, 7), (0.2, 17, 12), (0.05, 67, 5))


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


def check_trees(check_equal, batch, parents, got, method, max_passes=None) -> None:
    wanted = verify_tree_reference(batch, parents, method=method, max_passes=max_passes)
    first_of = {id_: int(start) for id_, start in enumerate(batch.cu_num_draft[:-1])}

    def rule(tokens, draft, target, coins):
        request = next(requests)
        first = first_of[request]
        tree = DraftTree(tuple(tokens), tuple(parents[first : first + len(tokens)].tolist()))
        return verify_tree_bounded(tree, draft, target, coins, method=method, max_passes=max_passes)

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
@pytest.mark.parametrize(("method", "given"), CLASSES)
def test_last_version_on_two_thousand_trees(method, given, make_trees, check_equal, poisoned_memory):
    # 2,000 trees for each method and class of coins
    drafts, judged = DRAFTS[method], 0
    for draft in drafts:
        for share, vocab, nodes in SIZES:
            requests = int(-(-2000 * share // len(drafts)))
            batch, parents = make_trees(
                20 + vocab, vocab=vocab, requests=requests, nodes=nodes, draft=draft, given=given, method=method
            )
            # all requests in one program: the interpreter takes hardly longer for a thousand than for one
            block, rows = max(4, power_of_two(vocab)), power_of_two(requests)
            got = verify_tree_triton(batch, parents, method=method, config=LaunchConfig(block, block, rows))
            check_trees(check_equal, batch, parents, got, method)
            judged += requests
    assert judged >= 2000


@METHODS
def test_version_1_on_a_few_trees(method, make_trees, check_equal, poisoned_memory):
    batch, parents = make_trees(5, vocab=5, requests=6, nodes=3, draft=DRAFTS[method][-1], given=False, method=method)
    check_trees(check_equal, batch, parents, verify_tree_triton(batch, parents, method=method, version=1), method)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "given"), CLASSES)
def test_version_1_on_two_hundred_trees(method, given, make_trees, check_equal, poisoned_memory):
    # a method has at least 200 of its own, half of each class of coins (target-only has one class)
    each = 200 if method == "target_only" else 100
    drafts = DRAFTS[method]
    for draft in drafts:
        requests = -(-each // len(drafts))
        batch, parents = make_trees(31, vocab=7, requests=requests, nodes=4, draft=draft, given=given, method=method)
        check_trees(check_equal, batch, parents, verify_tree_triton(batch, parents, method=method, version=1), method)


@pytest.mark.slow
@METHODS
def test_version_1_on_a_large_vocabulary(method, make_trees, check_equal, poisoned_memory):
    batch, parents = make_trees(
        6, vocab=2049, requests=4, nodes=4, draft=DRAFTS[method][-1], given=False, method=method
    )
    check_trees(check_equal, batch, parents, verify_tree_triton(batch, parents, method=method, version=1), method)


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


@pytest.mark.parametrize(
    ("method", "version"),
    [
        ("recursive", 2),
        *(
            pytest.param(method, version, marks=pytest.mark.slow)
            for method in DRAFTS
            for version in (1, 2)
            if (method, version) != ("recursive", 2)
        ),
    ],
)
def test_runs_repeat_to_the_bit_and_leave_nothing_stale(method, version, make_trees):
    requests = 3 if version == 1 else 16
    one, other = (
        make_trees(seed, vocab=5, requests=requests, nodes=4, draft=DRAFTS[method][0], given=False, method=method)
        for seed in (5, 6)
    )
    out = TreeVerdict.empty(one[0])
    first = verify_tree_triton(*one, method=method, version=version)
    verify_tree_triton(*other, method=method, version=version, out=out)
    assert verify_tree_triton(*one, method=method, version=version, out=out) is out
    assert torch.equal(first.path, out.path)
    assert torch.equal(first.verdict.emitted, out.verdict.emitted)
    assert torch.equal(first.verdict.next_token, out.verdict.next_token)
    assert torch.equal(first.verdict.num_accepted, out.verdict.num_accepted)
    assert torch.equal(first.verdict.is_bonus, out.verdict.is_bonus)


def one_tree(target, draft, tokens, parents, uniform, temperature=1.0):
    """One request with given noise: the same uniform everywhere, equal exponentials."""
    batch = VerifyBatch(
        target, torch.tensor(tokens), torch.tensor([0, len(tokens)]), torch.tensor([temperature]),
        GivenNoise(torch.full((len(tokens),), uniform), torch.ones(1, target.shape[1])), len(tokens),
        draft_logits=draft,
    )  # fmt: skip
    return batch, torch.tensor(parents)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("method", [method for method in DRAFTS if method != "target_only"])
def test_p15_a_padding_lane_never_wins(method, version):
    # the residual is one-hot at the last token, every other weight is zero
    for vocab in (9, 17):
        target, draft = torch.full((2, vocab), float("-inf")), torch.full((1, vocab), float("-inf"))
        target[:, [0, vocab - 1]], draft[0, 0] = 0.0, 0.0
        got = verify_tree_triton(*one_tree(target, draft, [0], [-1], 0.75), method=method, version=version)
        assert got.verdict.emitted.tolist() == [[vocab - 1, -1]]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("method", ["recursive", "traversal"])
def test_p21_exact_ties_take_the_lowest_id(method, version):
    logits = torch.tensor([[1.0, 3, 3], [3.0, 1, 3], [0.0, 0, 1]])
    batch = one_tree(logits, None, [2, 1], [-1, -1], 0.0, temperature=0.0)
    got = verify_tree_triton(*batch, method=method, version=version)
    # of the two children the one with the lower of the tied ids is entered; behind it token 2 is largest
    assert got.path.tolist() == [[1, -1]]
    assert got.verdict.emitted.tolist() == [[1, 2, -1]]


@pytest.mark.slow
def test_a_chain_is_judged_as_a_chain(make_batch):
    from specdec_kernels.verify_block import verify_block_triton
    from specdec_kernels.verify_chain import verify_chain_triton

    batch = make_batch(7, vocab=7, requests=40)
    nodes = torch.cat([torch.arange(count) for count in batch.cu_num_draft.diff().tolist()])
    for method, chain in (("recursive", verify_chain_triton), ("traversal", verify_block_triton)):
        assert torch.equal(verify_tree_triton(batch, nodes - 1, method=method).verdict.emitted, chain(batch).emitted)


@pytest.mark.slow
@METHODS
def test_few_passes_decide_as_the_bounded_rule(method, make_trees, check_equal, poisoned_memory):
    shortened = 0
    for draft in DRAFTS[method]:
        batch, parents = make_trees(8, vocab=5, requests=400, nodes=6, draft=draft, given=False, method=method)
        whole = verify_tree_reference(batch, parents, method=method)
        for max_passes in (0, 1, 2, 6):
            got = verify_tree_triton(batch, parents, method=method, max_passes=max_passes)
            check_trees(check_equal, batch, parents, got, method, max_passes)
            differs = (got.path != whole.path).any(1)
            shortened += int(differs.sum())
            # six passes are enough for six nodes, and deterministic children need none
            assert not (max_passes == 6 and bool(differs.any()))
            if draft == "none" and method != "target_only":
                assert not bool(differs.any())
    assert shortened > 20


def test_a_level_less_is_the_token_after_the_path(make_trees):
    batch, parents = make_trees(10, vocab=3, requests=40, nodes=4, draft="none", given=False, method="target_only")
    everything = verify_tree_triton(batch, parents, method="target_only")
    nothing = verify_tree_triton(batch, parents, method="target_only", max_passes=0)
    assert nothing.verdict.emitted[:, 0].tolist() == everything.verdict.emitted[:, 0].tolist()
    assert nothing.verdict.num_accepted.sum() == 0
    assert bool((nothing.verdict.emitted[:, 1:] == -1).all())
    assert bool(nothing.verdict.is_bonus.all())


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
    with pytest.raises(ValueError, match="max_passes is -1; expected at least 0"):
        verify_tree(batch, parents, method="recursive", max_passes=-1)
    with pytest.raises(ValueError, match="max_passes is 2 for version 1"):
        verify_tree_triton(batch, parents, method="recursive", version=1, max_passes=2)
    with pytest.raises(ValueError, match="version is 3; expected 1"):
        verify_tree_triton(batch, parents, method="recursive", version=3)
    small = replace(TreeVerdict.empty(batch), path=torch.empty(1, 1, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"out.path has shape \(1, 1\)"):
        verify_tree(batch, parents, method="recursive", out=small)


def test_no_request_is_no_work() -> None:
    batch = VerifyBatch(
        torch.empty(0, 5), torch.empty(0, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), torch.empty(0),
        KeyedNoise(torch.empty(0, 3, dtype=torch.int64)), 3,
    )  # fmt: skip
    assert verify_tree_triton(batch, batch.draft_tokens, method="traversal").path.shape == (0, 3)
