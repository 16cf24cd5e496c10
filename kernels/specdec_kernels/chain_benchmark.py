"""Microseconds of one call, kernel beside reference: `python -m specdec_kernels.verify_chain` (or another module).

On a CPU there is no kernel to time: `--device cpu` runs the script's own code on a tiny batch and says so.
"""

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import torch

from specdec_kernels.verify_batch import KeyedNoise, VerifyBatch

TREE = [-1, -1, 0, 0, 1, 1, 2, 2]


def random_batch(
    requests: int, parents: list[int], vocab: int, dtype: torch.dtype, device: torch.device
) -> VerifyBatch:
    """`requests` full trees of that shape with draft logits near the target's; of a chain about two in three are kept.

    Siblings share a law, of which their tokens are drawn without replacement.
    """
    rng, drafts = torch.Generator().manual_seed(1), len(parents)
    rows = requests * drafts
    owner = torch.arange(requests).repeat_interleave(drafts)
    first = torch.tensor([parents.index(parent) for parent in parents]).repeat(requests) + owner * drafts
    rank = torch.tensor([parents[:node].count(parent) for node, parent in enumerate(parents)]).repeat(requests)
    draft = torch.randn(rows, vocab, generator=rng)[first]
    target = torch.randn(rows + requests, vocab, generator=rng)
    after_parent = torch.tensor(parents).repeat(requests) + 1 + owner * (drafts + 1)
    target[after_parent] = draft + 0.5 * torch.randn(rows, vocab, generator=rng)
    siblings = torch.multinomial(torch.softmax(draft, -1), int(rank.max()) + 1, generator=rng)
    tokens = siblings[first, rank]
    keys = torch.stack([torch.full((requests,), 7), torch.arange(requests), torch.full((requests,), 100)], 1)
    return VerifyBatch(
        target_logits=target.to(dtype).to(device),
        draft_tokens=tokens.to(device),
        cu_num_draft=(torch.arange(requests + 1) * drafts).to(device),
        temperature=torch.ones(requests, device=device),
        noise=KeyedNoise(keys.to(device)),
        max_draft=drafts,
        draft_logits=draft.to(dtype).to(device),
    )


def microseconds(call, device: torch.device, repeats: int) -> float:
    """Median time of one call, after five to warm up."""
    times = []
    for _ in range(repeats + 5):
        start = perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append((perf_counter() - start) * 1e6)
    return median(times[5:])


def contestants(name: str, device: torch.device) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(operator, its reference) as functions of a batch alone."""
    from specdec_kernels import verify_block, verify_chain, verify_tree

    if name != "verify_tree":
        module = {"verify_chain": verify_chain, "verify_block": verify_block}[name]
        return getattr(module, name), getattr(module, f"{name}_reference")

    def judged(run: Callable[..., Any], batch: VerifyBatch, **options: int) -> Any:
        parents = torch.tensor(TREE * batch.num_requests, device=device)
        return run(batch, parents, method="recursive_without_replacement", **options)

    # below the pending token and below nodes 0 to 2 hang two children each: one refusal with a sibling a level
    return partial(judged, verify_tree.verify_tree, max_passes=3), partial(judged, verify_tree.verify_tree_reference)


def emitted_by(run: Callable[..., Any], batch: VerifyBatch) -> torch.Tensor:
    """The emitted tokens of one call."""
    result = run(batch)
    return getattr(result, "verdict", result).emitted


def main(name: str, arguments: list[str] | None = None) -> None:
    """Prints a row for each size."""
    parser = argparse.ArgumentParser(prog=f"python -m specdec_kernels.{name}")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    kernel, reference = contestants(name, device)
    parents = TREE if name == "verify_tree" else [-1, 0, 1, 2]
    sizes, repeats = [(1, 128_256), (16, 128_256), (64, 128_256)], 30
    if device.type != "cuda":
        print("dry run: without a CUDA device both columns time the reference; not a measurement of a kernel")
        sizes, repeats = [(1, 1024), (4, 1024)], 3
    for requests, vocab in sizes:
        batch = random_batch(requests, parents, vocab, torch.bfloat16, device)
        check = [emitted_by(run, batch) for run in (kernel, reference)]
        same = torch.equal(check[0], check[1])
        times = [microseconds(partial(run, batch), device, repeats) for run in (kernel, reference)]
        print(
            f"{name} {device.type} B={requests} N={len(parents)} V={vocab}: {times[0]:.0f} us, "
            f"reference {times[1]:.0f} us, {'same verdicts' if same else 'verdicts differ (near-ties?)'}"
        )
