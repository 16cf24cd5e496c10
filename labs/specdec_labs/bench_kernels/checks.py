"""Correctness on the device, before anything is timed: each kernel against its reference, which runs on the CPU."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from specdec_core.coins.noise import NoiseKey
from specdec_core.draft import DraftTree
from specdec_core.rules import verify_block as block_rule
from specdec_core.rules import verify_chain as chain_rule
from specdec_core.rules import verify_tree as tree_rule
from specdec_kernels.philox import noise_words_reference, noise_words_triton
from specdec_kernels.verify_batch import KernelVerdict, VerifyBatch
from specdec_kernels.verify_block import verify_block_reference, verify_block_triton
from specdec_kernels.verify_chain import verify_chain_reference, verify_chain_triton
from specdec_kernels.verify_tree import TreeVerdict, verify_tree_reference, verify_tree_triton
from specdec_labs.bench_kernels.check_cache import check_attention, check_compact
from specdec_labs.bench_kernels.near_ties import NEAR_TIE, smallest_gap
from specdec_labs.bench_kernels.peers import NotAvailable
from specdec_labs.bench_kernels.random_batches import forest, moved, ragged_batch

DRAFTS = ("logits", "probs", "none")
CHAINS = {
    "verify_chain": (verify_chain_triton, verify_chain_reference, chain_rule),
    "verify_block": (verify_block_triton, verify_block_reference, block_rule),
}


@dataclass(frozen=True, slots=True)
class Check:
    """What a check found.

    Attributes:
        cases: requests, tokens or tensors compared.
        wrong: how many differ and are no near-ties.
        near_ties: how many differ because two sides of a decision are within a relative 1e-5.
        note: what was compared, or the largest error.
    """

    cases: int
    wrong: int
    near_ties: int = 0
    note: str = ""

    @property
    def passed(self) -> bool:
        """Nothing wrong, and at most one near-tie in a thousand (one at least)."""
        return self.wrong == 0 and self.near_ties <= max(1, self.cases // 1000)


def run_check(operator: str, arm: str, device: torch.device) -> Check:
    """The check of one operator; `arm` is "last", an early version ("v1"), a tree method, or "graph"."""
    small = device.type != "cuda"
    if arm == "graph":
        return check_graph(operator, device)
    if operator == "noise_words":
        return check_noise(300 if small else 151_936, device)
    if operator in CHAINS:
        return check_chain(operator, arm, device, small)
    if operator == "verify_tree":
        return check_tree(arm, device, small)
    version = 2 if arm == "last" else int(arm[1:])
    check = check_attention if operator == "tree_attention" else check_compact
    return Check(*check(version, device, small))


def check_noise(tokens: int, device: torch.device) -> Check:
    """Every word of a vocabulary, bit for bit."""
    key = NoiseKey(2**63 + 5, 6, 7, 8, "recover")
    got = noise_words_triton(key, tokens, device).cpu()
    return Check(tokens, int((got.long() != noise_words_reference(key, tokens).long()).sum()), note="bit for bit")


def check_chain(operator: str, arm: str, device: torch.device, small: bool) -> Check:
    """Ragged batches with every kind of draft, small and large vocabularies, edge cases."""
    kernel, reference, rule = CHAINS[operator]
    if arm != "last":
        kernel = partial(kernel, version=int(arm[1:]))
    sizes = [(13, 4)] if small else [(7, 60), (257, 40), (8193, 16), (49_152, 6), (151_936, 4)]
    total = Check(0, 0)
    for vocab, requests in sizes:
        for place, draft in enumerate(DRAFTS):
            batch = ragged_batch(vocab + place, vocab=vocab, requests=requests, draft=draft)
            got = moved(kernel(moved(batch, device)), "cpu")
            total = _plus(total, compared(batch, got, reference(batch), lambda _: rule))
    return replace(total, note=f"V {', '.join(str(vocab) for vocab, _ in sizes)}; drafts {', '.join(DRAFTS)}")


def check_tree(method: str, device: torch.device, small: bool) -> Check:
    """Random trees; siblings share a law, drafts and target are near each other."""
    sizes = [(7, 3)] if small else [(7, 60), (257, 40), (8193, 12), (49_152, 4), (151_936, 2)]
    total = Check(0, 0)
    for vocab, requests in sizes:
        for draft in ("logits", "none"):
            batch, parents = forest(vocab, vocab=vocab, requests=requests, draft=draft, method=method)
            # deterministic children are not drawn, so nothing is replaced
            chosen: Any = method if draft == "logits" else method.removesuffix("_without_replacement")
            result = verify_tree_triton(moved(batch, device), parents.to(device), method=chosen)
            got, wanted = moved(result.verdict, "cpu"), verify_tree_reference(batch, parents, method=chosen)
            total = _plus(total, compared(batch, got, wanted.verdict, partial(_judge_of_tree, batch, parents, chosen)))
    return replace(total, note=f"V {', '.join(str(vocab) for vocab, _ in sizes)}; drafts logits, none")


def compared(
    batch: VerifyBatch, got: KernelVerdict, wanted: KernelVerdict, rule_of: Callable[[int], Callable[..., Any]]
) -> Check:
    """Requests that differ in anything, near-ties apart; `rule_of(request)` is the scalar rule of that request."""
    different = (got.emitted != wanted.emitted).any(1) | (got.num_accepted != wanted.num_accepted)
    different |= (got.is_bonus != wanted.is_bonus) | (got.next_token != wanted.next_token)
    places = different.nonzero()[:, 0].tolist()
    ties = sum(smallest_gap(batch, place, rule_of(place)) < NEAR_TIE for place in places)
    return Check(batch.num_requests, len(places) - ties, ties)


def _judge_of_tree(batch: VerifyBatch, parents: torch.Tensor, method: Any, request: int) -> Callable[..., Any]:
    """The tree rule as a function of tokens and laws: it has to know the request's tree."""
    first = int(batch.cu_num_draft[request])

    def judge(tokens: list[int], draft: Any, target: Any, coins: Any) -> Any:
        tree = DraftTree(tuple(tokens), tuple(parents[first : first + len(tokens)].tolist()))
        return tree_rule(tree, draft, target, coins, method=method)

    return judge


def check_graph(operator: str, device: torch.device) -> Check:
    """A CUDA graph of one call, replayed on other inputs, equals the call itself: nothing was frozen into it.

    Raises:
        NotAvailable: on a CPU.
    """
    if device.type != "cuda":
        raise NotAvailable("graphs need a CUDA device")
    first, parents = forest(1, vocab=49_152, requests=8, draft="logits", method="traversal")
    batch, at = moved(first, device), parents.to(device)
    if operator == "verify_tree":
        out: Any = TreeVerdict.empty(batch)
        call: Callable[..., Any] = partial(verify_tree_triton, parents=at, method="traversal")
    else:
        out, call = KernelVerdict.empty(batch.num_requests, batch.slots, device), CHAINS[operator][0]
    call(batch, out=out)
    torch.cuda.synchronize()
    graph, wrong = torch.cuda.CUDAGraph(), 0
    with torch.cuda.graph(graph):
        call(batch, out=out)
    for _ in range(4):
        batch.target_logits.normal_(std=2)
        batch.noise.keys[:, 0].random_()  # pyright: ignore[reportAttributeAccessIssue]
        graph.replay()
        replayed = getattr(out, "verdict", out).emitted.clone()
        eager: Any = call(batch)
        wrong += int((getattr(eager, "verdict", eager).emitted != replayed).any(1).sum())
    return Check(4 * batch.num_requests, wrong, note="replays on 4 other inputs equal eager calls")


def _plus(one: Check, other: Check) -> Check:
    return Check(one.cases + other.cases, one.wrong + other.wrong, one.near_ties + other.near_ties)
