"""The seed documents' thresholds beside the limits that the roofline gives for their own example."""

from specdec_core.hardware_presets import hardware
from specdec_core.model_shapes import model_shape
from specdec_core.roofline import ridge_intensity
from specdec_core.serving_gates import GATES, Gate, break_even_batch, gate_values
from specdec_core.speed_formulas import best_gamma, speedup
from specdec_core.step_costs import break_even_alpha, formula_costs
from specdec_labs.seeds.finding import Finding

GAMMA, ALPHA, DEGREE = 5, 0.72, 8


def threshold_findings() -> list[Finding]:
    """One finding a gate, for the 70B and 8B models on eight H100s with alpha 0.72 and gamma 5."""
    return [*(_finding(gate) for gate in GATES.values()), *_windows()]


def modelled_break_even() -> int:
    """The first batch at which the example's roofline speed-up is below 1."""
    target, draft = model_shape("dense-70b"), model_shape("dense-8b")
    return break_even_batch(target, draft, hardware("h100-sxm"), alpha=ALPHA, gamma=GAMMA, degree=DEGREE)


def modelled_break_even_alpha() -> float:
    """The alpha that breaks even at gamma 5 and c = 16/140 while a verify pass costs one step."""
    return break_even_alpha(formula_costs(16 / 140, GAMMA), GAMMA) or 0.0


def _windows() -> list[Finding]:
    best = best_gamma(ALPHA, 16 / 140)
    gain = speedup(ALPHA, best, 16 / 140)
    tree = best_gamma(0.81, 0.0, 1.0)
    return [
        Finding(
            0,
            "decision: window of a draft model",
            "4 or 5",
            f"best K = {best}, S = {gain:.3f} (alpha {ALPHA}, c = 16/140)",
            "rule of thumb",
            "the best window follows from alpha and c",
        ),
        Finding(
            0,
            "decision: window of a tree",
            "16 to 32 nodes",
            f"free drafts: the largest allowed ({tree})",
            "rule of thumb",
            "while rows are free more nodes never hurt; the ridge and the real verify pass set the limit",
        ),
        Finding(
            0,
            "decision: heads instead of a draft model",
            "below 8 GB spare a device",
            f"{16 / DEGREE:.0f} GB a device",
            "rule of thumb",
            f"16 GB of draft over {DEGREE} devices, its KV cache apart",
        ),
    ]


def _finding(gate: Gate) -> Finding:
    quoted = f"{gate.sense} {gate.limit:g}"
    return Finding(gate.document, f"gate: {gate.name}", quoted, _derived(gate), "rule of thumb", f"beyond: {gate.says}")


def _derived(gate: Gate) -> str:
    target, device = model_shape("dense-70b"), hardware("h100-sxm")
    match gate.quantity:
        case "batch":
            return f"modelled: slower from batch {modelled_break_even()} on (gamma {GAMMA}, alpha {ALPHA})"
        case "alpha":
            return f"modelled: slower below {modelled_break_even_alpha():.3f} (gamma {GAMMA}, c = 16/140)"
        case "intensity":
            one = gate_values(target, device, gamma=GAMMA, batch=1)["intensity"]
            rows = int(gate.limit / one)
            return f"ridge at {ridge_intensity(device):.0f}; {gate.limit:g} is batch {rows} at gamma {GAMMA}"
        case "memory_bound_share":
            full = gate_values(target, device, gamma=GAMMA, batch=64)["memory_bound_share"]
            return f"modelled: 1.00 up to the ridge, {full:.2f} at batch 64, gamma {GAMMA}"
        case "draft_cost":
            return "a gain at K = 1 needs alpha > c; the best K shrinks with c"
