"""Provenance of a measurement besides its command: hardware, versions and commit."""

import datetime
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

DIRTY = "-dirty"
"""The end of a commit with uncommitted changes."""
PACKAGES = """
    torch fairseq-fixed numpy sentencepiece transformers onnx onnxscript onnxruntime triton
""".split()


@cache
def current_commit() -> str:
    """HEAD of the repository of this source when it is first read, since code is loaded once; empty if there is none.

    It ends in ``DIRTY`` if a tracked file was changed, except in ``results/``, which earlier measurements write to.
    """
    try:
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)results")
        return _git("rev-parse", "HEAD").strip() + DIRTY * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments: str) -> str:
    folder = Path(__file__).parent
    run = partial(subprocess.run, check=True, capture_output=True, text=True, cwd=folder)
    run(["git", "ls-files", "--error-unmatch", Path(__file__).name])  # fails in another project's repository
    return run(["git", *arguments]).stdout


def clean_commit() -> str:
    """The current commit; ValueError unless a result can be measured again at it."""
    commit = current_commit()
    if not commit or commit.endswith(DIRTY):
        raise ValueError(
            f"a result needs a clean commit of a git checkout, got {commit or 'none'}; commit changes first"
        )
    return commit


def provenance() -> dict[str, Any]:
    """``commit`` (empty outside a repository), ``hardware``, ``versions`` and ``date``, to store with a measurement."""
    today = datetime.date.today().isoformat()
    return {"commit": current_commit(), "hardware": hardware(), "versions": versions(), "date": today}


def merge_provenance(measurements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``commit``, ``hardware``, ``versions`` and the last ``date``; different values are joined by semicolons."""
    merged = {name: merge_values([each[name] for each in measurements]) for name in ("hardware", "versions")}
    commits = [each["commit"] for each in measurements if each["commit"]]
    return {**merged, "date": max(each["date"] for each in measurements), "commit": "; ".join(dict.fromkeys(commits))}


def merge_values(dicts: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge dictionaries; different values of a key are joined by semicolons.

    >>> merge_values([{"processor": "A", "cores": 2}, {"processor": "B", "cores": 2}])
    {'processor': 'A; B', 'cores': 2}
    """
    names = dict.fromkeys(name for one in dicts for name in one)
    return {name: _merge([one[name] for one in dicts if name in one]) for name in names}


def _merge(values: list[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else "; ".join(dict.fromkeys(map(str, values)))


def hardware() -> dict[str, Any]:
    """Processor, cores, memory and accelerators of this machine."""
    import torch

    names = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "accelerators": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that measurements depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
