"""What a learner's function returned, as exact numbers.

Only the real type of an object is trusted: no method of a learner's class runs here, so an object that
claims to equal everything is simply not a number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
import math
from typing import cast

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


def read_number(value: object, name: str) -> Fraction:
    """The exact value of an int, float or Fraction. Raises Malformed for anything else, nan, inf and huge included."""
    kind = type(value)
    if kind is Fraction or kind is int:
        exact = Fraction(cast("int | Fraction", value))
    elif issubclass(kind, float):
        plain = float.__float__(cast("float", value))
        if not math.isfinite(plain):
            raise Malformed(f"{name} is {plain}; expected a finite number")
        exact = Fraction(plain)
    else:
        raise Malformed(f"{name} is of type {kind.__name__}; expected an int, a float or a Fraction")
    if abs(exact) > LARGEST:
        raise Malformed(f"{name} is beyond {LARGEST}; expected a probability")
    return exact


def read_law(value: object, tokens: Sequence[str]) -> Reading:
    """A list or tuple with one number a token. Raises Malformed otherwise."""
    kind = type(value)
    if value is None:
        raise Malformed("your function returned None; is a `return` missing?")
    if kind is not list and kind is not tuple:
        raise Malformed(
            f"your function returned an object of type {kind.__name__}; expected a list with one probability a token"
        )
    entries = cast("list[object]", value)
    if len(entries) != len(tokens):
        raise Malformed(f"your function returned {len(entries)} entries for {len(tokens)} tokens")
    values = tuple(read_number(entry, f"the entry of {token!r}") for entry, token in zip(entries, tokens, strict=True))
    return Reading(values, any(issubclass(type(entry), float) for entry in entries))


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
