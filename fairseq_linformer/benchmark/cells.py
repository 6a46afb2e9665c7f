"""Cells: what one table needs, measured one after the other, each written to a JSON file of its own.

A cell that is written is not measured again, so a benchmark of hours can be made in pieces of minutes, on a machine
that is lent, and killed at any moment.
"""

import datetime
import json
import math
import re
import shlex
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Dict, List, Optional, Protocol, Sequence

import torch

from ..config import LinformerConfig
from ..files import atomic, check_can_be_written
from ..machine import hardware, versions
from . import kernels, together
from .flops import measured_peak, peak_of
from .memory import NO_MEMORY
from .timing import clock_for

SLOWER = 2.5
"""ASSUMED: how many times the time of a large matrix product the operations of a model take, to foresee if a cell still fits."""
PLACE = "place"
"""In the metadata of a field that says where something lies; the measurement does not depend on it."""
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


KEYS = ("name", "configuration", "measured", "seconds", "clock", "threads", "hardware", "versions", "date", "commit", "command")
"""Without which a file is no cell."""


class Cell(Protocol):
    """What is measured together: a row of a table."""

    name: str
    """Also of its file."""
    device: str
    dtype: str
    clock: str
    """By which it takes times."""

    def operations(self) -> float:
        """About how many floating-point operations measuring takes."""

    def measure(self) -> Dict[str, Any]:
        """Whatever JSON holds."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What every cell says: how often, where, and how large the models are.

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

    def __post_init__(self):
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}; it must be one of {', '.join(DTYPES)}")
        for name in ("rounds", "layers", "embed_dim", "heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if getattr(self, "warm_up", 0) < 0:
            raise ValueError(f"warm_up is {self.warm_up}; it must be at least 0")
        for name in ("memory_gib", "usable_gib"):
            if not 0 < getattr(self, name, 1) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a number above 0")

    @property
    def clock(self) -> str:
        """Of a run in this process."""
        return clock_for(self.device)

    def setting(self) -> Dict[str, Any]:
        """These fields alone, for another cell of the same setting."""
        return {f.name: getattr(self, f.name) for f in fields(Setting)}

    def shape(self, n: int, k: int, sharing: str = "layerwise") -> LinformerConfig:
        """Of a model of n positions."""
        return LinformerConfig(self.vocabulary, n, k, sharing, layers=self.layers, embed_dim=self.embed_dim,
                               ffn_embed_dim=4 * self.embed_dim, attention_heads=self.heads)  # fmt: skip


@dataclass(frozen=True)
class Provenance:
    """What a measurement must tell beside itself."""

    commit: str
    command: str


def words_of(options: Dict[str, Any], but: Sequence[str] = ()) -> List[str]:
    """Options as a command has them, so that a measurement can tell the whole of it.

    Args:
        options: name, with underscores, to value; what is None, False or an empty list was not given. A tuple is
            written with commas, ``none`` if it is empty; a list of words as they would be typed.
        but: names that are left out.
    """
    words: List[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if name in but or value is None or value is False or value == []:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, list):
            words.append(f"{flag}={shlex.join(value)}")  # it begins with a hyphen
        else:
            words += [flag, (",".join(map(str, value)) or "none") if isinstance(value, tuple) else str(value)]
    return words


def slug(options: Sequence[str]) -> str:
    """Options in a name: ("--optimizer", "fused_adam") is -optimizer-fused-adam, none is nothing."""
    return "".join(f"-{word}" for word in re.findall("[a-z0-9]+", " ".join(options).lower()))


def configuration(cell) -> Dict[str, Any]:
    """Every option of a cell, as JSON has it, but for places on this machine."""
    options = asdict(cell)
    for f in fields(cell):
        if f.metadata.get(PLACE):
            del options[f.name]
    return json.loads(json.dumps(options))


def measure(cells: Sequence[Cell], folder: Path, provenance: Provenance, minutes: Optional[float] = None) -> List[str]:
    """Measure the cells that are not in the folder yet.

    Args:
        minutes: begin none that would end later, as far as can be foreseen; the first is always begun.

    Returns:
        the names of those that are left.

    Raises:
        ValueError: before anything is measured: the folder has a cell of the same name with other options or threads, or one
            that would be of the same entry and cannot; it cannot be written; or a GPU is wanted and there is none.
    """
    if minutes is not None and not minutes >= 0:
        raise ValueError(f"minutes is {minutes}; it must be at least 0")
    torch.set_float32_matmul_precision("highest")  # not TF32, which some containers turn on: fp32 is fp32
    begun, speeds, beside, left, any_done = time.monotonic(), {}, {}, [], False
    for cell in _not_there(cells, Path(folder)):
        path = Path(folder) / f"{cell.name}.json"
        key = (cell.device, cell.dtype)
        if key not in speeds:
            speeds[key] = measured_peak(cell.device, DTYPES[cell.dtype])
        kind, products = together.kind_of(cell.name), SLOWER * cell.operations() / speeds[key]
        foreseen = products + beside.get(kind, 0.0)
        if minutes is not None and any_done and time.monotonic() - begun + foreseen > 60 * minutes:
            left.append(cell.name)
            continue
        any_done = True
        started = time.monotonic()
        kernels.forget()
        try:
            found = cell.measure()
        except torch.OutOfMemoryError:
            print(f"{cell.name}: not measured, {NO_MEMORY}", flush=True)
            continue
        finally:
            if cell.device != "cpu":
                torch.cuda.empty_cache()  # for the processes of the next one
        taken = time.monotonic() - started
        beside[kind] = max(beside.get(kind, 0.0), taken - products)  # what making and counting models took, which no operations tell
        content = {
            **_circumstances(cell), "measured": found, "seconds": round(taken, 1),
            **peak_of(cell.device, DTYPES[cell.dtype], speeds[key]), "kernels": kernels.taken(), "date": datetime.date.today().isoformat(), **asdict(provenance),
        }  # fmt: skip
        with atomic(path) as file:
            file.write(json.dumps(content, indent=1) + "\n")
        print(f"{cell.name}: {content['seconds']:.0f} s", flush=True)
    return left


def _circumstances(cell) -> Dict[str, Any]:
    """What is known of a cell before it is measured."""
    return {"name": cell.name, "configuration": configuration(cell), "clock": cell.clock, "threads": torch.get_num_threads(),
            "hardware": hardware(), "versions": versions()}  # fmt: skip


def _not_there(cells: Sequence[Cell], folder: Path) -> List[Cell]:
    """The cells that are to be measured, all of which can be, and can be reported with what is there."""
    there = {cell.name for cell in cells if (folder / f"{cell.name}.json").exists()}
    for cell in cells:
        if cell.name in there:
            _check_same(folder / f"{cell.name}.json", cell)
    wanted = [cell for cell in cells if cell.name not in there]
    if not wanted:
        return wanted
    for device in (cell.device for cell in wanted if cell.device != "cpu" and not torch.cuda.is_available()):
        raise ValueError(f"device is {device}; PyTorch sees no GPU here, only cpu is allowed")
    check_can_be_written(folder)
    before = {entry_of(cell): cell for kind in dict.fromkeys(together.kind_of(cell.name) for cell in wanted) for cell in read_all(folder, kind)}
    for cell in map(_circumstances, wanted):
        if entry_of(cell) in before:
            together.check(cell, before[entry_of(cell)])
    return wanted


def entry_of(cell: Dict[str, Any]) -> str:
    """The identifier of the entry that a cell is of: kind, device, precision and layers, width and k where they are not those of base
    size (768 and 256), options of a process, and -bare or -peers."""
    c, name = cell["configuration"], cell["name"]
    sizes = "".join(f"-{letter}{c[key]}" for letter, (key, base) in zip("dk", together.BASE_SIZE.items()) if c.get(key, base) != base)
    variant = sizes + slug(c.get("options", ())) + "-bare" * ("-bare" in name) + "-peers" * ("-peers" in name)
    return f"benchmark-{together.kind_of(name)}-{c['device']}-{c['dtype']}-l{c['layers']}{variant}"


def _check_same(path: Path, cell) -> None:
    before, now = read(path), {**configuration(cell), "threads": torch.get_num_threads()}
    was = {**before["configuration"], "threads": before["threads"]}
    means_nothing = ("rounds", "warm_up") if now.get("memory") else ()
    for name in now:
        if name not in means_nothing and was.get(name) != now[name]:
            raise ValueError(f"{path} was measured with {name} {was.get(name)}, and not {now[name]}; take another folder, nothing is overwritten")


def read(path: Path) -> Dict[str, Any]:
    """A cell that was measured.

    Raises:
        ValueError: the file is none.
    """
    try:
        content = json.loads(Path(path).read_text())
        missing = [key for key in KEYS if key not in content] + [key for key in ("device", "dtype", "layers") if key not in content["configuration"]]
        if missing:
            raise ValueError(f"it has no {missing[0]}")
        if content["name"] != Path(path).stem:
            raise ValueError(f"it calls itself {content['name']}")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no cell of a benchmark: {error}") from None
    return content


def read_all(folder: Path, kind: str) -> List[Dict[str, Any]]:
    """The cells of ``inference``, ``scaling``, ``training`` and so on in a folder.

    Raises:
        ValueError: a file is damaged.
    """
    return [read(path) for path in sorted(Path(folder).glob(f"{kind}-*.json"))]
