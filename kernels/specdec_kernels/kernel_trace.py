"""What a call of the verification kernels did, program by program: for notebooks and the kernel stepper.

The kernels leave the number of the reading program beside every score they read (`Reads` with `by_program`); between
launches that is collected. So a trace holds what happened, under the interpreter or on a GPU, and no property of
Triton is looked into. Made for batches that one can look at: a few requests, a small vocabulary.

    TRITON_INTERPRET=1 python -m specdec_kernels.kernel_trace
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
import itertools
from typing import Any, Literal

import torch
from torch import Tensor

from specdec_kernels.chain_launch import LaunchConfig, Reads
from specdec_kernels.verify_batch import KernelVerdict, VerifyBatch
from specdec_kernels.verify_block import verify_block_triton
from specdec_kernels.verify_chain import verify_chain_triton
from specdec_kernels.verify_tree import verify_tree_triton

FORMAT = 1
MOST_PROGRAMS = 20_000
Side = Literal["target", "draft"]
MODES = ("recover", "bonus", "greedy")
_RULES = {"chain": (verify_chain_triton, 3), "block": (verify_block_triton, 2)}


@dataclass(frozen=True, slots=True)
class RowRead:
    """Tokens first .. last of one row that a program read, `scores` of them (each once, however often it looked).

    Attributes:
        side: which logits.
        request, row: whose row, numbered within the request: 0 belongs to the pending token, a draft row to its draft.
    """

    side: Side
    request: int
    row: int
    first: int
    last: int
    scores: int


@dataclass(frozen=True, slots=True)
class ProgramTrace:
    """One program: its id on each axis of the grid, and what it read."""

    id: tuple[int, ...]
    reads: tuple[RowRead, ...]


@dataclass(frozen=True, slots=True)
class LaunchTrace:
    """One launch.

    Attributes:
        kernel: its name.
        grid: programs on each axis.
        rows, block: the tile of a program: rows at a time, and tokens of each; block 0 where no token is owned.
        programs: all of them, in order.
    """

    kernel: str
    grid: tuple[int, ...]
    rows: int
    block: int
    programs: tuple[ProgramTrace, ...]

    def masked(self, program: ProgramTrace, side: Side = "target") -> int | None:
        """Lanes of a program's tile that read nothing of `side`: behind the vocabulary, or of rows not wanted.

        None where a program owns no tokens.
        """
        if self.block == 0:
            return None
        return self.rows * self.block - sum(read.scores for read in program.reads if read.side == side)


@dataclass(frozen=True, slots=True)
class BlockWinner:
    """The best of one vocabulary block in the race: the largest weight / E, -1 where no weight is positive."""

    block: int
    token: int
    score: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for one request.

    Attributes:
        mode: recover (a draft was refused), bonus (none was) or greedy (nothing is drawn).
        row: the row that the next token comes from.
        num_accepted, next_token, emitted: the verdict, without padding.
        path: the accepted nodes; of a chain 0 .. num_accepted - 1.
        winners: of each block in the race; empty where nothing was drawn, and for target_only (a race each level).
    """

    request: int
    mode: str
    row: int
    num_accepted: int
    next_token: int
    emitted: tuple[int, ...]
    path: tuple[int, ...]
    winners: tuple[BlockWinner, ...]


@dataclass(frozen=True, slots=True)
class KernelTrace:
    """A whole call. `rule` is "chain", "block" or a method of `verify_tree`; `version` that of the kernels."""

    rule: str
    version: int
    requests: int
    vocab: int
    temperatures: tuple[float, ...]
    draft_tokens: tuple[tuple[int, ...], ...]
    launches: tuple[LaunchTrace, ...]
    decisions: tuple[Decision, ...]

    def scores_read(self) -> Counter[tuple[Side, int, int]]:
        """How many scores were read of each (side, request, row), over all launches."""
        total: Counter[tuple[Side, int, int]] = Counter()
        for read in (read for launch in self.launches for program in launch.programs for read in program.reads):
            total[read.side, read.request, read.row] += read.scores
        return total

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"format": FORMAT, **asdict(self)}


def trace_kernels(
    batch: VerifyBatch,
    rule: str,
    parents: Tensor | None = None,
    *,
    max_passes: int | None = None,
    config: LaunchConfig | None = None,
) -> tuple[KernelVerdict, KernelTrace]:
    """Runs the last version of a kernel and gives its verdict and trace.

    Needs a CUDA device or TRITON_INTERPRET=1. `parents` and `max_passes` are those of `verify_tree`, for its methods
    alone. `config` cuts rows into blocks; left out, a small vocabulary is one block and many requests share a program.

    Raises:
        ValueError: an unknown rule, parents for a chain or none for a tree, more programs than one would look at.
    """
    if (rule in _RULES) != (parents is None):
        raise ValueError(
            f"rule is {rule!r} and parents is {'not ' if parents is None else ''}given; trees have parents"
        )
    recorder = _Recorder(batch)
    options: dict[str, Any] = {"config": config, "reads": recorder.reads, "watch": recorder}
    if parents is None:
        kernel, version = _RULES[rule]
        verdict, path = kernel(batch, **options), None
    else:
        method: Any = rule
        found = verify_tree_triton(batch, parents, method=method, max_passes=max_passes, **options)
        verdict, path, version = found.verdict, found.path, 2
    return verdict, recorder.trace(rule, version, verdict, path)


class _Recorder:
    """Collects after each launch what its programs have read."""

    def __init__(self, batch: VerifyBatch) -> None:
        self.batch, self.reads = batch, Reads.of(batch, by_program=True)
        self.launches: list[LaunchTrace] = []
        self.winners: tuple[list[list[float]], list[list[int]]] = ([], [])
        counts = batch.cu_num_draft.diff().tolist()
        self._target_owner = [(request, row) for request, count in enumerate(counts) for row in range(count + 1)]
        self._draft_owner = [(request, row) for request, count in enumerate(counts) for row in range(count)]

    def __call__(self, call: Any, kernel: str, grid: tuple[int, ...], constants: Mapping[str, Any]) -> None:
        programs = 1
        for size in grid:
            programs *= size
        if programs > MOST_PROGRAMS:
            raise ValueError(f"{kernel} has {programs} programs; a trace takes {MOST_PROGRAMS} - give a smaller batch")
        found: dict[int, list[RowRead]] = {}
        self._collect("target", self.reads.target, self._target_owner, found)
        self._collect("draft", self.reads.draft, self._draft_owner, found)
        ids = itertools.product(*map(range, grid))
        traced = tuple(ProgramTrace(id_, tuple(found.get(number, ()))) for number, id_ in enumerate(ids))
        rows, block = constants.get("ROWS", 1), constants.get("BLOCK", 0)
        self.launches.append(LaunchTrace(kernel, tuple(grid), rows, block, traced))
        if kernel in ("race_kernel", "tree_race_kernel"):
            self.winners = self._race(call)

    def trace(self, rule: str, version: int, verdict: KernelVerdict, path: Tensor | None) -> KernelTrace:
        """Everything collected."""
        batch, offsets = self.batch, self.batch.cu_num_draft.tolist()
        tokens = batch.draft_tokens.tolist()
        return KernelTrace(
            rule,
            version,
            batch.num_requests,
            batch.vocab,
            tuple(batch.temperature.tolist()),
            tuple(tuple(tokens[first:last]) for first, last in itertools.pairwise(offsets)),
            tuple(self.launches),
            tuple(self._decision(request, verdict, path) for request in range(batch.num_requests)),
        )

    def _collect(
        self, side: Side, marks: Tensor | None, owner: list[tuple[int, int]], found: dict[int, list[RowRead]]
    ) -> None:
        """Moves the marks of one side to `found`, by program from 0 on."""
        if marks is None:
            return
        for place in (marks > 0).any(1).nonzero()[:, 0].tolist():
            marked, (request, row) = marks[place], owner[place]
            for number in marked.unique().tolist():
                if number > 0:
                    tokens = (marked == number).nonzero()[:, 0].tolist()
                    read = RowRead(side, request, row, tokens[0], tokens[-1], len(tokens))
                    found.setdefault(number - 1, []).append(read)
        marks.zero_()

    def _race(self, call: Any) -> tuple[list[list[float]], list[list[int]]]:
        """Scores and tokens of each request's blocks: of the weights, or of p where no weight was left."""
        scores, tokens = call.scores.clone(), call.winners.clone()
        empty = (scores[0] < 0).all(1)
        return (
            torch.where(empty[:, None], scores[1], scores[0]).tolist(),
            torch.where(empty[:, None], tokens[1], tokens[0]).tolist(),
        )

    def _decision(self, request: int, verdict: KernelVerdict, path: Tensor | None) -> Decision:
        kept, is_greedy = int(verdict.num_accepted[request]), float(self.batch.temperature[request]) < 1e-5
        nodes = tuple(range(kept)) if path is None else tuple(path[request, :kept].tolist())
        mode = "greedy" if is_greedy else "bonus" if bool(verdict.is_bonus[request]) else "recover"
        scores, tokens = self.winners
        races = zip(tokens[request], scores[request]) if scores and not is_greedy else ()
        return Decision(
            request,
            mode,
            nodes[-1] + 1 if nodes else 0,
            kept,
            int(verdict.next_token[request]),
            tuple(verdict.emitted[request, : kept + 1].tolist()),
            nodes,
            tuple(BlockWinner(block, token, score) for block, (token, score) in enumerate(races)),
        )


def example() -> KernelTrace:
    """Two requests with three drafts each over eleven tokens, in blocks of eight: printed, and given back."""
    from specdec_kernels.chain_benchmark import random_batch

    batch = random_batch(2, [-1, 0, 1], 11, torch.float32, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    _, trace = trace_kernels(batch, "chain", config=LaunchConfig(stats_block=8, race_block=8))
    for launch in trace.launches:
        print(f"{launch.kernel}, grid {launch.grid}")
        for program in launch.programs:
            reads = [
                f"{read.side} row {read.row} of request {read.request}, tokens {read.first}-{read.last}"
                for read in program.reads
            ]
            print(f"  program {program.id}: {'; '.join(reads) or 'reads no logit'}")
    for decision in trace.decisions:
        winners = ", ".join(f"token {best.token} ({best.score:.2f})" for best in decision.winners)
        print(f"request {decision.request}: {decision.num_accepted} drafts kept, {decision.mode} {decision.next_token}")
        print(f"  best of each block: {winners}")
    return trace


if __name__ == "__main__":
    example()
