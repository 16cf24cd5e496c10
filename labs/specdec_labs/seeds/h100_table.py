"""Seed document 0's table of a 70B model on H100s: every cell recomputed."""

from dataclasses import dataclass

from specdec_core.hardware_presets import hardware
from specdec_core.model_shapes import model_shape
from specdec_core.roofline import fits, forward_time, forward_work, hbm_bytes_per_token, hbm_savings
from specdec_core.speed_formulas import expected_tokens, implied_alpha, speedup
from specdec_labs.seeds.finding import Finding, Verdict

DEVICES = 8
WEIGHTS_GB = 140.0
DRAFT_GB = 16.0


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row as printed. `drafting_gb` is what the row's traffic adds to the target's weights."""

    name: str
    gamma: int
    alpha: float | None
    tokens: float
    drafting_gb: float
    round_gb: float
    token_gb: float
    tokens_per_s: float
    speedup: float

    @property
    def expected(self) -> float:
        """Tokens a round that follow from the row's own alpha and gamma, i.i.d. and as a chain."""
        return 1.0 if self.alpha is None else float(expected_tokens(self.alpha, self.gamma))

    @property
    def implied(self) -> float | None:
        """The alpha that the printed tokens would need."""
        return None if self.alpha is None else implied_alpha(self.tokens, self.gamma)

    @property
    def traffic_ratio(self) -> float:
        """Plain traffic per token / this row's: no speed-up of a memory-bound device can exceed it."""
        return WEIGHTS_GB / self.token_gb

    @property
    def savings(self) -> float:
        """Share of the traffic saved, from the printed traffic per token."""
        return hbm_savings(WEIGHTS_GB, self.token_gb)


PLAIN = TableRow("plain", 0, None, 1.0, 0.0, 140.0, 140.0, 23.8, 1.0)
SPECULATIVE = (
    TableRow("draft model 8B", 5, 0.72, 3.54, 5 * DRAFT_GB, 220.0, 62.1, 53.6, 2.25),
    TableRow("Medusa, 4 heads", 4, 0.68, 3.12, 0.8, 140.8, 45.1, 68.4, 2.87),
    TableRow("EAGLE tree", 16, 0.81, 4.88, 2.4, 142.4, 29.2, 98.2, 4.12),
)
H100_TABLE = (PLAIN, *SPECULATIVE)


def plain_tokens_per_s(devices: int) -> float:
    """What `devices` H100s can read of 140 GB a second (modelled: memory alone)."""
    work = forward_work(model_shape("dense-70b"), 1, degree=devices)
    return 1 / forward_time(work, hardware("h100-sxm")).seconds


def modelled_row(row: TableRow, devices: int) -> dict[str, float]:
    """The row on so many H100s by the roofline: tokens from its alpha, time from its traffic; overhead is nothing."""
    seconds = row.round_gb * 1e9 / devices / hardware("h100-sxm").bytes_per_s
    plain = plain_tokens_per_s(devices)
    return {
        "tokens": row.expected,
        "gb_per_token": hbm_bytes_per_token(row.round_gb, row.expected),
        "tokens_per_s": row.expected / seconds,
        "speedup": row.expected / seconds / plain,
    }


def h100_findings() -> list[Finding]:
    """Every cell of the table, row by row."""
    findings = _plain_cells()
    for row in SPECULATIVE:
        findings += _token_cells(row) + _traffic_cells(row) + _speed_cells(row)
    return findings


def _cell(row: TableRow, column: str, quoted: str, recomputed: str, verdict: Verdict, why: str) -> Finding:
    return Finding(0, f"H100 table, {row.name}: {column}", quoted, recomputed, verdict, why)


def _plain_cells() -> list[Finding]:
    one, eight = plain_tokens_per_s(1), plain_tokens_per_s(DEVICES)
    shape, device = model_shape("dense-70b"), hardware("h100-sxm")
    does_fit = "fits" if fits(shape, device) else "does not fit"
    return [
        _cell(PLAIN, "gamma", "0", "0", "right", "plain decoding drafts nothing"),
        _cell(PLAIN, "alpha", "none", "none", "right", "nothing is tested"),
        _cell(PLAIN, "tokens per round", "1.0", "1.0", "right", "one pass, one token"),
        _cell(PLAIN, "traffic per round", "140 GB", "140 GB", "right", "70e9 weights of 2 bytes; no KV cache counted"),
        _cell(PLAIN, "traffic per token", "140 GB", "140 GB", "right", "140 / 1"),
        _cell(
            PLAIN,
            "throughput",
            "23.8 tok/s on 8 devices",
            f"{one:.1f} on one, {eight:.0f} on eight",
            "inconsistent",
            f"3.35 TB/s read 140 GB {one:.1f} times a second: that is ONE H100, on which 140 GB {does_fit} (80 GB)",
        ),
    ]


def _token_cells(row: TableRow) -> list[Finding]:
    chain = "at most " if row.gamma == 16 else ""
    return [
        _cell(row, "gamma", f"{row.gamma}", f"{row.gamma}", "right", "an input"),
        _cell(
            row,
            "alpha",
            f"{row.alpha}",
            f"{row.implied:.4f}" if row.gamma == 16 else f"{row.implied:.3f}",
            "inconsistent",
            f"the alpha that {row.tokens} tokens at gamma {row.gamma} would need",
        ),
        _cell(
            row,
            "tokens per round",
            f"{row.tokens}",
            f"{chain}{row.expected:.3f}",
            "inconsistent",
            f"(1 - a^{row.gamma + 1}) / (1 - a) with a = {row.alpha}"
            + ("; a chain of 16 is the most a tree of 16 nodes can be deep" if chain else ""),
        ),
    ]


def _traffic_cells(row: TableRow) -> list[Finding]:
    per_token = hbm_bytes_per_token(row.round_gb, row.tokens)
    from_alpha = hbm_bytes_per_token(row.round_gb, row.expected)
    total = WEIGHTS_GB + row.drafting_gb
    return [
        _cell(
            row, "traffic per round", f"{row.round_gb:g} GB", f"{total:.1f} GB", "right", f"140 + {row.drafting_gb:g}"
        ),
        _cell(
            row,
            "traffic per token",
            f"{row.token_gb} GB",
            f"{per_token:.1f} GB",
            "right",
            f"{row.round_gb:g} / {row.tokens}; with the tokens that alpha gives it is {from_alpha:.1f} GB",
        ),
    ]


def _speed_cells(row: TableRow) -> list[Finding]:
    ratio = row.tokens_per_s / PLAIN.tokens_per_s
    is_cut = round(ratio, 2) != row.speedup
    bound = f"the traffic allows at most {row.traffic_ratio:.2f}x"
    if row.gamma == 5:
        by_formula = speedup(row.alpha or 0, row.gamma, DRAFT_GB / WEIGHTS_GB)
        bound += f", which leaves no overhead at all; alpha, gamma and c = 16/140 give {by_formula:.2f}x"
    return [
        _cell(
            row,
            "throughput",
            f"{row.tokens_per_s} tok/s",
            f"{modelled_row(row, DEVICES)['tokens_per_s']:.0f} modelled on eight",
            "no source",
            "called empirical, with no source: a quoted figure, never a measurement of this project",
        ),
        _cell(
            row,
            "speed-up",
            f"{row.speedup}x",
            f"{ratio:.3f}x of the printed rates",
            "rounded" if is_cut else "inconsistent" if row.gamma == 5 else "right",
            bound + ("; cut off, not rounded" if is_cut else ""),
        ),
    ]
