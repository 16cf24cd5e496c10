"""What drafters ask of their arguments; a wrong one is named when it is given, not somewhere inside a round."""

from numbers import Integral
from typing import Any


def check_whole(name: str, value: Any) -> None:
    """ValueError unless `value` is a whole number, whatever its size."""
    if not isinstance(value, Integral):
        raise ValueError(f"{name} is {value!r}; expected a whole number")


def check_budget(budget: int) -> None:
    """ValueError unless `budget` is a number of nodes: 0 asks for an empty draft."""
    if not isinstance(budget, Integral) or budget < 0:
        raise ValueError(f"budget is {budget!r}; expected at least 0, a whole number of nodes")


def check_model(model: Any) -> None:
    """ValueError unless `model` is a language model; a pair, its name, and a pair without a draft are none."""
    if not (hasattr(model, "forward") and hasattr(model, "new_cache") and hasattr(model, "vocab_size")):
        raise ValueError(
            f"model is a {type(model).__name__}; expected a language model, such as load_pair('tiny').draft "
            "(a pair of which only the target was named has no draft)"
        )


def check_fresh(known: int | None) -> None:
    """ValueError when a drafter that is to read a prompt knows rows or tokens already."""
    if known:
        raise ValueError(
            f"the drafter knows {known} tokens before its prompt: it serves another request; give each engine that "
            "runs at the same time a drafter of its own"
        )
