"""The joint law of texts made by the kernels from their own random numbers: certified, and lost by three mutants.

A text is made of rounds, as an engine makes it: drafts from a bigram draft by keyed noise, one kernel call for all
requests, its tokens appended. Target and draft look at the last token, so a slip in any row shows.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from specdec_core.certify_callable import certify_callable
from specdec_core.coins.philox import philox4x32
from specdec_kernels import decision_triton
from specdec_kernels import verify_block_triton as block_kernels
from specdec_kernels.race_triton import store_plan
from specdec_kernels.verify_batch import KernelVerdict, KeyedNoise, VerifyBatch
from specdec_kernels.verify_block import verify_block_triton
from specdec_kernels.verify_chain import verify_chain_triton

triton = pytest.importorskip("triton", reason="Triton has no wheel for this platform")
tl = pytest.importorskip("triton.language")

from specdec_kernels.philox_triton import key_words, uniform_of  # noqa: E402

pytestmark = pytest.mark.slow

DRAFTS, HORIZON, SEED = 2, 4, 11
# rows that a drafter which shares its noise with the recovery shifts by 0.08 in total variation each
TARGET = torch.tensor([[-2.3, 1.0, -1.9, 0.4], [-1.5, -2.2, 0.4, 0.8], [1.4, 0.0, -1.7, 2.1], [-2.0, 0.6, -0.9, 0.5]])
DRAFT = torch.tensor([[1.3, 1.1, 1.2, -2.9], [-3.5, 1.4, -1.3, 0.9], [-3.1, -1.1, 1.8, 1.1], [2.0, -0.8, -0.7, 0.8]])
# the example of block verification's paper, where coins keyed by position cost 0.083 of the joint law
PAPER_TARGET, PAPER_DRAFT = (torch.tensor([row] * 2).log() for row in ([1 / 3, 2 / 3], [2 / 3, 1 / 3]))
# 6,000 texts notice a shift of 0.06 in total variation with a power of 0.99, by the certificate's own count
TEXTS = 6000


def draft_tokens(
    draft: torch.Tensor,
    last: np.ndarray,
    requests: np.ndarray,
    lengths: np.ndarray,
    node: int,
    purpose: int,
    by_position: bool,
) -> np.ndarray:
    """A race over the draft's law of each request, on the noise of (request, length, node, purpose)."""
    slot = node * 8 + purpose
    if by_position:
        lengths, slot = lengths + node, purpose
    counter = np.stack([0 * requests, lengths, requests, 0 * requests + slot], 1).astype(np.uint32)
    words = philox4x32(counter, (SEED, 0))[:, : len(draft)]
    noise = -np.log1p(-np.minimum((words + 0.5) * 2.0**-32, 1 - 2.0**-24))
    return (noise / torch.softmax(draft.double(), -1).numpy()[last]).argmin(1)


def texts(
    kernel: Callable[[VerifyBatch], KernelVerdict],
    first: int,
    count: int,
    target: torch.Tensor,
    draft: torch.Tensor,
    draft_purpose: int = 0,
    by_position: bool = False,
) -> list[list[int]]:
    """`count` texts of at least HORIZON tokens."""
    written = [[] for _ in range(count)]
    while any(len(text) < HORIZON for text in written):
        last = np.array([text[-1] if text else 0 for text in written])
        requests, lengths = np.arange(first, first + count), np.array([len(text) + 1 for text in written])
        rows = [last]
        for node in range(DRAFTS):
            rows.append(draft_tokens(draft, rows[-1], requests, lengths, node, draft_purpose, by_position))
        context = torch.from_numpy(np.stack(rows, 1))
        keys = torch.from_numpy(np.stack([np.full(count, SEED), requests, lengths], 1)).to(torch.int64)
        verdict = kernel(
            VerifyBatch(
                target_logits=target[context].flatten(0, 1),
                draft_tokens=context[:, 1:].flatten().contiguous(),
                cu_num_draft=torch.arange(count + 1) * DRAFTS,
                temperature=torch.ones(count),
                noise=KeyedNoise(keys),
                max_draft=DRAFTS,
                draft_logits=draft[context[:, :-1]].flatten(0, 1),
            )
        )
        for text, emitted in zip(written, verdict.emitted.tolist()):
            text.extend(token for token in emitted if token >= 0)
    return written


def certified(kernel: Callable[[VerifyBatch], KernelVerdict], target=TARGET, draft=DRAFT, **options: int):
    return certify_callable(
        lambda first, count: texts(kernel, first, count, target, draft, **options),
        lambda tokens: torch.softmax(target[tokens[-1] if tokens else 0].double(), -1),
        horizon=HORIZON,
        n=TEXTS,
        batch=2000,
    )


@pytest.mark.parametrize("kernel", [verify_chain_triton, verify_block_triton], ids=["chain", "block"])
def test_the_law_of_texts_is_the_targets(kernel: Callable[[VerifyBatch], KernelVerdict]) -> None:
    certificate = certified(kernel)
    print(certificate.sentence)
    assert certificate.passed


def test_drafts_on_the_noise_of_the_recovery_are_caught() -> None:
    assert certified(verify_chain_triton, draft_purpose=2).rejected


@triton.jit
def uniforms_by_position(keys_ptr, uniforms_ptr, request, start, slot, inside, GIVEN: tl.constexpr):
    at = keys_ptr + request * 3
    seed, sample = tl.load(at, mask=inside, other=0), tl.load(at + 1, mask=inside, other=0)
    length = tl.load(at + 2, mask=inside, other=0) + slot
    word, _, _, _ = key_words(seed, length, sample, slot * 0 + 1, (slot * 0).to(tl.uint32))
    return uniform_of(word)


def test_noise_keyed_by_position_is_caught_in_block_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    assert certified(verify_block_triton, PAPER_TARGET, PAPER_DRAFT).passed
    monkeypatch.setattr(decision_triton, "accept_uniforms", uniforms_by_position)
    assert certified(verify_block_triton, PAPER_TARGET, PAPER_DRAFT, by_position=True).rejected


@triton.jit
def unscaled_plan(plan_ints, plan_floats, request, there, row, mode, token, scale, t_max, t_sum, d_max, d_sum):
    store_plan(plan_ints, plan_floats, request, there, row, mode, token, scale * 0.0 + 1.0, t_max, t_sum, d_max, d_sum)


def test_a_residual_that_is_not_scaled_is_caught_in_block_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_kernels, "store_plan", unscaled_plan)
    assert certified(verify_block_triton).rejected
