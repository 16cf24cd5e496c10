"""The roofline explorer's view model: the seeds' figures, the ridge, and what a pass waits for."""

import json
from typing import Any

import pytest

from specdec_core.hardware_presets import hardware
from specdec_labs.widgets.roofline import static_roofline, view_model


def test_one_token_of_70b_on_one_h100_takes_what_reading_140_gb_takes() -> None:
    view = view_model({"devices": 1, "context": 0})
    one = view["passes"][0]
    # Llama 3 70B has 69.5e9 weights that a pass reads, the seeds round to 140 GB and 41.8 ms
    assert 1000 * one["seconds"] == pytest.approx(41.8, rel=0.02)
    assert one["bound"] == "memory" and one["intensity"] == pytest.approx(1.0, abs=0.01)
    assert "does not fit" in view["warning"]


def test_the_ridge_of_an_h100_is_295_tokens() -> None:
    view = view_model()
    assert round(view["ridge_rows"]) == 295 and view["peak"] == hardware("h100-sxm").peak("float16")
    assert view["ridge"] == pytest.approx(view["peak"] / view["bandwidth"])


def test_verifying_is_nearly_free_below_the_ridge_and_costs_its_rows_above() -> None:
    below = view_model({"gamma": 7, "batch": 1, "devices": 1})
    above = view_model({"gamma": 7, "batch": 512, "devices": 1, "context": 0})
    assert below["relative"] < 1.02 and "below the ridge" in below["say"]
    assert above["relative"] == pytest.approx(8, rel=0.02) and "above the ridge" in above["say"]
    assert above["passes"][1]["bound"] == "compute"


def test_no_pass_is_above_its_roof() -> None:
    for batch in (1, 8, 64, 512):
        view = view_model({"batch": batch})
        for entry in view["passes"]:
            roof = min(view["peak"], entry["intensity"] * view["bandwidth"])
            assert entry["flops_per_s"] <= roof * (1 + 1e-9)


def test_the_seeds_gate_is_met_at_batch_one_and_not_at_64() -> None:
    assert view_model({"batch": 1})["gate"]["met"]
    assert not view_model({"batch": 64})["gate"]["met"]
    assert "under 20 FLOPs a byte, over 85%" in view_model()["gate"]["say"]


def test_the_curve_rises_from_one() -> None:
    curve = view_model({"batch": 32})["curve"]
    times = [time for _, time in curve]
    assert curve[0] == [1, 1.0] and times == sorted(times)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch": 0}, "batch is 0"),
        ({"gamma": 1.0}, "gamma is 1.0"),
        ({"target": "gpt"}, "expected one of llama-3-70b"),
        ({"speed": 1}, "speed is not a setting"),
    ],
)
def test_bad_settings_are_refused_with_a_reason(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        view_model(settings)


def test_the_view_is_plain_data_and_its_twin_has_the_passes() -> None:
    view = view_model()
    assert json.loads(json.dumps(view)) == view
    html = static_roofline().html
    assert "verify 5" in html and "data sheet" in html and "memory" in html
