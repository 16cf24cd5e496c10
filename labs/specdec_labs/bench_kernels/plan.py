"""What `specdec bench kernels` runs, most important first, so that a stop by the clock loses the least."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

OPERATORS = ("noise_words", "verify_chain", "verify_block", "verify_tree", "tree_attention", "kv_compact")
VOCABULARIES = (32_000, 49_152, 128_256, 151_936)
TREE_METHODS = ("recursive_without_replacement", "traversal", "target_only")
Kind = Literal["copy", "check", "time"]


@dataclass(frozen=True, slots=True)
class Case:
    """Sizes of one measurement.

    Attributes:
        operator: one of `OPERATORS`, or "copy".
        variant: verify_chain, verify_block: "logits" or "none" (deterministic drafts); verify_tree: the method;
            tree_attention: "contiguous" or "paged".
        requests: B.
        nodes: drafts of a chain, nodes of a tree, rows of an attention call.
        vocab: V; 0 where there is none.
        prefix: positions before the tree.
    """

    operator: str
    variant: str = ""
    requests: int = 1
    nodes: int = 4
    vocab: int = 0
    prefix: int = 0

    @property
    def label(self) -> str:
        """For people: "verify_chain logits B=16 K=4 V=128256"."""
        nodes = "K" if self.operator in ("verify_chain", "verify_block") else "N"
        sizes = [f"B={self.requests}", f"{nodes}={self.nodes}"]
        sizes += [f"V={self.vocab}"] * bool(self.vocab) + [f"prefix={self.prefix}"] * bool(self.prefix)
        return " ".join([self.operator, *([self.variant] if self.variant else []), *sizes])


@dataclass(frozen=True, slots=True)
class Job:
    """One step of the run: the copy bandwidth, a check of an operator, or the time of one arm on one case.

    `seconds` is what the job may be expected to take at most, compilation included: with less left it is not begun.
    """

    kind: Kind
    case: Case
    arm: str = ""
    seconds: float = 5.0

    @property
    def label(self) -> str:
        """For people."""
        if self.kind == "copy":
            return "copy bandwidth"
        return f"check {self.case.operator} {self.arm}" if self.kind == "check" else f"{self.case.label}: {self.arm}"


CHAIN = Case("verify_chain", "logits", requests=16, nodes=4, vocab=128_256)
BLOCK = replace(CHAIN, operator="verify_block")
TREE = Case("verify_tree", TREE_METHODS[0], requests=16, nodes=16, vocab=128_256)
ATTENTION = Case("tree_attention", "contiguous", requests=1, nodes=64, prefix=8192)
PAGED = replace(ATTENTION, variant="paged", requests=16)
COMPACT = Case("kv_compact", requests=16, nodes=16)
HEADLINES = (
    CHAIN, replace(CHAIN, requests=1), replace(CHAIN, requests=64), BLOCK, replace(BLOCK, requests=1), TREE,
    replace(TREE, requests=1), ATTENTION, PAGED, COMPACT,
)  # fmt: skip
PEERS = {
    "verify_chain": ("vllm", "vllm-v1", "flashinfer", "flashinfer+softmax"),
    "verify_block": ("vllm",),
    "tree_attention": ("flashinfer",),
}
COMPILED = ("verify_chain", "verify_block", "tree_attention", "kv_compact")
"""Operators whose torch form torch.compile can take whole; that of trees asks the host where to go on."""


def full_plan() -> list[Job]:
    """The run on a GPU: bandwidth, checks, headline cases, sweeps, torch.compile, the rest."""
    jobs = [Job("copy", Case("copy"), seconds=5), *_checks(25)]
    for case in HEADLINES:
        jobs += [Job("time", case, arm, 8) for arm in ("triton", "torch", *PEERS.get(case.operator, ()))]
    # compilation takes most of a minute; two answers are worth it before the sweeps
    jobs += [Job("time", case, "torch.compile", 40) for case in (replace(CHAIN, requests=1), CHAIN)]
    jobs += [Job("time", case, arm) for case in _sweeps() for arm in ("triton", "torch")]
    jobs += [Job("time", case, "torch.compile", 40) for case in HEADLINES if case.operator in COMPILED]
    jobs += [Job("time", case, arm) for case in _rest() for arm in ("triton", "torch")]
    jobs += [Job("time", case, arm) for case in _sweeps() for arm in PEERS.get(case.operator, ())]
    return list(dict.fromkeys(jobs))


def smoke_plan() -> list[Job]:
    """The same path with sizes that the interpreter runs in seconds."""
    chain = Case("verify_chain", "logits", requests=2, nodes=2, vocab=16)
    tree = Case("verify_tree", TREE_METHODS[0], requests=2, nodes=4, vocab=16)
    attention = Case("tree_attention", "paged", requests=1, nodes=4, prefix=8)
    compact = Case("kv_compact", requests=2, nodes=16)
    jobs = [Job("copy", Case("copy")), *_checks(60)]
    for case in (chain, replace(chain, operator="verify_block"), tree, attention, compact):
        jobs += [Job("time", case, arm) for arm in ("triton", "torch", *PEERS.get(case.operator, ()))]
    return [*jobs, Job("time", chain, "torch.compile", 40)]


def _checks(seconds: float) -> Iterator[Job]:
    arms = {
        "noise_words": ("last",),
        "verify_chain": ("last", "v1", "v2", "graph"),
        "verify_block": ("last", "v1", "graph"),
        "verify_tree": (*TREE_METHODS, "graph"),
        "tree_attention": ("last", "v1"),
        "kv_compact": ("last", "v1"),
    }
    # every operator's last version before any early one
    later = ("v1", "v2", "graph")
    for wanted in (False, True):
        for operator, names in arms.items():
            yield from (Job("check", Case(operator), name, seconds) for name in names if (name in later) == wanted)


def _sweeps() -> Iterator[Case]:
    """One axis at a time from the headline case, then the corners."""
    for base in (CHAIN, BLOCK):
        yield from (replace(base, requests=requests) for requests in (1, 4, 64, 256))
        yield from (replace(base, vocab=vocab) for vocab in VOCABULARIES)
        yield from (replace(base, nodes=nodes) for nodes in (1, 2, 8, 16))
    yield replace(CHAIN, variant="none")
    yield replace(CHAIN, requests=1, nodes=1, vocab=32_000)
    yield replace(CHAIN, requests=256, nodes=16, vocab=151_936)
    for method in TREE_METHODS:
        for nodes in (16, 32, 64):
            yield from (replace(TREE, variant=method, nodes=nodes, requests=requests) for requests in (1, 16))
    for prefix in (1024, 8192, 32_768):
        for requests in (1, 16):
            yield from (replace(ATTENTION, prefix=prefix, requests=requests, nodes=rows) for rows in (16, 64))
            yield replace(PAGED, prefix=prefix, requests=requests)
    yield from (replace(COMPACT, requests=requests) for requests in (1, 4, 64, 256))


def _rest() -> Iterator[Case]:
    """Every combination of V, B and K for chains and blocks that no sweep had."""
    for base in (CHAIN, BLOCK, replace(CHAIN, variant="none")):
        for vocab in VOCABULARIES:
            for nodes in (1, 2, 4, 8, 16):
                sizes = (1, 4, 16, 64, 256)
                yield from (replace(base, vocab=vocab, nodes=nodes, requests=requests) for requests in sizes)
