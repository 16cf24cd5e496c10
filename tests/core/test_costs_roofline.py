"""Rooflines against figures worked out by hand, and hardware presets that name their source."""

import json

import pytest

from specdec_core.costs import (
    HARDWARE,
    SHAPES,
    Hardware,
    ModelShape,
    fits,
    forward_time,
    forward_work,
    hardware,
    hardware_names,
    hbm_bytes_per_token,
    hbm_savings,
    model_shape,
    ridge_intensity,
    ridge_rows,
    round_bytes,
)
from specdec_core.hardware_presets import THIS_MACHINE
from specdec_core.models.llama import LlamaConfig
from specdec_core.serving_gates import GATES, break_even_batch, gate_values, modelled_speedup

DENSE = model_shape("dense-70b")
H100 = hardware("h100-sxm")


def test_one_row_of_a_dense_model_in_16_bits():
    work = forward_work(DENSE, 1)
    assert work.bytes == 140e9
    assert work.flops == 140e9
    assert work.arithmetic_intensity == 1.0
    time = forward_time(work, H100)
    assert time.seconds == pytest.approx(140e9 / 3.35e12)
    assert time.bound == "memory"
    assert time.memory_bound_share == 1.0


def test_rows_are_free_up_to_the_ridge_and_cost_their_arithmetic_past_it():
    assert ridge_rows(H100) == pytest.approx(295.34, abs=0.01)
    assert ridge_rows(hardware("h200")) == pytest.approx(206.1, abs=0.1)
    assert ridge_intensity(H100) == pytest.approx(295.34, abs=0.01)
    one = forward_time(forward_work(DENSE, 1), H100).seconds
    assert forward_time(forward_work(DENSE, 295), H100).seconds == one
    twice = forward_time(forward_work(DENSE, 591), H100)
    assert twice.bound == "compute"
    assert twice.seconds == pytest.approx(591 / 295.34 * one, rel=1e-3)


def test_the_ridge_in_float8_has_half_the_bytes_and_twice_the_arithmetic():
    assert ridge_rows(H100, "float8") == pytest.approx(ridge_rows(H100), rel=1e-3)
    # four-bit weights compute in 16 bits: the ridge comes four times earlier
    assert ridge_rows(H100, "int4") == pytest.approx(ridge_rows(H100) / 4)


def test_narrow_weights_leave_cache_and_activations_in_16_bits():
    shape = model_shape("llama-3-8b")
    whole = forward_work(shape, 4, 1000)
    for dtype, weights in (("float8", 1 / 2), ("int4", 1 / 4)):
        narrow = forward_work(shape, 4, 1000, dtype=dtype)
        assert narrow.weight_bytes == whole.weight_bytes * weights
        assert (narrow.kv_bytes, narrow.activation_bytes) == (whole.kv_bytes, whole.activation_bytes)
    assert forward_work(shape, 4, 1000, dtype="float32").kv_bytes == 2 * whole.kv_bytes


def test_attention_takes_the_longer_of_its_two_times():
    shape = model_shape("llama-3-8b")
    # a long prompt computes, one row over a long cache reads
    prompt, step = forward_work(shape, 32_768), forward_work(shape, 1, 32_768)
    assert forward_time(prompt, H100).attention_s == prompt.attention_flops / H100.peak("float16")
    assert forward_time(step, H100).attention_s == step.kv_bytes / H100.bytes_per_s
    assert prompt.kv_bytes / H100.bytes_per_s < prompt.attention_flops / H100.peak("float16")


def test_kv_cache_and_attention_of_a_llama():
    shape = model_shape("llama-3-70b")
    assert shape.kv_values_per_token == 2 * 80 * 8 * 128
    work = forward_work(shape, 5, 1000, batch=3)
    assert work.kv_bytes == 3 * (1000 + 2 * 5) * 2 * 80 * 8 * 128 * 2
    assert work.attention_flops == 4 * 80 * 64 * 128 * 3 * 5 * 1005
    assert work.linear_flops == 2 * shape.parameters * 15


def test_parameters_of_published_models():
    # the published totals count the input embedding too where it is not tied
    assert model_shape("llama-3-8b").parameters + 128256 * 4096 == 8_030_261_248
    assert model_shape("llama-3-70b").parameters + 128256 * 8192 == 70_553_706_496
    assert model_shape("llama-3.2-1b").parameters == 1_235_814_400
    assert model_shape("smollm2-135m").parameters == 134_515_008


def test_a_shape_from_a_loaded_configuration():
    config = LlamaConfig(
        vocab_size=49152, width=576, ffn_width=1536, layers=30, heads=9, kv_heads=3, head_dim=64, max_length=8192
    )
    assert ModelShape.from_config("smollm2-135m", config) == model_shape("smollm2-135m")


def test_tensor_parallelism_splits_work_and_adds_traffic():
    shape = model_shape("llama-3-70b")
    one, eight = forward_work(shape, 4, 100), forward_work(shape, 4, 100, degree=8)
    assert eight.weight_bytes == one.weight_bytes / 8
    assert eight.kv_bytes == one.kv_bytes / 8
    assert one.link_bytes == 0
    assert eight.link_bytes == 2 * 80 * 4 * 8192 * 2 * 2 * 7 / 8
    # 16 devices have 8 KV heads to share: no further split
    assert forward_work(shape, 4, 100, degree=16).kv_bytes == one.kv_bytes / 8
    assert forward_time(eight, H100).link_s == eight.link_bytes / 450e9
    assert fits(DENSE, H100) is False
    assert fits(DENSE, H100, degree=2) is True


def test_traffic_per_token():
    bytes_per_round = round_bytes(DENSE, model_shape("dense-8b"), 5)
    assert bytes_per_round == 220e9
    assert hbm_bytes_per_token(bytes_per_round, 3.54) == pytest.approx(62.1e9, rel=1e-3)
    assert hbm_savings(140e9, 29.2e9) == pytest.approx(0.7914, abs=1e-4)
    assert hbm_savings(100.0, 120.0) == pytest.approx(-0.2)
    assert round_bytes(DENSE, None, 4) == 140e9


def test_every_preset_is_quoted_from_a_data_sheet():
    assert set(HARDWARE) == {"h100-sxm", "h200", "a100", "l4", "t4"}
    assert set(hardware_names()) == {*HARDWARE, THIS_MACHINE}
    for entry in HARDWARE.values():
        assert entry.kind == "quoted"
        assert "data sheet" in entry.source
    assert hardware("t4").peak("float16") == 65e12
    with pytest.raises(ValueError, match="T4 has no bfloat16"):
        hardware("t4").peak("bfloat16")


def test_the_measured_machine_says_how_it_was_measured():
    machine = hardware(THIS_MACHINE)
    assert machine.kind == "measured"
    assert "specdec bench machine" in machine.source
    assert 1e9 < machine.bytes_per_s < 1e12
    assert machine.flops_per_s["float32"] > 1e9


def test_hardware_goes_through_json(tmp_path):
    entry = hardware("l4")
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"machine": entry.to_dict(), "hardware": {}}), encoding="utf-8")
    assert Hardware.load(path) == entry
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks name"):
        Hardware.load(path)
    path.write_text("[1", encoding="utf-8")
    with pytest.raises(ValueError, match="not JSON"):
        Hardware.load(path)


def test_the_quoted_gates_and_what_they_look_at():
    values = gate_values(DENSE, H100, gamma=5, batch=8)
    assert values == {"batch": 8.0, "intensity": 48.0, "memory_bound_share": 1.0}
    assert GATES["deploy-batch"].allows(8) and not GATES["deploy-batch"].allows(9)
    assert not GATES["intensity"].allows(values["intensity"])
    assert GATES["throttle-alpha"].allows(0.5) and not GATES["throttle-alpha"].allows(0.49)
    assert {gate.limit for gate in GATES.values() if gate.quantity == "batch"} == {8, 15, 32, 63}


def test_the_modelled_break_even_batch_is_where_the_speedup_passes_one():
    setting = {"alpha": 0.72, "gamma": 5, "degree": 8}
    found = break_even_batch(DENSE, model_shape("dense-8b"), H100, **setting)
    assert found == 124
    assert modelled_speedup(DENSE, model_shape("dense-8b"), H100, batch=found, **setting) < 1
    assert modelled_speedup(DENSE, model_shape("dense-8b"), H100, batch=found - 1, **setting) >= 1
    assert break_even_batch(DENSE, DENSE, H100, alpha=0.5, gamma=2) == 1
    assert break_even_batch(DENSE, None, H100, alpha=0.9, gamma=1, largest=4) == 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hardware("h300"), "hardware is 'h300'"),
        (lambda: model_shape("gpt"), "shape is 'gpt'"),
        (lambda: forward_work(DENSE, 0), "rows is 0"),
        (lambda: forward_work(DENSE, 1, -1), "context is -1"),
        (lambda: forward_work(DENSE, 1, dtype="int3"), "dtype is 'int3'"),
        (lambda: hbm_bytes_per_token(1.0, 0.5), "tokens_per_round is 0.5"),
        (lambda: hbm_savings(0, 1), "plain_bytes_per_token is 0"),
        (lambda: Hardware("x", 0, {"float32": 1.0}, 1, None, "quoted", "s"), "bytes_per_s"),
        (
            lambda: forward_time(
                forward_work(SHAPES["llama-3-8b"], 1, degree=2),
                Hardware("x", 1, {"float16": 1.0}, 1, None, "quoted", "s"),
            ),
            "no link",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
