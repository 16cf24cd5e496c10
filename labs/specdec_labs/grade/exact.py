"""What a learner's function returned, read as exact numbers, lists and laws. Takes plain data (see `plain`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
import math
from typing import Any, cast

from specdec_labs.grade.plain import Array, Opaque

Number = int | float | Fraction

# Float outputs are compared with this slack; Fraction outputs with none.
FLOAT_SLACK = Fraction(1, 10**9)

# Larger numbers are no probabilities, and printing one could take thousands of digits.
LARGEST = 10**9


class Malformed(Exception):
    """The returned object is not of the promised form; the text tells the learner what came instead."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A returned law: one exact value a token, and whether any of them arrived as a float."""

    values: tuple[Fraction, ...]
    has_floats: bool

    def same(self, left: Fraction, right: Fraction) -> bool:
        """Equal; within FLOAT_SLACK when the law came in floats."""
        return abs(left - right) <= FLOAT_SLACK if self.has_floats else left == right


def read_number(value: object, name: str, largest: int = LARGEST) -> Fraction:
    """The exact value of an int, float or Fraction, or of a tensor or array that holds one and has no dimension.

    Raises Malformed for anything else, nan, inf and huge included.
    """
    value = _single(value)
    kind = type(value)
    if kind is Fraction or kind is int:
        exact = Fraction(cast("int | Fraction", value))
    elif issubclass(kind, float):
        plain = float.__float__(cast("float", value))
        if not math.isfinite(plain):
            raise Malformed(f"{name} is {plain}; expected a finite number")
        exact = Fraction(plain)
    else:
        raise Malformed(f"{name} is {type_name(value)}; expected an int, a float or a Fraction")
    if abs(exact) > largest:
        raise Malformed(f"{name} is beyond {largest:.0e}; that cannot be the answer")
    return exact


def _single(value: object) -> object:
    """The number of a 0-d tensor or array, which is what `tensor.sum()` gives; anything else as it is."""
    return value.nested() if isinstance(value, Array) and value.shape == () else value


def type_name(value: object) -> str:
    """What a learner is told that a value is."""
    if value is None:
        return "None (is a `return` missing?)"
    if isinstance(value, Opaque):
        return value.what if value.what.startswith(("a ", "an ", "some")) else f"of type {value.what}"
    if isinstance(value, Array):
        return f"a {value.kind} array of shape {value.shape}"
    return f"of type {type(value).__name__}"


def read_list(value: object, of_what: str) -> list[Any]:
    """The entries of a list or tuple. Raises Malformed for anything else."""
    if type(value) is list or type(value) is tuple:
        return list(cast("list[Any]", value))
    raise Malformed(f"your answer is {type_name(value)}; expected a list with {of_what}")


def read_whole(value: object, name: str) -> int:
    """An int; a float or Fraction that is whole counts, a bool does not. Raises Malformed otherwise."""
    exact = read_number(value, name)
    if exact.denominator != 1:
        raise Malformed(f"{name} is {number_text(exact)}; expected a whole number")
    return int(exact)


def read_close(value: object, name: str, wanted: float, slack: float = 1e-9) -> str | None:
    """None when the number is `wanted` to a relative `slack` (absolute below 1), else both numbers in words."""
    found = float(read_number(value, name, largest=10**30))
    if abs(found - wanted) <= slack * max(1.0, abs(wanted)):
        return None
    return f"{name} is {found:.12g}, must be {wanted:.12g}"


def read_law(value: object, tokens: Sequence[str]) -> Reading:
    """A list or tuple with one number a token. Raises Malformed otherwise."""
    entries = read_list(value, "one probability a token")
    if len(entries) != len(tokens):
        raise Malformed(f"your answer has {len(entries)} entries for {len(tokens)} tokens")
    values = tuple(read_number(entry, f"the entry of {token!r}") for entry, token in zip(entries, tokens, strict=True))
    return Reading(values, any(issubclass(type(_single(entry)), float) for entry in entries))


def number_text(value: Number) -> str:
    """A Fraction as 3/7; one with a long denominator (a float read exactly) as a decimal."""
    if type(value) is Fraction and value.denominator > 10**6:
        return f"{float(value):.12g}"
    return f"{value:.12g}" if type(value) is float else str(value)


def token_table(tokens: Sequence[str], columns: Mapping[str, Sequence[Number]]) -> str:
    """A plain-text table: one row a token, one column a name."""
    rows = [["token", *columns]]
    for index, token in enumerate(tokens):
        rows.append([token, *(number_text(column[index]) for column in columns.values())])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
