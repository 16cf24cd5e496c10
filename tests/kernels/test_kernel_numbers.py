"""The numbers the kernels are built from: noise in float32, addresses in int64, and inputs that make sense."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from specdec_core.coins.noise import NoiseKey
from specdec_kernels.chain_launch import LaunchConfig
from specdec_kernels.two_level_reference import verify_chain_two_level
from specdec_kernels.verify_batch import GivenNoise, KernelVerdict, KeyedNoise
from specdec_kernels.verify_chain import verify_chain, verify_chain_reference, verify_chain_triton
from specdec_kernels.verify_tree import verify_tree_reference, verify_tree_triton

triton = pytest.importorskip("triton", reason="Triton has no wheel for this platform")
tl = pytest.importorskip("triton.language")

from specdec_kernels.philox_triton import exponential_of, uniform_of  # noqa: E402
from specdec_kernels.row_stats_triton import address  # noqa: E402

WORDS = [0, 1, 2, 255, 2**8, 2**23, 2**24, 2**30 - 1, 2**30, 2**31, 2**32 - 257, 2**32 - 256, 2**32 - 1]


@triton.jit
def numbers_kernel(words_ptr, uniforms_ptr, exponentials_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    word = tl.load(words_ptr + at)
    tl.store(uniforms_ptr + at, uniform_of(word))
    tl.store(exponentials_ptr + at, exponential_of(word))


@triton.jit
def address_kernel(rows_ptr, out_ptr, stride, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, address(tl.load(rows_ptr + at), stride))


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def test_noise_in_float32_is_that_of_the_core() -> None:
    some = NoiseKey(5, 6, 7, 8, "recover").words(np.arange(4096 - len(WORDS), dtype=np.uint32))
    words = np.concatenate([np.array(WORDS, dtype=np.uint32), some])
    uniforms, exponentials = torch.empty(2, len(words), device=device())
    numbers_kernel[(1,)](torch.from_numpy(words).to(device()), uniforms, exponentials, N=len(words))
    u = uniforms.cpu().double().numpy()
    assert u.max() == 1 - 2.0**-24
    assert np.abs(u - words * 2.0**-32).max() <= 2.0**-24
    small = words < 2**24
    assert np.array_equal(u[small], words[small] * 2.0**-32)
    wanted = -np.log1p(-np.minimum((words + 0.5) * 2.0**-32, 1 - 2.0**-24))
    error = np.abs(exponentials.cpu().double().numpy() / wanted - 1)
    assert error.max() < 5e-7, f"word {words[error.argmax()]}"


def test_addresses_are_int64() -> None:
    rows = torch.tensor([0, 1, 14_135, 2**31 - 1], dtype=torch.int32, device=device())
    out = torch.empty(4, dtype=torch.int64, device=device())
    address_kernel[(1,)](rows, out, 151_936, N=4)
    assert 14_135 * 151_936 > 2**31
    assert out.tolist() == [0, 151_936, 14_135 * 151_936, (2**31 - 1) * 151_936]


def test_a_batch_names_what_does_not_fit(make_batch) -> None:
    batch = make_batch(1, vocab=7, requests=4)
    drafts = batch.num_drafts
    wrong = {
        r"target_logits has shape .*; expected \[\d+, vocab\]": {"target_logits": batch.target_logits[:-1]},
        r"target_logits is torch.float64": {"target_logits": batch.target_logits.double()},
        r"target_logits has strides": {"target_logits": batch.target_logits.t().contiguous().t()},
        r"draft_logits has shape .*; expected \[\d+, 7\]": {"draft_logits": torch.zeros(drafts, 6)},
        r"draft_logits and draft_probs are both given": {"draft_probs": torch.ones(drafts, 7)},
        r"draft_tokens is torch.int32": {"draft_tokens": batch.draft_tokens.int()},
        r"cu_num_draft has shape \(0,\)": {"cu_num_draft": torch.empty(0, dtype=torch.int64)},
        r"temperature is torch.float32 of shape \(3,\)": {"temperature": batch.temperature[:3]},
        r"max_draft is 128; expected an integer 0..127": {"max_draft": 128},
        r"max_draft is 4.0; expected an integer 0..127": {"max_draft": 4.0},
        r"noise is a NoneType; expected KeyedNoise or GivenNoise": {"noise": None},
        r"noise.keys is torch.int64 of shape \(4, 2\)": {"noise": KeyedNoise(torch.zeros(4, 2, dtype=torch.int64))},
        r"noise.exponentials is torch.float32": {"noise": GivenNoise(torch.zeros(drafts), torch.ones(4, 6))},
    }
    for message, change in wrong.items():
        with pytest.raises(ValueError, match=message):
            replace(batch, **change)


def test_values_are_checked_when_asked(make_batch) -> None:
    batch = make_batch(2, vocab=7, requests=4, given=True)
    batch.check_values()
    bad_row, bad_token = batch.target_logits.clone(), batch.draft_tokens.clone()
    bad_row[2, 3], bad_token[0] = float("nan"), 7
    wrong = {
        "target_logits row 2 holds NaN": {"target_logits": bad_row},
        "draft_logits row 0 holds NaN": {"draft_logits": torch.full((batch.num_drafts, 7), float("-inf"))},
        "draft_tokens holds ids outside -1..6": {"draft_tokens": bad_token},
        "temperature holds": {"temperature": -batch.temperature - 1},
        "max_draft is 1, but a request has more": {"max_draft": 1},
        "cu_num_draft is": {"cu_num_draft": batch.cu_num_draft + 1},
        "noise.keys holds a sample or a length": {"noise": KeyedNoise(torch.full((4, 3), -1))},
        "noise.keys holds a sample or a length outside 0..4294967295": {"noise": KeyedNoise(torch.full((4, 3), 2**32))},
        "noise.uniforms holds": {"noise": replace(batch.noise, uniforms=batch.noise.uniforms + 1)},
        "noise.exponentials holds": {"noise": replace(batch.noise, exponentials=batch.noise.exponentials * 0)},
    }
    for message, change in wrong.items():
        with pytest.raises(ValueError, match=message):
            replace(batch, **change).check_values()
    with pytest.raises(ValueError, match="target_logits row 2 holds NaN"):
        verify_chain(replace(batch, target_logits=bad_row))


def test_tiles_are_powers_of_two() -> None:
    for name, size in (("stats_block", 3), ("stats_block", 0), ("race_block", 2), ("rows", -1), ("rows", 1.5)):
        with pytest.raises(ValueError, match=f"{name} is {size}; expected a power of two, at least"):
            LaunchConfig(**{name: size})


def test_the_smallest_sampled_temperature_is_the_same_everywhere(make_batch) -> None:
    # in float32, 1e-5 is below the 1e-5 of float64
    batch = make_batch(21, vocab=2, requests=24, draft="none")
    ties = torch.zeros_like(batch.target_logits)
    batch = replace(batch, target_logits=ties, temperature=torch.full_like(batch.temperature, 1e-5))
    wanted = verify_chain_reference(batch)
    # of equal logits a greedy request would always take token 0
    assert int((wanted.next_token == 1).sum()) > 0
    for answer in (verify_chain(batch), verify_chain_triton(batch), verify_chain_two_level(batch, block=2)[0]):
        assert torch.equal(answer.emitted, wanted.emitted)
    parents = torch.full_like(batch.draft_tokens, -1)
    tree = verify_tree_reference(batch, parents, method="target_only").verdict.emitted
    assert torch.equal(verify_tree_triton(batch, parents, method="target_only").verdict.emitted, tree)


def test_room_of_another_shape_is_refused(make_batch) -> None:
    batch = make_batch(3, vocab=7, requests=4)
    small = KernelVerdict.empty(3, batch.slots, batch.device)
    for call in (verify_chain, verify_chain_triton):
        with pytest.raises(ValueError, match=r"out.num_accepted is torch.int64 of shape \(3,\)"):
            call(batch, small)


def test_keys_come_from_three_tensors() -> None:
    noise = KeyedNoise.of(torch.tensor([5, 6]), torch.tensor([0, 1]), torch.tensor([10, 11]))
    assert noise.keys.tolist() == [[5, 0, 10], [6, 1, 11]]


@triton.jit
def sum_kernel(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr, tl.sum(x, axis=0))
    tl.store(out_ptr + 1, tl.sum(x.to(tl.float32), axis=0))


@pytest.mark.skipif(torch.cuda.is_available(), reason="about Triton's interpreter, which a GPU does not use")
def test_a_sum_in_bfloat16_is_wrong_in_the_interpreter() -> None:
    """Why the kernels convert first, and what notebook 12 says; when this fails, both may change."""
    found = torch.zeros(2)
    sum_kernel[(1,)](torch.arange(1.0, 9.0).to(torch.bfloat16), found, N=8)
    assert found[0] != 36 and found[1] == 36
