"""What a number depends on beside the command that made it: the machine, the versions, the commit."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Dict


def current_commit(folder=None) -> str:
    """Of the repository that this is run in, or that ``folder`` is in."""
    return subprocess.run(["git", "describe", "--always", "--abbrev=40", "--dirty"], check=True, capture_output=True, text=True, cwd=folder).stdout.strip()


def hardware() -> Dict[str, Any]:
    """This machine, in words: processor, cores, memory, accelerators."""
    import torch

    model = platform.processor() or platform.machine()
    cpuinfo, meminfo = Path("/proc/cpuinfo"), Path("/proc/meminfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0] if names else model
    result: Dict[str, Any] = {"processor": model, "cores": os.cpu_count()}
    if meminfo.exists():
        result["memory_gib"] = round(int(meminfo.read_text().split()[1]) / 2**20)
    result["accelerators"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return result


def versions() -> Dict[str, str]:
    """Python and the packages that a number depends on, those that are installed."""
    found = {"python": platform.python_version()}
    for name in ("torch", "fairseq-fixed", "numpy", "sentencepiece", "transformers", "linformer", "linformer-pytorch", "triton"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
