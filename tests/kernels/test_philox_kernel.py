"""The Triton words equal the core's, bit for bit."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from specdec_core.coins.noise import NoiseKey
from specdec_core.coins.philox import philox4x32
from specdec_kernels.philox import noise_words, noise_words_reference, noise_words_triton

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

KEYS = [
    NoiseKey(seed=0, request=0, length=0, node=0, purpose="draft"),
    NoiseKey(seed=1, request=1, length=1, node=1, purpose="accept"),
    NoiseKey(seed=0xFFFFFFFF, request=2**32 - 1, length=16, node=2**29 - 1, purpose="sample"),
    NoiseKey(seed=0x80000000, request=2**31, length=2**31, node=5, purpose="recover"),
    NoiseKey(seed=2**64 - 1, request=7, length=8192, node=3, purpose="bonus"),
    NoiseKey(seed=0x0123456789ABCDEF, request=0, length=17, node=0, purpose="bonus"),
]


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"seed{key.seed:x}-{key.purpose}")
@pytest.mark.parametrize("num_tokens", [1, 3, 4, 5, 1023, 1024, 1025, 4099])
def test_kernel_words_equal_core_words(key: NoiseKey, num_tokens: int) -> None:
    words = noise_words_triton(key, num_tokens, device())
    assert words.dtype == torch.uint32
    assert words.shape == (num_tokens,)
    assert np.array_equal(words.cpu().numpy(), noise_words_reference(key, num_tokens).numpy())


def test_words_follow_the_published_counter_layout() -> None:
    key = NoiseKey(seed=0x1122334455667788, request=9, length=33, node=6, purpose="recover")
    counter = np.array([[token >> 2, 33, 9, 6 * 8 + 2] for token in range(13)], dtype=np.uint32)
    block_words = philox4x32(counter, (0x55667788, 0x11223344))
    expected = np.array([block_words[token, token & 3] for token in range(13)])
    assert np.array_equal(noise_words_triton(key, 13, device()).cpu().numpy(), expected)
    assert np.array_equal(noise_words_reference(key, 13).numpy(), expected)


@pytest.mark.parametrize("field", ["seed", "request", "length", "node"])
def test_every_field_of_the_key_changes_the_words(field: str) -> None:
    base = {"seed": 2**40 + 3, "request": 4, "length": 5, "node": 6}
    words = noise_words_triton(NoiseKey(**base, purpose="draft"), 64, device())
    other = noise_words_triton(NoiseKey(**{**base, field: base[field] + 1}, purpose="draft"), 64, device())
    assert (words.to(torch.int64) == other.to(torch.int64)).sum() <= 2


def test_the_high_half_of_the_seed_counts() -> None:
    low = noise_words_triton(NoiseKey(3, 0, 0, 0, "draft"), 64, device()).to(torch.int64)
    high = noise_words_triton(NoiseKey(3 + 2**63, 0, 0, 0, "draft"), 64, device()).to(torch.int64)
    assert not torch.equal(low, high)


def test_wrapper_answers_on_the_cpu_and_for_nothing() -> None:
    key = KEYS[-1]
    assert torch.equal(noise_words(key, 10).to(torch.int64), noise_words_reference(key, 10).to(torch.int64))
    assert noise_words(key, 0).shape == (0,)
    assert noise_words_triton(key, 0, device()).shape == (0,)


@pytest.mark.gpu
def test_wrapper_takes_the_kernel_on_a_gpu() -> None:
    words = noise_words(KEYS[-1], 49_152, device="cuda")
    assert words.device.type == "cuda"
    assert np.array_equal(words.cpu().numpy(), noise_words_reference(KEYS[-1], 49_152).numpy())


@pytest.mark.parametrize("num_tokens", [-1, 2**31 + 1])
def test_a_count_out_of_range_is_refused(num_tokens: int) -> None:
    with pytest.raises(ValueError, match=f"num_tokens is {num_tokens}; expected 0"):
        noise_words(KEYS[0], num_tokens)


def test_without_triton_the_reference_answers() -> None:
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "import specdec_kernels\n"
        "from specdec_core import ops\n"
        "from specdec_core.coins.noise import NoiseKey\n"
        "assert 'noise_words' in specdec_kernels.register()\n"
        "key = NoiseKey(5, 0, 3, 0, 'draft')\n"
        "print(ops.get('noise_words')(key, 3).tolist())\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(noise_words_reference(NoiseKey(5, 0, 3, 0, "draft"), 3).tolist())
