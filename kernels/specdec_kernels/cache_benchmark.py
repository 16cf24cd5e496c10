"""Microseconds of one call of the cache's kernels, versions beside the reference: `python -m specdec_kernels.NAME`.

NAME is tree_attention or kv_compact. On a CPU there is no kernel to time: `--device cpu` runs the script's own code on
tiny inputs and says so. `specdec bench kernels` measures with events, more sizes and other projects' kernels.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from specdec_kernels.chain_benchmark import microseconds
from specdec_kernels.kv_compact import kv_compact, kv_compact_reference, kv_compact_triton
from specdec_kernels.tree_attention import (
    TreeKV,
    pack_mask,
    tree_attention,
    tree_attention_reference,
    tree_attention_triton,
)

Contestants = dict[str, Callable[[], Any]]


def attention_case(requests: int, rows: int, prefix: int, device: torch.device) -> tuple[str, Contestants]:
    """(what it is, the contestants): a chain of `rows` rows, 32 query and 8 key heads of 128 (CPU: 2 and 1 of 16)."""
    is_gpu = device.type == "cuda"
    heads, kv_heads, dim = (32, 8, 128) if is_gpu else (2, 1, 16)
    capacity, dtype = prefix + rows, torch.bfloat16 if is_gpu else torch.float32
    queries = torch.randn(requests, rows, heads, dim, device=device, dtype=dtype)
    keys, values = torch.randn(2, requests * capacity, kv_heads, dim, device=device, dtype=dtype)
    kv = TreeKV(keys, values, torch.full((requests,), prefix, dtype=torch.int32, device=device), capacity)
    mask = pack_mask(torch.ones(rows, rows, dtype=torch.bool, device=device).tril().expand(requests, -1, -1))
    runs: Contestants = {"reference": partial(tree_attention_reference, queries, kv, mask)}
    if is_gpu:
        runs |= {f"v{n}": partial(tree_attention_triton, queries, kv, mask, version=n) for n in (1, 2)}
    else:
        runs["wrapper"] = partial(tree_attention, queries, kv, mask)
    return f"B={requests} rows={rows} prefix={prefix}", runs


def compact_case(requests: int, layers: int, width: int, device: torch.device) -> tuple[str, Contestants]:
    """(what it is, the contestants): 6 of 16 nodes kept; each contestant has a pool of its own and answers with it."""
    page, blocks = 16, 4
    rng = torch.Generator().manual_seed(1)
    pool = torch.randn(layers, requests * blocks * page, width, generator=rng).bfloat16().to(device)
    table = torch.arange(requests * blocks, dtype=torch.int32, device=device).view(requests, blocks)
    starts = torch.full((requests,), page + 5, device=device)
    path = torch.tensor([[0, 2, 5, 9, 12, 15]], device=device).repeat(requests, 1)

    def run(move: Callable[..., None], own: torch.Tensor) -> torch.Tensor:
        move(own, table, starts, path, page=page)
        return own

    moves: dict[str, Callable[..., None]] = {"reference": kv_compact_reference}
    if device.type == "cuda":
        moves |= {f"v{version}": partial(kv_compact_triton, version=version) for version in (1, 2)}
    else:
        moves["wrapper"] = kv_compact
    runs: Contestants = {name: partial(run, move, pool.clone()) for name, move in moves.items()}
    return f"B={requests} layers={layers} width={width}", runs


def main(name: str, arguments: list[str] | None = None) -> None:
    """Prints a row for each size and contestant, and how far its answer is from the reference's."""
    parser = argparse.ArgumentParser(prog=f"python -m specdec_kernels.{name}")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(parser.parse_args(arguments).device)
    is_gpu, make = device.type == "cuda", attention_case if name == "tree_attention" else compact_case
    sizes = {"tree_attention": [(1, 64, 8192), (16, 64, 8192)], "kv_compact": [(1, 32, 2048), (16, 32, 2048)]}[name]
    if not is_gpu:
        print("dry run: without a CUDA device everything here is the reference; not a measurement of a kernel")
        sizes = {"tree_attention": [(1, 5, 20), (2, 5, 20)], "kv_compact": [(1, 2, 16), (2, 2, 16)]}[name]
    for size in sizes:
        label, runs = make(*size, device)
        # before anything is timed: a second compaction would move what the first one left
        answers = {contestant: run().float().clone() for contestant, run in runs.items()}
        for contestant, run in runs.items():
            error = float((answers[contestant] - answers["reference"]).abs().max())
            time = microseconds(run, device, 30 if is_gpu else 3)
            print(f"{name} {device.type} {label} {contestant}: {time:.0f} us, largest difference {error:.1e}")
