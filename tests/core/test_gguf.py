"""The GGUF reader against the reference package, and against damage."""

import hashlib
from pathlib import Path
import random
from typing import Any

import numpy as np
import pytest
import torch

from specdec_core.models.gguf import GGUFFile
from specdec_core.models.pairs import SMOLLM2_INSTALL, SMOLLM2_SHA256, find_smollm2

gguf = pytest.importorskip("gguf", reason="the package gguf (extra dev) is the oracle of these tests")

METADATA: dict[str, Any] = {
    "a.uint8": 7,
    "a.int32": -5,
    "a.float32": 0.25,
    "a.float64": 1e300,
    "a.bool": True,
    "a.uint64": 2**40,
    "a.string": "größe ✓",
    "a.numbers": [1, 2, 3],
    "a.strings": ["Ġthe", "", "é"],
}

COMPARED = (
    "token_embd.weight",
    "blk.0.attn_q.weight",
    "blk.0.attn_v.weight",
    "blk.7.ffn_gate.weight",
    "blk.15.attn_k.weight",
    "blk.22.ffn_up.weight",
    "blk.29.ffn_down.weight",
    "output_norm.weight",
)


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    return {
        "plain": generator.standard_normal((3, 5)).astype(np.float32),
        "half": generator.standard_normal((2, 3, 4)).astype(np.float16),
        "four": generator.standard_normal((6, 64)).astype(np.float32),
        "eight": generator.standard_normal((2, 96)).astype(np.float32),
    }


@pytest.fixture(scope="module")
def small_file(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray]) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in METADATA.items():
        kind = key.removeprefix("a.")
        getattr(writer, f"add_{kind}" if not isinstance(value, list) else "add_array")(key, value)
    kinds = gguf.GGMLQuantizationType
    writer.add_tensor("plain", arrays["plain"])
    writer.add_tensor("half", arrays["half"])
    for name, kind in (("four", kinds.Q4_1), ("eight", kinds.Q8_0)):
        writer.add_tensor(name, gguf.quants.quantize(arrays[name], kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def smollm2_path() -> Path:
    path = find_smollm2()
    if path is None:
        pytest.skip(f"the SmolLM2 wheel is not installed: {SMOLLM2_INSTALL}")
    return path


def test_metadata_and_shapes(small_file: Path, arrays: dict[str, np.ndarray]) -> None:
    file = GGUFFile(small_file)
    assert {key: file.metadata[key] for key in METADATA} == METADATA
    assert file.require("general.architecture") == "llama"
    assert {name: info.shape for name, info in file.tensors.items()} == {k: v.shape for k, v in arrays.items()}


def test_weights_equal_the_reference_bit_for_bit(small_file: Path, arrays: dict[str, np.ndarray]) -> None:
    file = GGUFFile(small_file)
    kinds = gguf.GGMLQuantizationType
    assert np.array_equal(file.read("plain").numpy(), arrays["plain"])
    assert np.array_equal(file.read("half").numpy(), arrays["half"].astype(np.float32))
    for name, kind in (("four", kinds.Q4_1), ("eight", kinds.Q8_0)):
        expected = gguf.quants.dequantize(gguf.quants.quantize(arrays[name], kind), kind)
        assert np.array_equal(file.read(name).numpy(), expected)
        assert np.abs(expected - arrays[name]).max() < 0.3  # the oracle itself is about these weights


def test_a_read_is_a_fresh_copy(small_file: Path) -> None:
    file = GGUFFile(small_file)
    for name in file.tensors:
        before = file.read(name).clone()
        file.read(name).fill_(9.0)
        assert torch.equal(file.read(name), before)


def test_smollm2_equals_the_reference_bit_for_bit(smollm2_path: Path) -> None:
    file, oracle = GGUFFile(smollm2_path), gguf.GGUFReader(smollm2_path)
    by_name = {tensor.name: tensor for tensor in oracle.tensors}
    assert list(file.tensors) == list(by_name)
    assert sum(np.prod(info.shape) for info in file.tensors.values()) == 134_515_008
    seen = set()
    for name in COMPARED:
        tensor = by_name[name]
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(file.read(name).numpy(), expected.reshape(file.tensors[name].shape)), name
        seen.add(file.tensors[name].encoding)
    assert seen == {"F32", "Q4_1", "Q8_0"}


def test_smollm2_has_the_published_hash(smollm2_path: Path) -> None:
    assert GGUFFile(smollm2_path, sha256=SMOLLM2_SHA256.upper()).require("llama.block_count") == 30


@pytest.mark.parametrize("part", [0.0005, 0.01, 0.5, 0.999999])
def test_half_a_file_is_refused(smollm2_path: Path, tmp_path: Path, part: float) -> None:
    half = tmp_path / "half.gguf"
    size = smollm2_path.stat().st_size
    with smollm2_path.open("rb") as source:
        half.write_bytes(source.read(int(size * part)))
    with pytest.raises(ValueError, match=r"half\.gguf: .*bytes here\); download the file again"):
        GGUFFile(half)


def test_every_cut_of_a_small_file_is_refused(small_file: Path, tmp_path: Path) -> None:
    whole = small_file.read_bytes()
    cut = tmp_path / "cut.gguf"
    last = GGUFFile(small_file).tensors["eight"]
    for length in range(last.offset + last.nbytes):
        cut.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.gguf: .*download"):
            GGUFFile(cut)


def test_damage_never_raises_anything_but_a_value_error(small_file: Path, tmp_path: Path) -> None:
    whole = small_file.read_bytes()
    tables = min(info.offset for info in GGUFFile(small_file).tensors.values())
    bad = tmp_path / "bad.gguf"
    generator = random.Random(0)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(generator.randint(1, 3)):
            damaged[generator.randrange(tables)] = generator.randrange(256)
        bad.write_bytes(damaged)
        try:
            file = GGUFFile(bad)
            for name in file.tensors:
                file.read(name)
        except ValueError as error:
            assert "bad.gguf" in str(error)
            refused += 1
    assert refused > 500


def test_wrong_magic(tmp_path: Path) -> None:
    path = tmp_path / "page.gguf"
    path.write_bytes(b"<html>not found</html>" * 10)
    with pytest.raises(ValueError, match=r"page\.gguf: starts with b'<htm', expected b'GGUF'; this is not a GGUF file"):
        GGUFFile(path)


def test_unknown_version(small_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.gguf"
    data = bytearray(small_file.read_bytes())
    data[4:8] = (9).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"new\.gguf: GGUF version 9; this reader knows \(2, 3\)"):
        GGUFFile(path)


def test_unknown_tensor_type(tmp_path: Path) -> None:
    path = tmp_path / "k.gguf"
    kind = gguf.GGMLQuantizationType.Q5_0
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("w", gguf.quants.quantize(np.ones((2, 64), np.float32), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ValueError, match=r"k\.gguf: tensor 'w' has type 6; this reader knows F32, F16, Q4_1, Q8_0"):
        GGUFFile(path)


def test_wrong_hash_names_both(small_file: Path) -> None:
    got = hashlib.sha256(small_file.read_bytes()).hexdigest()
    assert GGUFFile(small_file, sha256=got).tensors
    with pytest.raises(ValueError, match=rf"small\.gguf: sha256 is {got}, expected {'0' * 64}"):
        GGUFFile(small_file, sha256="0" * 64)


def test_no_file_an_empty_one_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.gguf: cannot be opened"):
        GGUFFile(tmp_path / "none.gguf")
    (tmp_path / "empty.gguf").touch()
    with pytest.raises(ValueError, match=r"empty\.gguf: the file is empty"):
        GGUFFile(tmp_path / "empty.gguf")
    with pytest.raises(ValueError, match="cannot be opened"):
        GGUFFile(tmp_path)


def test_unknown_names(small_file: Path) -> None:
    file = GGUFFile(small_file)
    with pytest.raises(ValueError, match=r"small\.gguf: no tensor 'w'; it holds 4"):
        file.read("w")
    with pytest.raises(ValueError, match=r"small\.gguf: metadata has no 'b'"):
        file.require("b")
