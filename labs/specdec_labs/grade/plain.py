"""Values as plain data: what crosses between the learner's code and the checks, in one process or between two.

Only the real type of an object counts and no method of a learner's class is called, so an object that claims to equal
everything arrives as `Opaque`, by the name of its type. The standard library alone, for the grading process.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
import sys
from typing import Any, cast

MAX_DEPTH = 12
MAX_ITEMS = 1_000_000
MAX_TEXT = 20_000
MAX_BITS = 8192


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that is no plain data: the name of its type, or what is wrong with it."""

    what: str


@dataclass(frozen=True, slots=True)
class Array:
    """A tensor or an array: its kind ("torch" or "numpy"), dtype, shape and numbers, row after row."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    data: tuple[Any, ...]

    def nested(self) -> Any:
        """The numbers as nested lists, a single number for shape ()."""
        values: list[Any] = list(self.data)
        for length in reversed(self.shape[1:]):
            values = [values[start : start + length] for start in range(0, len(values), length)] if length else []
        return values if self.shape else values[0]


class Shared:
    """An object on the checker's side whose listed methods the learner's code may call: coins, or a function."""

    def __init__(self, target: Any, methods: tuple[str, ...] = ("__call__",)) -> None:
        self.target = target
        self.methods = methods

    def answer(self, method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What the target answers. AttributeError for a method that is not listed."""
        if method not in self.methods:
            raise AttributeError(f"there is no method {method!r} here; there is {', '.join(self.methods)}")
        return getattr(self.target, method)(*args, **kwargs)


Ask = Callable[[str, list[Any], dict[str, Any]], Any]


class Proxy:
    """What the learner's code holds in place of a `Shared` object: every call goes through `ask`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def __call__(self, *args: Any) -> Any:
        """The function's answer."""
        return self._ask("__call__", list(args), {})

    def accept(self, p: Any, q: Any, *, node: int) -> bool:
        """True exactly when u * q < p for this node's uniform u."""
        return self._ask("accept", [p, q], {"node": node})

    def draw(self, weights: Any, *, node: int, purpose: str) -> int:
        """An index with probability proportional to its weight."""
        return self._ask("draw", [weights], {"node": node, "purpose": purpose})


def encode(value: Any) -> Any:
    """JSON data for `value`. Never raises: what is no plain data becomes the data of an `Opaque`."""
    return _Encoder().encode(value, 0)


def decode(data: Any, proxies: Callable[[int], Any] | None = None) -> Any:
    """The value that `encode` was given; `proxies` makes what stands for the n-th shared object."""
    if isinstance(data, list):
        return [decode(entry, proxies) for entry in data]
    if not isinstance(data, dict):
        return data
    ((tag, body),) = data.items()
    match tag:
        case "t":
            return tuple(decode(entry, proxies) for entry in body)
        case "d":
            return {_key(decode(key, proxies)): decode(entry, proxies) for key, entry in body}
        case "q":
            return Fraction(int(body[0], 16), int(body[1], 16))
        case "i":
            return int(body, 16)
        case "f":
            return float(body)
        case "a":
            return Array(body[0], body[1], tuple(body[2]), tuple(decode(entry) for entry in body[3]))
        case "r":
            return proxies(body) if proxies is not None else Opaque("a reference")
        case _:
            return Opaque(str(body))


def plain(value: Any) -> Any:
    """`value` as trusted plain data: None, bool, int, float, Fraction, str, list, tuple, dict, Array or Opaque."""
    return decode(encode(value))


def _key(key: Any) -> Any:
    return key if isinstance(key, str | int | float | Fraction | tuple | bool | None) else Opaque("a key")


class _Encoder:
    def __init__(self) -> None:
        self._items = 0

    def encode(self, value: Any, depth: int) -> Any:
        self._items += 1
        if depth > MAX_DEPTH or self._items > MAX_ITEMS:
            return {"o": "something nested too deep" if depth > MAX_DEPTH else "something too large"}
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return value if len(value) <= MAX_TEXT else {"o": f"a text of {len(value)} letters"}
        if kind is list:
            return [self.encode(entry, depth + 1) for entry in value[: MAX_ITEMS + 1]]
        if kind is tuple:
            return {"t": [self.encode(entry, depth + 1) for entry in value[: MAX_ITEMS + 1]]}
        if kind is dict:
            return {"d": [[self.encode(key, depth + 1), self.encode(entry, depth + 1)] for key, entry in value.items()]}
        return self._number(value, kind) or self._array(value, kind) or {"o": _name(kind)}

    def _number(self, value: Any, kind: type) -> Any:
        if kind is Fraction:
            parts = cast(Fraction, value)
            if parts.numerator.bit_length() + parts.denominator.bit_length() > MAX_BITS:
                return {"o": "a Fraction of thousands of digits"}
            return {"q": [hex(parts.numerator), hex(parts.denominator)]}
        if issubclass(kind, int):
            whole = int.__index__(value)
            return {"i": hex(whole)} if whole.bit_length() <= MAX_BITS else {"o": "an int of thousands of digits"}
        if issubclass(kind, float):
            number = float.__float__(value)
            # a text and not a JSON number: nan and infinity have none
            return {"f": repr(number)}
        return None

    def _array(self, value: Any, kind: type) -> Any:
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        try:
            if torch is not None and issubclass(kind, torch.Tensor):
                if value.numel() > MAX_ITEMS:
                    return {"o": "a tensor too large"}
                flat = value.detach().cpu().reshape(-1).tolist()
                return self._array_data("torch", str(value.dtype), list(value.shape), flat)
            if numpy is not None and issubclass(kind, numpy.ndarray | numpy.generic):
                if value.size > MAX_ITEMS:
                    return {"o": "an array too large"}
                if issubclass(kind, numpy.generic):
                    item = value.item()
                    return self.encode(item, 0) if type(item) in (bool, int, float) else {"o": _name(kind)}
                return self._array_data("numpy", str(value.dtype), list(value.shape), value.reshape(-1).tolist())
        except Exception as error:  # torch or numpy that the learner replaced in part
            return {"o": f"{_name(kind)} that cannot be read ({type(error).__name__})"}
        return None

    def _array_data(self, kind: str, dtype: str, shape: list[int], flat: list[Any]) -> Any:
        return {"a": [kind, dtype, shape, [self.encode(entry, MAX_DEPTH) for entry in flat]]}


def _name(kind: type) -> str:
    return kind.__name__[:80] if type(kind.__name__) is str else "object"


def encode_arguments(args: list[Any], shared: list[Shared]) -> Any:
    """JSON data of arguments; `Shared` objects, Arrays and nested ones included, are appended to `shared`."""

    def one(value: Any) -> Any:
        if isinstance(value, Shared):
            shared.append(value)
            return {"r": len(shared) - 1}
        if isinstance(value, list):
            return [one(entry) for entry in value]
        if isinstance(value, tuple):
            return {"t": [one(entry) for entry in value]}
        if isinstance(value, Array):
            return {"a": [value.kind, value.dtype, list(value.shape), [encode(entry) for entry in value.data]]}
        return encode(value)

    return [one(value) for value in args]


def build_arguments(data: Any, proxies: Callable[[int], Any]) -> list[Any]:
    """The arguments on the learner's side: fresh objects, arrays as tensors."""

    def one(value: Any) -> Any:
        if isinstance(value, Array):
            return as_tensor(value)
        if isinstance(value, list):
            return [one(entry) for entry in value]
        return tuple(one(entry) for entry in value) if isinstance(value, tuple) else value

    return [one(value) for value in decode(data, proxies)]


def as_tensor(array: Array) -> Any:
    """The tensor that an `Array` describes; torch is imported for it."""
    import torch

    name = array.dtype.removeprefix("torch.")
    return torch.tensor(list(array.data), dtype=getattr(torch, name)).reshape(array.shape)


def same(one: Any, other: Any) -> bool:
    """Whether two plain values are the same: exact for ints and Fractions, to 1e-9 for floats; kinds must agree."""
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        if not (isinstance(one, float) and isinstance(other, float)):
            return False
        return one == other or (one != one and other != other) or abs(one - other) <= 1e-9 * max(1.0, abs(one))
    if isinstance(one, int | Fraction) and isinstance(other, int | Fraction):
        return one == other
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(left, right) for left, right in zip(one, other, strict=True))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(entry, other[key]) for key, entry in one.items())
    if isinstance(one, Array):
        return (one.kind, one.shape) == (other.kind, other.shape) and same(one.data, other.data)
    return one == other
