"""Cells: what one table needs, measured one after the other, each written to a JSON file of its own.

A cell that is written is not measured again, so a benchmark of hours can be made in pieces of minutes, on a machine
that is lent, and killed at any moment.
"""

import datetime
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Protocol, Sequence

import torch

from ..files import atomic
from ..machine import hardware, versions
from .flops import measured_peak
from .timing import clock_for

SLOWER = 2.5
"""ASSUMED: how many times the time of a large matrix product the operations of a model take, to foresee if a cell still fits."""
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class Cell(Protocol):
    """What is measured together: a row of a table."""

    name: str
    """Also of its file."""
    device: str
    dtype: str

    def operations(self) -> float:
        """About how many floating-point operations measuring takes."""

    def measure(self) -> Dict[str, Any]:
        """Whatever JSON holds."""


@dataclass(frozen=True)
class Provenance:
    """What a measurement must tell beside itself."""

    commit: str
    command: str


def configuration(cell) -> Dict[str, Any]:
    """Every option of a cell, as JSON has it."""
    return json.loads(json.dumps(asdict(cell)))


def measure(cells: Sequence[Cell], folder: Path, provenance: Provenance, minutes: Optional[float] = None) -> List[str]:
    """Measure the cells that are not in the folder yet.

    Args:
        minutes: begin none that would end later, as far as can be foreseen; the first is always begun.

    Returns:
        the names of those that are left.

    Raises:
        ValueError: the folder has a cell of the same name with other options, or a GPU is wanted and there is none.
    """
    begun, peaks, left, any_done = time.monotonic(), {}, [], False
    for cell in cells:
        path = Path(folder) / f"{cell.name}.json"
        if path.exists():
            _check_same(path, cell)
            continue
        if cell.device != "cpu" and not torch.cuda.is_available():
            raise ValueError(f"device is {cell.device}; PyTorch sees no GPU here, only cpu is allowed")
        key = (cell.device, cell.dtype)
        if key not in peaks:
            peaks[key] = measured_peak(cell.device, DTYPES[cell.dtype])
        foreseen = SLOWER * cell.operations() / peaks[key]
        if minutes is not None and any_done and time.monotonic() - begun + foreseen > 60 * minutes:
            left.append(cell.name)
            continue
        any_done = True
        started = time.monotonic()
        found = cell.measure()
        content = {
            "name": cell.name, "configuration": configuration(cell), "measured": found, "seconds": round(time.monotonic() - started, 1),
            "clock": clock_for(cell.device), "threads": torch.get_num_threads(), "hardware": hardware(), "versions": versions(),
            "peak_operations_per_second": peaks[key], "date": datetime.date.today().isoformat(), **asdict(provenance),
        }  # fmt: skip
        with atomic(path) as file:
            file.write(json.dumps(content, indent=1) + "\n")
        print(f"{cell.name}: {content['seconds']:.0f} s", flush=True)
    return left


def _check_same(path: Path, cell) -> None:
    before = read(path)["configuration"]
    for name, value in configuration(cell).items():
        if before.get(name) != value:
            raise ValueError(f"{path} was measured with {name} {before.get(name)}, and not {value}; take another folder, nothing is overwritten")


def read(path: Path) -> Dict[str, Any]:
    """A cell that was measured.

    Raises:
        ValueError: the file is none.
    """
    try:
        content = json.loads(Path(path).read_text())
        content["configuration"], content["measured"], content["commit"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no cell of a benchmark: {error}") from None
    return content


def read_all(folder: Path, kind: str) -> List[Dict[str, Any]]:
    """The cells of ``inference``, ``scaling``, ``training`` or ``process`` in a folder.

    Raises:
        ValueError: a file is damaged.
    """
    return [read(path) for path in sorted(Path(folder).glob(f"{kind}-*.json"))]
