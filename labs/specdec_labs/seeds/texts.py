"""The figures in the running text of the three seed documents, and the claims that contradict each other."""

from collections.abc import Iterator

from specdec_core.draft import DraftTree
from specdec_core.hardware_presets import hardware
from specdec_core.model_shapes import model_shape
from specdec_core.roofline import forward_work, ridge_rows
from specdec_core.speed_formulas import (
    best_gamma,
    expected_accepted,
    expected_tokens,
    expected_tokens_of_tree,
    implied_alpha,
    speedup,
)
from specdec_labs.seeds.finding import Finding, Verdict
from specdec_labs.seeds.h100_table import SPECULATIVE

ROW_MS, PASS_MS, DRAFT_MS = 40.0, 45.0, 3.0


def text_findings() -> list[Finding]:
    """All of them, by document."""
    return [*_document_0(), *_document_1(), *_document_3()]


def read_ms(gigabytes: float, tb_per_s: float) -> float:
    """Milliseconds to read so much once."""
    return gigabytes / tb_per_s


def walk_speedup(tokens: int) -> float:
    """Document 1's picture: `tokens` plain steps of 40 ms against one round of 3 + 45 ms."""
    return tokens * ROW_MS / (PASS_MS + DRAFT_MS)


def tree_counts(branching: int, depth: int) -> tuple[int, int]:
    """(leaf paths, nodes besides the root) of a full tree."""
    parents, level = [], [-1]
    for _ in range(depth):
        first = len(parents)
        parents += [parent for parent in level for _ in range(branching)]
        level = list(range(first, len(parents)))
    tree = DraftTree((0,) * len(parents), tuple(parents))
    return sum(not tree.children(node) for node in range(len(tree))), len(tree)


def _document_0() -> Iterator[Finding]:
    h100 = hardware("h100-sxm")
    intensity = forward_work(model_shape("dense-70b"), 1).arithmetic_intensity
    yield Finding(0, "arithmetic intensity of one row", "near 1", f"{intensity:.2f}", "right", "2 FLOPs per 2 bytes")
    yield Finding(
        0,
        "rows that cost about one step",
        "up to 64",
        f"ridge at {ridge_rows(h100):.0f} rows",
        "right",
        "H100, 16 bits, batch 1; the ridge counts the rows of the whole batch",
    )
    eagle = SPECULATIVE[-1]
    yield Finding(
        0, "EAGLE: traffic saved", "79.1 %", f"{100 * eagle.savings:.1f} %", "right", "1 - 29.2 / 140, printed tokens"
    )
    yield Finding(0, "size of the 8B draft", "16 GB", f"{8e9 * 2 / 1e9:.0f} GB", "right", "8e9 weights of 2 bytes")
    yield Finding(
        0,
        "size of the Medusa heads",
        "0.8 GB",
        f"{100 * 0.8 / 140:.2f} % of 140 GB",
        "inconsistent",
        "seed document 1 says about 2 %, which would be 2.8 GB",
    )
    yield from _claims_of_document_0()


def _claims_of_document_0() -> Iterator[Finding]:
    yield Finding(
        0,
        "acceptance test",
        "u <= a(x)",
        "u < p/q",
        "wrong",
        "u is uniform on [0, 1): at u = 0 only the strict form refuses a token with p = 0; document 3 has it right",
    )
    yield Finding(
        0,
        "what EAGLE is",
        "heads on the target's features",
        "one decoder layer over them, with a small KV cache",
        "inconsistent",
        "seed document 1 calls it a small draft model with a cache of its own",
    )
    yield Finding(
        0,
        "what Medusa head k predicts",
        "t + k + 1",
        "t + k + 1",
        "right",
        "the base head predicts t + 1 (the paper); seed document 3 says t + k",
    )


def _document_1() -> Iterator[Finding]:
    yield Finding(
        1,
        "reading 140 GB at 3.35 TB/s",
        "41.7 ms",
        f"{read_ms(140, 3.35):.1f} ms",
        "rounded",
        f"{read_ms(140, 3.35):.2f} ms, cut off",
    )
    peak = hardware("h100-sxm").peak("float16")
    yield Finding(1, "H100 arithmetic", "nearly 1,000 TFLOP/s", f"{peak / 1e12:.1f}", "right", "dense, 16 bits")
    yield Finding(1, "four plain steps", "160 ms", f"{4 * ROW_MS:.0f} ms", "right", "4 x 40")
    yield Finding(1, "one round", "48 ms", f"{PASS_MS + DRAFT_MS:.0f} ms", "right", "3 + 45")
    yield Finding(
        1,
        "speed-up with 4 drafts accepted",
        "3.3x",
        f"{walk_speedup(5):.2f}x",
        "wrong",
        f"the bonus token is forgotten: 5 tokens, 200 / 48; with 4 it would be {walk_speedup(4):.2f}x",
    )
    yield Finding(
        1, "drafting four tokens", "3 ms", "an assumption", "no source", "heads in one step; a draft model needs four"
    )
    yield Finding(1, "speed-up in production", "2.2x to 3.1x", "-", "no source", "not to be recomputed")
    yield Finding(1, "greedy decoding", "above 85 %, 2.8x to 3.2x", "-", "no source", "not to be recomputed")
    yield from _eight_candidates()
    yield from _comparison()
    yield from _code()


def _eight_candidates() -> Iterator[Finding]:
    # two candidates on each of four levels below the accepted one: 1 + 4 a = tokens as a chain of levels
    needed = implied_alpha(4.5, 4)
    as_tokens = implied_alpha(3.5, 4)
    most = expected_tokens_of_tree([-1, 0, 1, 2], [1.0] * 4)
    yield Finding(
        1,
        "8 candidates on 4 levels",
        "3.5 tokens a pass",
        f"a = {as_tokens:.3f} a level, or {needed:.3f} if 3.5 are drafts",
        "no source",
        f"it does not say which is meant; four levels emit at most {most:.0f} tokens",
    )


def _comparison() -> Iterator[Finding]:
    """The table of draft model against Medusa, cell by cell; what is no figure is said so."""
    no_figure = "no figure in it"
    cells: tuple[tuple[str, str, str, Verdict, str], ...] = (
        ("footprint, draft model", "target + 1B", no_figure, "right", "two sets of weights"),
        ("footprint, Medusa", "about 2 %", "0.57 % by document 0's 0.8 GB", "inconsistent", "0.8 / 140"),
        ("KV cache, draft model", "two caches", no_figure, "right", "a draft model has its own"),
        ("KV cache, Medusa", "one cache", no_figure, "right", "the heads have none"),
        ("latency, draft model", "adds up step by step", "gamma c", "right", "gamma steps one after the other"),
        ("latency, Medusa", "one step", no_figure, "right", "all heads read one hidden state"),
        ("acceptance, draft model", "70-85 %", "-", "no source", "nor does it say accepted / tested or / drafted"),
        ("acceptance, Medusa", "60-78 %", "-", "no source", "the same"),
        ("complexity, draft model", "two models", no_figure, "right", "an opinion beside it"),
        ("complexity, Medusa", "one engine", no_figure, "right", "an opinion beside it"),
        (
            "EAGLE among the draft models",
            "small draft model, two KV caches",
            "one decoder layer over the target's features",
            "inconsistent",
            "seed document 0 has it among the heads",
        ),
    )
    for place, quoted, recomputed, verdict, why in cells:
        yield Finding(1, f"comparison table: {place}", quoted, recomputed, verdict, why)


def _code() -> Iterator[Finding]:
    """The verification function; each fault is shown by a test."""
    cells = (
        ("indexing by token", "q[:, i, token]", "a [batch, batch] block", "gather takes one entry a row"),
        ("stopping", ".all() over the batch", "each row stops for itself", "all rows wait for the unluckiest"),
        (
            "after a refusal",
            "all rows redrawn",
            "only the refused rows",
            "rows that accepted get a residual draw: biased",
        ),
        ("returned count", "one number", "one number a row", "rows accept different numbers"),
        ("residual", "divided by its sum", "p where the sum is 0", "p = q leaves nothing: 0 / 0"),
        ("clamp", "q at least 1e-7", "u * q < p", "the ratio is wrong where q is smaller"),
    )
    for place, quoted, recomputed, why in cells:
        yield Finding(1, f"code: {place}", quoted, recomputed, "wrong", why)


def _document_3() -> Iterator[Finding]:
    yield Finding(3, "reading 140 GB at 2 TB/s", "70 ms", f"{read_ms(140, 2):.0f} ms", "right", "140 / 2")
    yield Finding(3, "1,000 tokens of it", "70 s", f"{read_ms(140, 2):.0f} s", "right", "memory alone")
    tokens = float(expected_tokens(0.8, 5))
    yield Finding(3, "example: tokens per round", "3.69", f"{tokens:.3f}", "right", "a = 0.8, K = 5")
    yield Finding(3, "example: cost of a round", "1.25", f"{1 + 5 * 0.05:.2f}", "right", "1 + 5 x 0.05")
    yield Finding(3, "example: speed-up", "2.95x", f"{speedup(0.8, 5, 0.05):.3f}x", "right", "3.689 / 1.25")
    yield Finding(
        3,
        "accepted at a = 0.5",
        "1 for any K above 3",
        f"{expected_accepted(0.5, 4):.4f} at K = 4",
        "rounded",
        "1 is the limit, a / (1 - a)",
    )
    yield Finding(
        3, "what Medusa head k predicts", "t + k", "t + k + 1", "wrong", "the base head predicts t + 1 (the paper)"
    )
    yield Finding(
        3,
        "draft cost that is too much",
        "c above 0.2",
        "alpha above c",
        "rule of thumb",
        "gain needs alpha > c at K = 1",
    )
    yield from _exercises()


def _exercises() -> Iterator[Finding]:
    lengths = (4, 8, 16)
    kept = " / ".join(f"{expected_accepted(0.7, k):.4f}" for k in lengths)
    emitted = " / ".join(f"{expected_tokens(0.7, k):.4f}" for k in lengths)
    yield Finding(3, "exercise 1: accepted, K = 4, 8, 16", "(asked)", kept, "right", f"a = 0.7; tokens {emitted}")
    yield Finding(
        3, "exercise 2: the residual is a law", "(asked)", "non-negative, sums to 1", "right", "unless p = q: then p"
    )
    best = best_gamma(0.9, 1 / 20)
    near = ", ".join(f"K = {k}: {speedup(0.9, k, 1 / 20):.4f}" for k in (best - 1, best + 1))
    gain = speedup(0.9, best, 1 / 20)
    yield Finding(
        3, "exercise 3: best K", "(asked)", f"K = {best}, S = {gain:.4f}", "right", f"a = 0.9, c = 1/20; {near}"
    )
    yield Finding(
        3, "exercise 4: why memory-bound", "(asked)", "rows below the ridge are almost free", "right", "the roofline"
    )
    leaves, nodes = tree_counts(3, 4)
    yield Finding(
        3, "exercise 5: branching 3, depth 4", "(asked)", f"{leaves} paths", "right", f"{nodes} nodes besides the root"
    )
