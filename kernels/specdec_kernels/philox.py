"""The noise of a vocabulary: one 32-bit Philox word per token id, equal bit for bit on every device.

`noise_words_reference` is the core's numpy generator; `noise_words` takes the Triton kernel where it can.
"""

from contextlib import nullcontext
from importlib.util import find_spec
from statistics import median
from time import perf_counter

from jaxtyping import UInt32
import numpy as np
import torch
from torch import Tensor

from specdec_core.coins.noise import PURPOSE_CODES, NoiseKey

_MAX_TOKENS = 1 << 31
_BLOCK = 256


def noise_words_reference(key: NoiseKey, num_tokens: int) -> UInt32[Tensor, " num_tokens"]:
    """The words of token ids 0 .. num_tokens - 1, from the core's numpy generator, on the CPU."""
    _check_count(num_tokens)
    if num_tokens == 0:
        return torch.empty(0, dtype=torch.uint32)
    return torch.from_numpy(key.words(np.arange(num_tokens, dtype=np.uint32)))


def noise_words_triton(key: NoiseKey, num_tokens: int, device: torch.device) -> UInt32[Tensor, " num_tokens"]:
    """The same words from the Triton kernel, on `device`: a CUDA device, or any under TRITON_INTERPRET=1."""
    from specdec_kernels.philox_triton import noise_words_kernel

    _check_count(num_tokens)
    words = torch.empty(num_tokens, dtype=torch.uint32, device=device)
    if num_tokens == 0:
        return words
    grid = (-(-num_tokens // (4 * _BLOCK)),)
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        noise_words_kernel[grid](
            words,
            key.seed & 0xFFFFFFFF,
            key.seed >> 32,
            key.length,
            key.request,
            key.node << 3 | PURPOSE_CODES[key.purpose],
            num_tokens,
            BLOCK=_BLOCK,  # pyright: ignore[reportArgumentType]  # wrapped by the launcher
        )
    return words


def noise_words(key: NoiseKey, num_tokens: int, *, device: torch.device | str = "cpu") -> UInt32[Tensor, " num_tokens"]:
    """One uint32 word for each token id 0 .. num_tokens - 1, on `device`.

    The Triton kernel answers on a CUDA device; elsewhere, or without Triton, the numpy reference does.

    Raises:
        ValueError: `num_tokens` negative or above 2^31.
    """
    device = torch.device(device)
    if device.type == "cuda" and find_spec("triton") is not None:
        return noise_words_triton(key, num_tokens, device)
    return noise_words_reference(key, num_tokens).to(device)


def _check_count(num_tokens: int) -> None:
    if not 0 <= num_tokens <= _MAX_TOKENS:
        raise ValueError(f"num_tokens is {num_tokens}; expected 0..{_MAX_TOKENS}, the size of a vocabulary")


def benchmark(device: torch.device | str, num_tokens: int, repeats: int = 30) -> float:
    """Median milliseconds of one `noise_words` call on `device`, after five calls to warm up."""
    device = torch.device(device)
    key, times = NoiseKey(seed=1, request=0, length=100, node=0, purpose="sample"), []
    for _ in range(repeats + 5):
        start = perf_counter()
        noise_words(key, num_tokens, device=device)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append((perf_counter() - start) * 1e3)
    return median(times[5:])


if __name__ == "__main__":
    for name in ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]:
        for size in (49_152, 128_256):
            print(f"{name} {size} tokens: {benchmark(name, size):.3f} ms")
