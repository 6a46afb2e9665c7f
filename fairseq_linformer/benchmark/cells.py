"""Cells: what one row of a table needs, measured one after the other, each written to a JSON file of its own.

A cell that is written is not measured again, so a benchmark of hours can be made in pieces of minutes, on a borrowed
machine, and killed at any moment.
"""

import datetime
import json
import math
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Callable, ClassVar, Dict, List, Optional, Sequence

import torch
from torch import Tensor, nn

from ..config import LinformerConfig
from ..files import atomic, check_can_be_written, read_json
from ..machine import hardware, versions
from . import fused_attention
from .entries import check, entry_of, kind_of
from .flops import measured_peak, peak_of
from .memory import NO_MEMORY
from .timing import clock_for, interleaved

SLOWER = 2.5
"""ASSUMED: how many times the time of a large matrix product the operations of a model take, to foresee if a cell still
fits."""
PATH = "path"
"""In the metadata of a field that is a path on this machine; the measurement does not depend on it."""
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
KEYS = ("name", "configuration", "measured", "seconds", "clock", "threads", "hardware", "versions", "date", "commit",
        "command")  # fmt: skip
"""Every file of a cell has these."""
NAMED = ("device", "dtype", "layers")
"""Options that name an entry."""
LEAST = {"rounds": 1, "layers": 1, "embed_dim": 1, "heads": 1, "n": 1, "tokens": 1, "warm_up": 0}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A cell: what is measured together, a row of a table. These are the options of every kind: how often, where, and
    how large the models are.

    Raises:
        ValueError: a value that cannot be measured.
    """

    rounds: int = 3
    device: str = "cpu"
    dtype: str = "fp32"
    layers: int = 12
    embed_dim: int = 768
    heads: int = 12
    vocabulary: int = 50265
    kind: ClassVar[str]

    def __post_init__(self):
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}; it must be one of {', '.join(DTYPES)}")
        for name, least in LEAST.items():
            if getattr(self, name, least) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        for name in ("memory_gib", "usable_gib"):
            if not 0 < getattr(self, name, 1) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a number above 0")

    @property
    def name(self) -> str:
        """KIND-DEVICE-DTYPE-LAYERS-SHAPE; also of its file."""
        return f"{self.kind}-{self.device}-{self.dtype}-l{self.layers}-{self._shape_name}"

    @property
    def _shape_name(self) -> str:
        return f"n{self.n}"

    @property
    def clock(self) -> str:
        """Of a run in this process."""
        return clock_for(self.device)

    def operations(self) -> float:
        """About how many floating-point operations measuring takes."""
        raise NotImplementedError

    def measure(self) -> Dict[str, Any]:
        """The measurement, as JSON."""
        raise NotImplementedError

    def setting(self) -> Dict[str, Any]:
        """These fields alone, for another cell of the same setting."""
        return {f.name: getattr(self, f.name) for f in fields(Setting)}

    def shape(self, n: int, k: int) -> LinformerConfig:
        """Of a model of n positions, with layerwise sharing as in section 5.3."""
        return LinformerConfig(self.vocabulary, n, k, "layerwise", layers=self.layers, embed_dim=self.embed_dim,
                               ffn_embed_dim=4 * self.embed_dim, attention_heads=self.heads)  # fmt: skip

    def placed(self, module: nn.Module) -> nn.Module:
        """On the device, in the precision."""
        return module.to(device=self.device, dtype=DTYPES[self.dtype])

    def random_tokens(self, batch: int, n: int) -> Tensor:
        """(batch, n), without special symbols."""
        return torch.randint(5, self.vocabulary, (batch, n), device=self.device)

    def time(self, runs: Dict[str, Callable[[], object]]) -> Dict[str, List[float]]:
        """Seconds of each run in each round, after ``warm_up`` rounds."""
        return interleaved(runs, self.rounds, self.warm_up, self.clock, self.device)


@dataclass(frozen=True)
class Provenance:
    """Recorded beside every measurement."""

    commit: str
    command: str


def configuration(cell: Setting) -> Dict[str, Any]:
    """Every option of a cell, as JSON has it, except paths on this machine."""
    options = asdict(cell)
    for f in fields(cell):
        if f.metadata.get(PATH):
            del options[f.name]
    return json.loads(json.dumps(options))


def measure(
    cells: Sequence[Setting], folder: Path, provenance: Provenance, minutes: Optional[float] = None
) -> List[str]:
    """Measure the cells that are not in the folder yet.

    Args:
        minutes: begin none that would end later, as far as can be foreseen; the first is always begun.

    Returns:
        the names of those that are left.

    Raises:
        ValueError: before anything is measured: the folder has a cell of the same name with other options or threads,
            or one that would be of the same entry and cannot; it cannot be written; or the device is a GPU and there is
            none.
    """
    if minutes is not None and not minutes >= 0:
        raise ValueError(f"minutes is {minutes}; it must be at least 0")
    folder = Path(folder)
    torch.set_float32_matmul_precision("highest")  # not TF32, which some containers turn on: fp32 is fp32
    begun, peaks, overheads, left, any_begun = time.monotonic(), {}, {}, [], False
    for cell in _not_measured(cells, folder):
        key = (cell.device, cell.dtype)
        if key not in peaks:
            peaks[key] = measured_peak(cell.device, DTYPES[cell.dtype])
        kind, products = kind_of(cell.name), SLOWER * cell.operations() / peaks[key]
        foreseen = products + overheads.get(kind, 0.0)
        if minutes is not None and any_begun and time.monotonic() - begun + foreseen > 60 * minutes:
            left.append(cell.name)
            continue
        any_begun = True
        started = time.monotonic()
        fused_attention.forget()
        try:
            found = cell.measure()
        except torch.OutOfMemoryError:
            print(f"{cell.name}: not measured, {NO_MEMORY}", flush=True)
            continue
        finally:
            if cell.device != "cpu":
                torch.cuda.empty_cache()  # for the processes of the next one
        seconds = time.monotonic() - started
        # making and counting models, which are no operations
        overheads[kind] = max(overheads.get(kind, 0.0), seconds - products)
        content = {
            **_circumstances(cell), "measured": found, "seconds": round(seconds, 1),
            **peak_of(cell.device, DTYPES[cell.dtype], peaks[key]),
            "kernels": fused_attention.chosen(), "date": datetime.date.today().isoformat(), **asdict(provenance),
        }  # fmt: skip
        with atomic(folder / f"{cell.name}.json") as file:
            file.write(json.dumps(content, indent=1) + "\n")
        print(f"{cell.name}: {seconds:.0f} s", flush=True)
    return left


def _circumstances(cell: Setting) -> Dict[str, Any]:
    """What is known of a cell before it is measured."""
    return {"name": cell.name, "configuration": configuration(cell), "clock": cell.clock,
            "threads": torch.get_num_threads(),
            "hardware": hardware(), "versions": versions()}  # fmt: skip


def _not_measured(cells: Sequence[Setting], folder: Path) -> List[Setting]:
    """The cells to measure, all of which can be, and can be reported with those that the folder has."""
    missing = []
    for cell in cells:
        path = folder / f"{cell.name}.json"
        if path.exists():
            _check_same(path, cell)
        else:
            missing.append(cell)
    if not missing:
        return missing
    for device in (cell.device for cell in missing if cell.device != "cpu" and not torch.cuda.is_available()):
        raise ValueError(f"device is {device}; PyTorch sees no GPU here, only cpu is allowed")
    check_can_be_written(folder)
    measured = {entry_of(cell): cell for kind in {kind_of(cell.name) for cell in missing}
                for cell in read_all(folder, kind)}  # fmt: skip
    for cell in map(_circumstances, missing):
        if entry_of(cell) in measured:
            check(cell, measured[entry_of(cell)])
    return missing


def _check_same(path: Path, cell: Setting) -> None:
    content = read(path)
    before = {**content["configuration"], "threads": content["threads"]}
    now = {**configuration(cell), "threads": torch.get_num_threads()}
    irrelevant = ("rounds", "warm_up") if now.get("memory") else ()
    for name in now:
        if name not in irrelevant and before.get(name) != now[name]:
            was = before.get(name)
            raise ValueError(f"{path} was measured with {name} {was}, and not {now[name]}; take another folder")


def read(path: Path) -> Dict[str, Any]:
    """A cell that was measured.

    Raises:
        ValueError: the file is none.
    """
    try:
        content = read_json(path)
        options = content["configuration"]
        missing = [key for key in KEYS if key not in content] or [key for key in NAMED if key not in options]
        if missing:
            raise ValueError(f"it has no {missing[0]}")
        if content["name"] != Path(path).stem:
            raise ValueError(f"its name is {content['name']}")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no cell of a benchmark: {error}") from None
    return content


def read_all(folder: Path, kind: str) -> List[Dict[str, Any]]:
    """The cells of ``inference``, ``scaling``, ``training`` and so on in a folder.

    Raises:
        ValueError: a file is damaged.
    """
    return [read(path) for path in sorted(Path(folder).glob(f"{kind}-*.json"))]
