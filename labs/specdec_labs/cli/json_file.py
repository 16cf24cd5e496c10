"""Results as JSON files, written whole or not at all."""

import json
import math
from pathlib import Path
from typing import Any

from specdec_core.hardware import describe_hardware
from specdec_core.whole_file import write_whole


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Writes the data with the hardware, in one move; an infinite number becomes a string, which JSON can hold."""
    data = {**data, "hardware": describe_hardware()}
    write_whole(path, json.dumps(_finite(data), indent=1, ensure_ascii=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
