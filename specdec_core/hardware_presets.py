"""Memory bandwidth and arithmetic of the machines a forward pass can run on, each with its source."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
import json
from pathlib import Path
from typing import Any, Literal

MEASURED_FILE = Path(__file__).parent / "measured_machine.json"
DTYPE_BYTES: Mapping[str, float] = {
    "float32": 4.0,
    "bfloat16": 2.0,
    "float16": 2.0,
    "float8": 1.0,
    "int4": 0.5,
}


@dataclass(frozen=True, slots=True)
class Hardware:
    """One device.

    Attributes:
        name: what a table prints.
        bytes_per_s: memory bandwidth.
        flops_per_s: dense arithmetic by dtype (a multiply-add counts 2; no sparsity).
        memory_bytes: what fits.
        link_bytes_per_s: bandwidth to the other devices of its server, one direction; None when there is none.
        kind: "quoted" from a data sheet (a peak nothing reaches) or "measured" (what a program got).
        source: whose data sheet, or which command on which day.
    """

    name: str
    bytes_per_s: float
    flops_per_s: Mapping[str, float]
    memory_bytes: float
    link_bytes_per_s: float | None
    kind: Literal["quoted", "measured"]
    source: str

    def __post_init__(self) -> None:
        peaks = self.flops_per_s.values()
        if not (self.bytes_per_s > 0 and peaks and all(peak > 0 for peak in peaks)):
            raise ValueError(f"hardware {self.name!r}: bytes_per_s and every flops_per_s must be above 0")

    def peak(self, dtype: str) -> float:
        """FLOP/s in this dtype; a weight format without arithmetic of its own (int4) computes as float16.

        Raises:
            ValueError: the device has no figure for the dtype.
        """
        computed = "float16" if dtype == "int4" else dtype
        if computed not in self.flops_per_s:
            raise ValueError(f"{self.name} has no {dtype} figure; expected one of {', '.join(self.flops_per_s)}")
        return self.flops_per_s[computed]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "flops_per_s": dict(self.flops_per_s)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Hardware":
        """Reads what `to_dict` wrote; other entries are ignored.

        Raises:
            ValueError: an entry is missing.
        """
        missing = [entry.name for entry in fields(cls) if entry.name not in data]
        if missing:
            raise ValueError(f"the hardware lacks {', '.join(missing)}; write it with `specdec bench machine`")
        return cls(**{entry.name: data[entry.name] for entry in fields(cls)})

    @classmethod
    def load(cls, path: str | Path) -> "Hardware":
        """Reads a file of `specdec bench machine`. ValueError when it is not one."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
        return cls.from_dict(data.get("machine", data) if isinstance(data, dict) else {})


def _hopper(name: str, bytes_per_s: float, memory_bytes: float, sheet: str) -> Hardware:
    peaks = {"bfloat16": 989.4e12, "float16": 989.4e12, "float8": 1978.9e12, "float32": 66.9e12}
    return Hardware(name, bytes_per_s, peaks, memory_bytes, 450e9, "quoted", sheet)


HARDWARE: Mapping[str, Hardware] = {
    "h100-sxm": _hopper("H100 SXM", 3.35e12, 80e9, "NVIDIA H100 data sheet, SXM5, dense figures"),
    "h200": _hopper("H200", 4.8e12, 141e9, "NVIDIA H200 data sheet, SXM, dense figures"),
    "a100": Hardware(
        "A100 80 GB SXM",
        2.039e12,
        {"bfloat16": 312e12, "float16": 312e12, "float32": 19.5e12},
        80e9,
        300e9,
        "quoted",
        "NVIDIA A100 data sheet, SXM4 80 GB, dense figures",
    ),
    "l4": Hardware(
        "L4",
        300e9,
        {"bfloat16": 121e12, "float16": 121e12, "float8": 242.5e12, "float32": 30.3e12},
        24e9,
        32e9,
        "quoted",
        "NVIDIA L4 data sheet; half of the figures it gives with sparsity",
    ),
    "t4": Hardware(
        "T4", 320e9, {"float16": 65e12, "float32": 8.1e12}, 16e9, 16e9, "quoted", "NVIDIA T4 data sheet; no bfloat16"
    ),
}
THIS_MACHINE = "cpu-2-core"


def hardware_names() -> tuple[str, ...]:
    """The names `hardware` takes."""
    return (*HARDWARE, *((THIS_MACHINE,) if MEASURED_FILE.is_file() else ()))


def hardware(name: str) -> Hardware:
    """The device of that name; "cpu-2-core" is the measured machine the lab was written on.

    Raises:
        ValueError: an unknown name.
    """
    if name == THIS_MACHINE:
        return Hardware.load(MEASURED_FILE)
    if name not in HARDWARE:
        raise ValueError(f"hardware is {name!r}; expected one of {', '.join(hardware_names())}")
    return HARDWARE[name]
