"""What is asked of an argument: a wrong one is named when it is given, not somewhere inside a round."""

import math
from numbers import Integral
from typing import Any


def check_whole(name: str, value: Any, lowest: int | None = None, highest: int | None = None) -> int:
    """`value` as an int; numpy's whole numbers and one-element integer tensors count, floats and bools do not.

    Raises:
        ValueError: no whole number, or one outside lowest..highest.
    """
    number = None if isinstance(value, bool) else int(value) if isinstance(value, Integral) else _index(value)
    if number is None or (lowest is not None and number < lowest) or (highest is not None and number > highest):
        span = "" if lowest is None else f", at least {lowest}" if highest is None else f", {lowest}..{highest}"
        raise ValueError(f"{name} is {value!r}; expected a whole number{span}")
    return number


def _index(value: Any) -> int | None:
    try:
        # a tensor of one row is no number, although torch would turn it into one
        return value.__index__() if getattr(value, "ndim", 0) == 0 else None
    except (AttributeError, TypeError):
        return None


def check_number(name: str, value: Any, lowest: float = 0, *, above: bool = False) -> None:
    """ValueError unless `value` is one number, at least `lowest` or with `above` more than that; NaN is neither."""
    is_one = getattr(value, "ndim", 0) == 0 and not isinstance(value, str | list | tuple | None)
    number: Any = value if is_one else math.nan
    # NaN fails either comparison
    if not (number > lowest if above else number >= lowest):
        raise ValueError(f"{name} is {value!r}; expected one number, {'above' if above else 'at least'} {lowest}")


def check_budget(budget: int) -> None:
    """ValueError unless `budget` is a number of nodes: 0 asks for an empty draft."""
    if not isinstance(budget, Integral) or budget < 0:
        raise ValueError(f"budget is {budget!r}; expected at least 0, a whole number of nodes")


def check_model(model: Any, name: str = "model", part: str = "draft") -> None:
    """ValueError unless `model` is a language model; a pair, its name, and a pair without a draft are none."""
    if not (hasattr(model, "forward") and hasattr(model, "new_cache") and hasattr(model, "vocab_size")):
        raise ValueError(
            f"{name} is a {type(model).__name__}; expected a language model, such as load_pair('tiny').{part} "
            "(a pair of which only the target was named has no draft)"
        )


def check_fresh(known: int | None) -> None:
    """ValueError when a drafter that is to read a prompt knows rows or tokens already."""
    if known:
        raise ValueError(
            f"the drafter knows {known} tokens before its prompt: it serves another request; give each engine that "
            "runs at the same time a drafter of its own"
        )
