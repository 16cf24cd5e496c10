"""Costs of speculation in one place: hardware, roofline, cost curves, prices of a round, predictions.

A shop window; the parts are in the modules named below.
"""

from specdec_core.cost_curve import CostCurve, CurveMeter
from specdec_core.hardware_presets import HARDWARE, Hardware, hardware, hardware_names
from specdec_core.model_shapes import SHAPES, ModelShape, model_shape
from specdec_core.prediction import Prediction, RoundPrices, TraceStats, predict
from specdec_core.roofline import (
    ForwardWork,
    RooflineTime,
    fits,
    forward_time,
    forward_work,
    hbm_bytes_per_token,
    hbm_savings,
    ridge_intensity,
    ridge_rows,
    round_bytes,
)
from specdec_core.step_costs import (
    SpeedupMap,
    StepCosts,
    best_gamma_of,
    break_even_alpha,
    curve_costs,
    formula_costs,
    roofline_costs,
    speedup_map,
)

__all__ = [
    "HARDWARE",
    "SHAPES",
    "CostCurve",
    "CurveMeter",
    "ForwardWork",
    "Hardware",
    "ModelShape",
    "Prediction",
    "RooflineTime",
    "RoundPrices",
    "SpeedupMap",
    "StepCosts",
    "TraceStats",
    "best_gamma_of",
    "break_even_alpha",
    "curve_costs",
    "fits",
    "formula_costs",
    "forward_time",
    "forward_work",
    "hardware",
    "hardware_names",
    "hbm_bytes_per_token",
    "hbm_savings",
    "model_shape",
    "predict",
    "ridge_intensity",
    "ridge_rows",
    "roofline_costs",
    "round_bytes",
    "speedup_map",
]
