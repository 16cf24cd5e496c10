"""Loads a Python file of the exercises as a module: references and wrong answers."""

from functools import cache
import importlib.util
from pathlib import Path
import sys
from types import ModuleType


@cache
def load_module(path: str) -> ModuleType:
    """The file as a module, loaded once.

    Registered under a name of its own, because dataclasses and Triton look their module up.
    """
    file = Path(path)
    name = f"specdec_exercise_{file.parent.name}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
