"""The kernels whose law is certified, and the mutants that the certificate has to reject."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
import os

from torch import Tensor

from specdec_kernels.chain_launch import LaunchConfig
from specdec_kernels.verify_batch import KernelVerdict, VerifyBatch
from specdec_kernels.verify_block import verify_block_triton
from specdec_kernels.verify_chain import verify_chain_triton
from specdec_kernels.verify_tree import TreeKernelMethod, verify_tree_triton
from specdec_labs.kernel_law.drafting import Proposal
from specdec_labs.kernel_law.pair import COIN, MEMORY, PREFIX, Pair
from specdec_labs.kernel_law.texts import CHAIN, TREES, Kernel, KernelTexts

_ROWS = 8192
"""Requests a program at most: the interpreter takes hardly longer for thousands than for one."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """Which function of the kernels is exchanged for which.

    Attributes:
        about: the mistake, in words.
        modules: of `specdec_kernels`, where the function is looked up.
        function: its name, there and in `source`.
        source: the module of `specdec_labs.kernel_law` that has the wrong one.
    """

    about: str
    modules: tuple[str, ...]
    function: str
    source: str

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The kernels run with the wrong function inside. For the interpreter alone.

        Raises:
            ValueError: TRITON_INTERPRET is not set.
        """
        check_interpreted()
        wrong = getattr(import_module(f"specdec_labs.kernel_law.{self.source}"), self.function)
        homes = [import_module(f"specdec_kernels.{module}") for module in self.modules]
        right = [getattr(home, self.function) for home in homes]
        try:
            for home in homes:
                setattr(home, self.function, wrong)
            yield
        finally:
            for home, function in zip(homes, right):
                setattr(home, self.function, function)


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel with the drafts it is given.

    Attributes:
        name: short.
        kernel: what verifies.
        proposal, shapes: the drafts.
        pair: the target and the draft.
        mutant: what is planted, None for the kernel as it is.
        keeps_law: whether the texts should have the target's law.
    """

    name: str
    kernel: Kernel
    proposal: Proposal
    shapes: tuple[tuple[int, ...], ...]
    pair: Pair = MEMORY
    mutant: Mutant | None = None
    keeps_law: bool = True

    def texts(self) -> KernelTexts:
        """A sampler."""
        return KernelTexts(self.kernel, self.pair, self.proposal, self.shapes)


REUSED_NOISE = Mutant(
    "the recovery reads the noise of the draft",
    ("race_triton", "tree_laws_triton"),
    "tile_exponentials",
    "noise_mutants_triton",
)
POSITION_KEYS = Mutant(
    "acceptance coins are keyed by position", ("decision_triton",), "accept_uniforms", "noise_mutants_triton"
)
STALE_ROW = Mutant(
    "the residual takes q from the row before", ("race_triton",), "race_kernel", "residual_mutants_triton"
)
UNSCALED = Mutant(
    "the residual is not scaled by the prefix weight", ("verify_block_triton",), "store_plan", "residual_mutants_triton"
)
STALE_LAW = Mutant(
    "the draw takes the law before the last refusal", ("tree_walk_triton",), "after_refusal", "residual_mutants_triton"
)


def _config(batch: VerifyBatch) -> LaunchConfig:
    return LaunchConfig(8, 8, min(_ROWS, 1 << (batch.num_requests - 1).bit_length()))


def chain(batch: VerifyBatch, parents: Tensor) -> KernelVerdict:
    """`verify_chain`, last version."""
    return verify_chain_triton(batch, config=_config(batch))


def block(batch: VerifyBatch, parents: Tensor) -> KernelVerdict:
    """`verify_block`, last version."""
    return verify_block_triton(batch, config=_config(batch))


def tree(
    batch: VerifyBatch, parents: Tensor, *, method: TreeKernelMethod, max_passes: int | None = None
) -> KernelVerdict:
    """`verify_tree`, last version."""
    options = {"method": method, "max_passes": max_passes, "config": _config(batch)}
    return verify_tree_triton(batch, parents, **options).verdict


def _tree(name: str, method: TreeKernelMethod, proposal: Proposal, max_passes: int | None = None) -> Subject:
    return Subject(name, partial(tree, method=method, max_passes=max_passes), proposal, TREES)


def right_kernels() -> tuple[Subject, ...]:
    """Every kernel with every kind of drafts, and again on the pairs of the mutants."""
    without: Proposal = "without_replacement"
    return (
        Subject("chain", chain, "iid", CHAIN),
        Subject("chain-deterministic", chain, "deterministic", CHAIN),
        Subject("block", block, "iid", CHAIN),
        Subject("block-deterministic", block, "deterministic", CHAIN),
        Subject("block-prefix", block, "iid", CHAIN, PREFIX),
        Subject("block-coin", block, "deterministic", CHAIN, COIN),
        _tree("recursive", "recursive", "iid"),
        _tree("recursive-deterministic", "recursive", "deterministic"),
        _tree("recursive-without-replacement", "recursive_without_replacement", without),
        _tree("recursive-without-replacement-1-pass", "recursive_without_replacement", without, 1),
        _tree("target-only", "target_only", "deterministic"),
        _tree("target-only-1-level", "target_only", "iid", 1),
        _tree("traversal", "traversal", "iid"),
        _tree("traversal-deterministic", "traversal", "deterministic"),
        _tree("traversal-without-replacement", "traversal_without_replacement", without),
        _tree("traversal-without-replacement-1-pass", "traversal_without_replacement", without, 1),
    )


def mutant_kernels() -> tuple[Subject, ...]:
    """Each mistake, on a pair where it matters; and chain verification with coins by position, which does no harm."""
    of_tree = partial(tree, method="recursive_without_replacement")
    return (
        Subject("chain-reused-noise", chain, "iid", CHAIN, MEMORY, REUSED_NOISE, False),
        Subject("block-position-keys", block, "deterministic", CHAIN, COIN, POSITION_KEYS, False),
        Subject("chain-position-keys", chain, "deterministic", CHAIN, COIN, POSITION_KEYS, True),
        Subject("chain-stale-row", chain, "iid", CHAIN, MEMORY, STALE_ROW, False),
        Subject("block-unscaled", block, "iid", CHAIN, PREFIX, UNSCALED, False),
        Subject("tree-stale-law", of_tree, "without_replacement", TREES, MEMORY, STALE_LAW, False),
    )


def subjects() -> tuple[Subject, ...]:
    """All of them."""
    return right_kernels() + mutant_kernels()


def check_interpreted() -> None:
    """ValueError unless Triton is there and its kernels are interpreted."""
    if find_spec("triton") is None:
        raise ValueError("triton is not installed; it has wheels for Linux: pip install 'specdec-lab[gpu]'")
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError("TRITON_INTERPRET is not set; set it to 1 before Python starts: the kernels are interpreted")
