"""The roofline of a forward pass: what it reads, what it computes, and the time neither can go below.

Everything here is modelled, from sizes and peaks; nothing is measured.
"""

from dataclasses import dataclass
import math
from typing import Literal

from specdec_core.arguments import check_number
from specdec_core.hardware_presets import DTYPE_BYTES, Hardware
from specdec_core.model_shapes import ModelShape

Bound = Literal["memory", "compute", "link"]


@dataclass(frozen=True, slots=True)
class ForwardWork:
    """What one device does in one pass: bytes of its memory, floating-point operations, bytes over its link."""

    weight_bytes: float
    kv_bytes: float
    activation_bytes: float
    linear_flops: float
    attention_flops: float
    link_bytes: float

    @property
    def bytes(self) -> float:
        """All memory traffic."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes

    @property
    def flops(self) -> float:
        """All arithmetic."""
        return self.linear_flops + self.attention_flops

    @property
    def arithmetic_intensity(self) -> float:
        """FLOPs per byte; about 1 for one row in a 2-byte dtype, whatever the model."""
        return self.flops / self.bytes


def forward_work(
    shape: ModelShape,
    rows: int,
    context: int = 0,
    *,
    batch: int = 1,
    dtype: str = "float16",
    degree: int = 1,
) -> ForwardWork:
    """The work of each of `degree` devices when `batch` sequences with `context` cached tokens feed `rows` each.

    The KV cache is read once a sequence and layer, and written for the new rows. Attention counts the full
    rectangle rows x (context + rows), which a masked product computes. Tensor parallelism splits weights,
    arithmetic and KV heads (no further than there are KV heads: then they are copied) and adds two all-reduces a layer,
    each sending 2 (degree - 1) / degree of the activations (ring).

    Raises:
        ValueError: a count below 1, a negative context, or an unknown dtype.
    """
    for name, value, lowest in (("rows", rows, 1), ("context", context, 0), ("batch", batch, 1), ("degree", degree, 1)):
        check_number(name, value, lowest)
    size, fed = bytes_of(dtype), batch * rows
    # activations and cache stay in 16 bits when the weights are narrower
    state = max(size, 2.0)
    kv_share = min(degree, shape.kv_heads) if shape.kv_heads else 1
    attended = batch * rows * (context + rows)
    return ForwardWork(
        weight_bytes=shape.parameters * size / degree,
        kv_bytes=shape.kv_values_per_token * batch * (context + 2 * rows) * state / kv_share,
        activation_bytes=shape.activation_values_per_row * fed * state / degree,
        linear_flops=2 * shape.parameters * fed / degree,
        attention_flops=4 * shape.layers * shape.heads * shape.head_dim * attended / degree,
        link_bytes=2 * shape.layers * fed * shape.width * state * 2 * (degree - 1) / degree,
    )


@dataclass(frozen=True, slots=True)
class RooflineTime:
    """Least seconds of one pass: the matrix products, attention and the link one after the other.

    Each of the first two takes the longer of its memory time and its arithmetic time.
    """

    memory_s: float
    compute_s: float
    linear_s: float
    attention_s: float
    link_s: float

    @property
    def seconds(self) -> float:
        """The time of the pass."""
        return self.linear_s + self.attention_s + self.link_s

    @property
    def bound(self) -> Bound:
        """What the pass waits for most."""
        times: dict[Bound, float] = {"memory": self.memory_s, "compute": self.compute_s, "link": self.link_s}
        return max(times, key=lambda name: times[name])

    @property
    def memory_bound_share(self) -> float:
        """Share of the pass in which memory is the limit: memory time / time of the pass, at most 1."""
        return min(1.0, self.memory_s / self.seconds)


def forward_time(work: ForwardWork, hardware: Hardware, dtype: str = "float16") -> RooflineTime:
    """The roofline time of this work on one device of `hardware`.

    Raises:
        ValueError: the device has no figure for the dtype, or there is traffic between devices and no link.
    """
    peak, bandwidth = hardware.peak(dtype), hardware.bytes_per_s
    if work.link_bytes and hardware.link_bytes_per_s is None:
        raise ValueError(f"{hardware.name} has no link to other devices; use degree 1")
    linear_bytes = work.weight_bytes + work.activation_bytes
    return RooflineTime(
        memory_s=work.bytes / bandwidth,
        compute_s=work.flops / peak,
        linear_s=max(linear_bytes / bandwidth, work.linear_flops / peak),
        attention_s=max(work.kv_bytes / bandwidth, work.attention_flops / peak),
        link_s=work.link_bytes / (hardware.link_bytes_per_s or math.inf),
    )


def ridge_rows(hardware: Hardware, dtype: str = "float16") -> float:
    """Tokens a pass at which reading the weights takes as long as using them: peak * bytes / (2 * bandwidth).

    Below it another row is almost free; above it every row costs its arithmetic. 295 on an H100 in 16 bits.
    """
    return hardware.peak(dtype) * bytes_of(dtype) / (2 * hardware.bytes_per_s)


def ridge_intensity(hardware: Hardware, dtype: str = "float16") -> float:
    """FLOPs per byte above which the device is bound by arithmetic."""
    return hardware.peak(dtype) / hardware.bytes_per_s


def fits(shape: ModelShape, hardware: Hardware, *, dtype: str = "float16", degree: int = 1) -> bool:
    """Whether the weights fit into the memory of `degree` devices (nothing else counted)."""
    return shape.parameters * bytes_of(dtype) <= degree * hardware.memory_bytes


def hbm_bytes_per_token(bytes_per_round: float, tokens_per_round: float) -> float:
    """Memory traffic per emitted token (modelled): what a round reads / what it emits.

    Raises:
        ValueError: fewer tokens than the one every round emits, or negative traffic.
    """
    check_number("tokens_per_round", tokens_per_round, 1)
    check_number("bytes_per_round", bytes_per_round)
    return bytes_per_round / tokens_per_round


def hbm_savings(plain_bytes_per_token: float, bytes_per_token: float) -> float:
    """Share of the memory traffic saved (modelled), 1 - speculative / plain; negative when there is more of it."""
    check_number("plain_bytes_per_token", plain_bytes_per_token, above=True)
    check_number("bytes_per_token", bytes_per_token)
    return 1 - bytes_per_token / plain_bytes_per_token


def round_bytes(
    target: ModelShape,
    draft: ModelShape | None,
    gamma: int,
    context: int = 0,
    *,
    batch: int = 1,
    dtype: str = "float16",
) -> float:
    """Bytes one round reads (modelled): the verify pass over gamma + 1 rows and gamma single steps of the draft."""
    verify = forward_work(target, gamma + 1, context, batch=batch, dtype=dtype).bytes
    steps = gamma * forward_work(draft, 1, context, batch=batch, dtype=dtype).bytes if draft and gamma else 0.0
    return verify + steps


def bytes_of(dtype: str) -> float:
    """Bytes a weight takes. ValueError for an unknown dtype."""
    if dtype not in DTYPE_BYTES:
        raise ValueError(f"dtype is {dtype!r}; expected one of {', '.join(DTYPE_BYTES)}")
    return DTYPE_BYTES[dtype]
