"""What a measurement was taken on, for traces and reports."""

from datetime import date
from functools import cache
import os
import platform
from typing import Any

import torch


def describe_hardware() -> dict[str, Any]:
    """Processor, cores, threads, GPU, versions and the date."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": date.today().isoformat(),
    }


def measured_on() -> str:
    """Processor or GPU, threads, torch and the date in a line, for a figure or table measured just now."""
    machine = describe_hardware()
    device = machine["gpu"] or machine["processor"]
    return f"measured on {device}, threads: {machine['threads']}, torch {machine['torch']}, {machine['date']}"


@cache
def processor() -> str:
    """The processor's name, and what tells its generation where names do not: family, model, widest instructions."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            lines = dict(line.split(":", 1) for line in info.read().split("\n\n")[0].splitlines() if ":" in line)
    except OSError:
        lines = {}
    said = {name.strip(): value.strip() for name, value in lines.items()}
    name = said.get("model name") or platform.processor() or platform.machine()
    flags = said.get("flags", "").split()
    widest = next((flag for flag in ("amx_tile", "avx512_bf16", "avx512f", "avx2") if flag in flags), None)
    details = [f"{word} {said[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in said]
    return f"{name} ({', '.join([*details, *([widest] if widest else [])])})" if details or widest else name
