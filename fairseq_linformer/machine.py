"""What a measurement depends on beside its command: the machine, the versions, the commit."""

import datetime
import math
import os
import platform
import subprocess
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Dict


def current_commit(folder=None) -> str:
    """Of the repository that ``folder`` is in, by default that of this source.

    It ends in ``-dirty`` if a tracked file was changed, except in ``results/`` and ``README.md``, which hold results.

    Raises:
        subprocess.CalledProcessError: there is none; a repository around an installed copy of this source is none.
    """
    git = partial(subprocess.run, check=True, capture_output=True, text=True, cwd=folder or Path(__file__).parent)
    if folder is None:
        git(["git", "ls-files", "--error-unmatch", Path(__file__).name])
    paths = [":/", ":(top,exclude)results", ":(top,exclude)README.md"]
    changed = git(["git", "status", "--porcelain", "--untracked-files=no", "--", *paths]).stdout.strip()
    return git(["git", "rev-parse", "HEAD"]).stdout.strip() + "-dirty" * bool(changed)


def provenance() -> Dict[str, Any]:
    """To store beside a measurement: ``commit`` (empty outside a repository), ``hardware``, ``versions``, ``date``."""
    try:
        commit = current_commit()
    except (OSError, subprocess.CalledProcessError):
        commit = ""
    return {"commit": commit, "hardware": hardware(), "versions": versions(), "date": datetime.date.today().isoformat()}


def hardware() -> Dict[str, Any]:
    """This machine: processor, cores, memory, accelerators."""
    import torch

    model = platform.processor() or platform.machine()
    cpuinfo, meminfo = Path("/proc/cpuinfo"), Path("/proc/meminfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    result: Dict[str, Any] = {"processor": model, "cores": os.cpu_count()}
    if meminfo.exists():
        result["memory_gib"] = round(int(meminfo.read_text().split()[1]) / 2**20)
    result["accelerators"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return result


def free_memory() -> float:
    """Bytes that a process can use before the system kills one, not the limit of a container; infinite if unknown."""
    meminfo = Path("/proc/meminfo")
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), math.inf)


def versions() -> Dict[str, str]:
    """Python and the packages that a number depends on, those that are installed."""
    found = {"python": platform.python_version()}
    peers = ("linformer", "linformer-pytorch")
    for name in ("torch", "fairseq-fixed", "numpy", "sentencepiece", "transformers", *peers, "triton"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
