"""Fast operators by name. A kernels package registers them here, so that the core never imports it.

The core itself asks for one: "attention_pass", called as (past, rows, mask | None, device, dtype) once a forward. It
answers None where it has nothing faster, else a function (queries [heads, rows, head_dim], keys and values
[kv_heads, past + rows, head_dim], scale=None) -> [heads, rows, head_dim] for every layer of that forward; a row of the
mask that sees nothing gets zeros.
"""

from collections.abc import Callable
from typing import Any

Operator = Callable[..., Any]

NAMES = (
    "noise_words",
    "verify_chain",
    "verify_block",
    "verify_tree",
    "tree_attention",
    "attention_pass",
    "kv_compact",
)

_OPERATORS: dict[str, Operator] = {}


def register(name: str, operator: Operator) -> None:
    """Makes `operator` the answer of `get(name)`, in place of any earlier one.

    Raises:
        ValueError: an unknown name, or something that cannot be called.
    """
    _check_name(name)
    if not callable(operator):
        raise ValueError(f"operator for {name!r} is {operator!r}; expected a function")
    _OPERATORS[name] = operator


def unregister(name: str) -> None:
    """Forgets the operator called `name`, if there is one. ValueError for an unknown name."""
    _check_name(name)
    _OPERATORS.pop(name, None)


def get(name: str) -> Operator | None:
    """The registered operator, or None: then the caller runs the plain version. ValueError for an unknown name."""
    _check_name(name)
    return _OPERATORS.get(name)


def _check_name(name: str) -> None:
    if name not in NAMES:
        raise ValueError(f"operator name is {name!r}; expected one of {', '.join(NAMES)}")
