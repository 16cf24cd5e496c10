"""No kernel touches memory that is not its own: every tensor lies against a page that must not be touched."""

import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

# a forbidden read kills the process, so the kernels run in one of their own
GUARDS = '''
import ctypes, mmap, os, sys
os.environ["TRITON_INTERPRET"] = "1"
import torch

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PAGE, KEPT = mmap.PAGESIZE, []

def guarded(values, side):
    """A copy that ends where a forbidden page begins (side "behind") or begins where one ends (side "before")."""
    if values is None or values.numel() == 0:
        return values
    last = sum((size - 1) * stride for size, stride in zip(values.shape, values.stride()))
    extent = (last + 1) * values.element_size()
    pages = -(-extent // PAGE)
    room = mmap.mmap(-1, (pages + 2) * PAGE)
    KEPT.append(room)
    start = PAGE if side == "before" else (pages + 1) * PAGE - extent
    flat = torch.frombuffer(room, dtype=torch.uint8)[start : start + extent].view(values.dtype)
    copy = flat.as_strided(values.shape, values.stride())
    copy.copy_(values)
    base = torch.frombuffer(room, dtype=torch.uint8).data_ptr()
    for page in (base, base + (pages + 1) * PAGE):
        assert LIBC.mprotect(page, PAGE, 0) == 0
    return copy
'''

CHAINS = """
from dataclasses import replace
from specdec_kernels.chain_launch import LaunchConfig, TwoLevel
from specdec_kernels.verify_batch import GivenNoise, KernelVerdict, KeyedNoise, VerifyBatch
from specdec_kernels.verify_block import verify_block_triton
from specdec_kernels.verify_chain import verify_chain_triton

def batch_of(side, vocab, mode, given):
    torch.manual_seed(vocab)
    counts = torch.tensor([3, 0, 2, 3, 1, 0])
    offsets, requests = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]), len(counts)
    drafts = int(offsets[-1])
    tokens = torch.randint(0, vocab, (drafts,))
    tokens[4] = -1
    noise = KeyedNoise(torch.randint(0, 2**31, (requests, 3)))
    if given:
        noise = GivenNoise(guarded(torch.rand(drafts), side), guarded(torch.rand(requests, vocab) + 0.1, side))
    else:
        noise = KeyedNoise(guarded(noise.keys, side))
    logits = guarded(torch.randn(drafts, vocab), side)
    probs = guarded(torch.softmax(torch.randn(drafts, vocab), -1), side)
    return VerifyBatch(
        guarded(torch.randn(drafts + requests, vocab), side), guarded(tokens, side), guarded(offsets, side),
        guarded(torch.tensor([1.0, 0.7, 0.0, 1.3, 1.0, 0.0]), side), noise, 3,
        draft_logits=logits if mode == "logits" else None, draft_probs=probs if mode == "probs" else None,
    )

empty = torch.empty
def guarded_empty(*shape, side, **options):
    return guarded(empty(*shape, **options), side)

for side in ("before", "behind"):
    # the kernels' own buffers lie against forbidden pages too
    torch.empty = lambda *shape, side=side, **options: guarded_empty(*shape, side=side, **options)
    for vocab, mode, given in ((7, "logits", False), (13, "probs", True), (8, "none", False)):
        batch = batch_of(side, vocab, mode, given)
        for config in (LaunchConfig(8, 4, 4), LaunchConfig(16, 16, 8)):
            for version in (1, 2, 3):
                verify_chain_triton(batch, version=version, config=config)
            for version in (1, 2):
                verify_block_triton(batch, version=version, config=config)
print("untouched")
"""

TREES = """
from specdec_core.coins.noise import NoiseKey
from specdec_kernels.chain_launch import LaunchConfig
from specdec_kernels.philox import noise_words_triton
from specdec_kernels.verify_batch import GivenNoise, KeyedNoise, VerifyBatch
from specdec_kernels.verify_tree import verify_tree_triton

METHODS = (
    "recursive", "recursive_without_replacement", "target_only", "traversal", "traversal_without_replacement"
)
parents = torch.tensor([-1, -1, 0, -1, 0])
offsets = torch.tensor([0, 3, 3, 5])
vocab, empty = 7, torch.empty
rows = torch.randn(5, vocab)
rows[1] = rows[0]

def batch_of(side, mode, given):
    torch.manual_seed(1)
    tokens = torch.randint(0, vocab, (5,))
    tokens[4] = -1
    noise = KeyedNoise(guarded(torch.randint(0, 2**31, (3, 3)), side))
    if given:
        noise = GivenNoise(guarded(torch.rand(5), side), guarded(torch.rand(3, vocab) + 0.1, side))
    return VerifyBatch(
        guarded(torch.randn(8, vocab), side), guarded(tokens, side), guarded(offsets, side),
        guarded(torch.tensor([1.0, 0.0, 0.7]), side), noise, 3,
        draft_logits=guarded(rows, side) if mode == "logits" else None,
        draft_probs=guarded(torch.softmax(rows, -1), side) if mode == "probs" else None,
    )

for side in ("before", "behind"):
    # the kernels' own buffers lie against forbidden pages too
    torch.empty = lambda *shape, side=side, **options: guarded(empty(*shape, **options), side)
    for mode, given in (("none", False), ("logits", True), ("probs", False)):
        batch = batch_of(side, mode, given)
        for method in METHODS:
            if method.endswith("without_replacement") and mode == "none" or method == "target_only" and given:
                continue
            # version 1, a program a request, with one kind of drafts a method
            for version in (1, 2) if given or mode == "probs" and method == "target_only" else (2,):
                verify_tree_triton(
                    batch, guarded(parents, side), method=method, version=version, config=LaunchConfig(4, 4, 4)
                )
    for tokens in (1, 7, 1029):
        noise_words_triton(NoiseKey(3, 1, 4, 1, "draft"), tokens, torch.device("cpu"))
print("untouched")
"""

CACHES = """
from specdec_kernels.kv_compact import kv_compact_triton
from specdec_kernels.tree_attention import TreeKV, pack_mask, tree_attention_triton

empty = torch.empty
for side in ("before", "behind"):
    torch.empty = lambda *shape, side=side, **options: guarded(empty(*shape, **options), side)
    torch.manual_seed(1)
    pool = guarded(torch.randn(2, 12, 5), side)
    table, path = torch.tensor([[2, 0]], dtype=torch.int32), torch.tensor([[1, 3, 5]])
    for version in (1, 2):
        kv_compact_triton(
            pool, guarded(table, side), guarded(torch.tensor([2]), side), guarded(path, side), page=4, version=version
        )
    torch.empty_like = lambda values, side=side: guarded(empty(values.shape, dtype=values.dtype), side)
    # prefixes that fill a capacity and that are none; 33 rows are two words of mask, the last row is padding
    for rows, dim, page, dtype in ((3, 16, 4, torch.float32), (3, 24, 0, torch.float32), (33, 16, 5, torch.float16)):
        capacity = 4 + rows
        blocks = -(-capacity // page) if page else 0
        slots = 2 * (blocks * page if page else capacity)
        # keys and values by heads: the last head ends where its tensor ends
        halves = [guarded(torch.randn(2, slots, dim).to(dtype), side).transpose(0, 1) for _ in range(2)]
        table = guarded(torch.randperm(2 * blocks).view(2, blocks).to(torch.int32), side) if page else None
        kv = TreeKV(*halves, guarded(torch.tensor([4, 0], dtype=torch.int32), side), capacity, table, page)
        seen = torch.ones(2, rows, rows, dtype=torch.bool).tril()
        seen[:, -1] = False
        queries, mask = guarded(torch.randn(2, rows, 4, dim).to(dtype), side), guarded(pack_mask(seen), side)
        for version in (1, 2):
            tree_attention_triton(queries, kv, mask, version=version, columns=4)
print("untouched")
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1800)


@pytest.mark.slow
@pytest.mark.parametrize("side", ["before", "behind"])
def test_the_guard_kills_who_touches_it(side: str) -> None:
    place = -1 if side == "before" else 5
    code = GUARDS + f"values = guarded(torch.ones(5), {side!r})\nprint(float(values.sum()), flush=True)\n"
    result = run(code + f"ctypes.string_at(values.data_ptr() + 4 * {place}, 4)\n")
    assert result.stdout.strip() == "5.0"
    assert result.returncode < 0


@pytest.mark.slow
def test_chain_kernels_stay_inside_their_tensors() -> None:
    result = run(GUARDS + CHAINS)
    assert result.returncode == 0, f"killed by signal {-result.returncode}\n{result.stderr[-2000:]}"
    assert result.stdout.strip() == "untouched"


@pytest.mark.slow
@pytest.mark.parametrize("code", [TREES, CACHES], ids=["trees", "caches"])
def test_other_kernels_stay_inside_their_tensors(code: str) -> None:
    result = run(GUARDS + code)
    assert result.returncode == 0, f"killed by signal {-result.returncode}\n{result.stderr[-2000:]}"
    assert result.stdout.strip() == "untouched"
