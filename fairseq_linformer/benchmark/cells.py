"""Cells: the measurements of a benchmark, one JSON file each.

A cell is a group of values that are measured together, such as a row of a table. Cells whose file exists are skipped,
so a benchmark that takes hours can run in several short sessions and be killed at any time.
"""

import datetime
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..config import LinformerConfig
from ..files import check_can_be_written, read_json, write_json
from ..machine import hardware, versions
from . import fused_attention
from .flops import measure_peak, peak_fields
from .memory import NO_MEMORY
from .timing import choose_clock, time_interleaved

LOCAL_PATH = "path"
"""Metadata key of a field that holds a local path, which the measurement does not depend on."""
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
REQUIRED_KEYS = """
    name configuration measured seconds date commit command hardware versions threads clock
""".split()
"""Keys of every cell's file."""
ALL_MODELS = "all models"
"""Key of ``failed`` in a cell that ran out of memory as a whole."""
MINIMUM = {"rounds": 1, "layers": 1, "embed_dim": 1, "heads": 1, "n": 1, "tokens": 1, "warm_up": 0}


@dataclass(frozen=True, kw_only=True)
class BenchmarkCell:
    """A measurement, and the options that every kind has: repetitions, device and model size.

    Raises:
        ValueError: an option has a value that cannot be measured.
    """

    rounds: int = 3
    device: str = "cpu"
    dtype: str = "fp32"
    layers: int = 12
    embed_dim: int = 768
    heads: int = 12
    vocabulary: int = 50265
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"unknown dtype {self.dtype!r}; choose from {', '.join(DTYPES)}")
        for name, minimum in MINIMUM.items():
            if (value := getattr(self, name, minimum)) < minimum:
                raise ValueError(f"{name} must be at least {minimum}, got {value}")
        for name in ("memory_gib", "usable_gib"):
            if not 0 < (value := getattr(self, name, 1)) < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value}")

    @property
    def name(self) -> str:
        """KIND-DEVICE-DTYPE-LAYERS-SHAPE, the stem of its file."""
        return f"{self.kind}-{self.device}-{self.dtype}-l{self.layers}-{self._shape_name}"

    @property
    def _shape_name(self) -> str:
        return f"n{vars(self)['n']}"

    @property
    def clock(self) -> str:
        return choose_clock(self.device)

    def measure(self) -> dict[str, Any]:
        """Take the measurement and return it as JSON."""
        raise NotImplementedError

    def common_options(self) -> dict[str, Any]:
        """The options that every kind has, to build another cell with them."""
        return {f.name: getattr(self, f.name) for f in fields(BenchmarkCell)}

    def build_config(self, n: int, k: int) -> LinformerConfig:
        """A model of n positions with layerwise sharing, as in section 5.3."""
        return LinformerConfig(
            self.vocabulary,
            n,
            k,
            "layerwise",
            layers=self.layers,
            embed_dim=self.embed_dim,
            ffn_embed_dim=4 * self.embed_dim,
            attention_heads=self.heads,
        )

    def build(self, build: Callable[[], nn.Module]) -> nn.Module:
        """Build a module on the cell's device and in its precision. A CPU would take seconds to initialize it."""
        with torch.device(self.device):
            module = build()
        return module.to(device=self.device, dtype=DTYPES[self.dtype])

    def random_tokens(self, batch: int, n: int) -> Tensor:
        """(batch, n) token IDs without special symbols."""
        return torch.randint(5, self.vocabulary, (batch, n), device=self.device)

    def time_rounds(self, runs: Mapping[str, Callable[[], object]], warm_up: int) -> dict[str, list[float]]:
        """Seconds of each run in each round, after ``warm_up`` rounds, without runs that exceed the GPU's memory."""
        return time_interleaved(runs, self.rounds, warm_up, self.clock, self.device)

    def time_all(self, runs: Mapping[str, Callable[[], object]], warm_up: int) -> dict[str, list[float]]:
        """As ``time_rounds``, where a comparison needs every run.

        Raises:
            torch.OutOfMemoryError: a run exceeds the GPU's memory.
        """
        seconds = self.time_rounds(runs, warm_up)
        if lost := runs.keys() - seconds.keys():
            raise torch.OutOfMemoryError(f"{NO_MEMORY}: {', '.join(sorted(lost))}")
        return seconds


@dataclass(frozen=True)
class Provenance:
    """Commit and command line, recorded with every measurement."""

    commit: str
    command: str


def cell_kind(name: str) -> str:
    """The first word of a cell's name."""
    return name.split("-")[0]


def options_slug(options: Sequence[str]) -> str:
    """fairseq options as part of a name: ("--optimizer", "fused_adam") becomes -optimizer-fused-adam."""
    return "".join(f"-{word}" for word in re.findall("[a-z0-9]+", " ".join(options).lower()))


def recorded_options(cell: BenchmarkCell) -> dict[str, Any]:
    """All options of a cell as JSON, except local paths."""
    paths = {f.name for f in fields(cell) if f.metadata.get(LOCAL_PATH)}
    return json.loads(json.dumps({name: value for name, value in asdict(cell).items() if name not in paths}))


def measure_cells(cells: Sequence[BenchmarkCell], folder: Path, provenance: Provenance) -> None:
    """Measure the cells that are not in the folder yet. One that runs out of memory gets a file that says so, and is
    not measured again.

    Raises:
        ValueError: before anything is measured: the folder has a cell of the same name with other options or threads;
            the folder is not writable; or there is no GPU.
    """
    torch.set_float32_matmul_precision("highest")  # without TF32, which some containers turn on
    peaks: dict[tuple[str, str], float] = {}
    for cell in _missing_cells(cells, folder):
        key = (cell.device, cell.dtype)
        if key not in peaks:
            peaks[key] = measure_peak(cell.device, DTYPES[cell.dtype])
        start = time.monotonic()
        fused_attention.clear_kernels()
        try:
            measured = cell.measure()
        except torch.OutOfMemoryError:
            measured = {"failed": {ALL_MODELS: NO_MEMORY}}
        finally:
            if cell.device != "cpu":
                torch.cuda.empty_cache()  # for the processes of the next cell
        seconds = time.monotonic() - start
        content = {
            "name": cell.name,
            "configuration": recorded_options(cell),
            "clock": cell.clock,
            "threads": torch.get_num_threads(),
            "hardware": hardware(),
            "versions": versions(),
            "measured": measured,
            "seconds": round(seconds, 3),
            **peak_fields(cell.device, DTYPES[cell.dtype], peaks[key]),
            "kernels": fused_attention.selected_kernels(),
            "date": datetime.date.today().isoformat(),
            **asdict(provenance),
        }
        write_json(folder / f"{cell.name}.json", content)
        print(f"{cell.name}: {seconds:.0f} s" + f", {NO_MEMORY}" * is_out_of_memory(content), flush=True)


def is_out_of_memory(content: dict[str, Any]) -> bool:
    """Whether a cell's file says that the whole measurement ran out of memory, so that it has no numbers."""
    return ALL_MODELS in content["measured"].get("failed", {})


def _missing_cells(cells: Sequence[BenchmarkCell], folder: Path) -> list[BenchmarkCell]:
    """The cells without a file, after checking that they can be measured."""
    missing = []
    for cell in cells:
        path = folder / f"{cell.name}.json"
        if path.exists():
            _check_same_options(path, cell)
        else:
            missing.append(cell)
    if missing:
        for device in (cell.device for cell in missing if cell.device != "cpu" and not torch.cuda.is_available()):
            raise ValueError(f"device must be cpu if PyTorch sees no GPU, got {device}")
        check_can_be_written(folder)
    return missing


def _check_same_options(path: Path, cell: BenchmarkCell) -> None:
    content = read_cell(path)
    stored = {**content["configuration"], "threads": content["threads"]}
    for name, value in {**recorded_options(cell), "threads": torch.get_num_threads()}.items():
        if stored.get(name) != value:
            raise ValueError(
                f"{name} must be {stored.get(name)}, as in {path}, got {value}; choose another folder to change it"
            )


def read_cell(path: Path) -> dict[str, Any]:
    """Read the file of a cell.

    Raises:
        ValueError: the file is damaged, or is of another kind.
    """
    content: dict[str, Any] = read_json(path)
    if not isinstance(content, dict) or not content.keys() >= {*REQUIRED_KEYS}:
        raise ValueError(f"{path} is not a benchmark cell: it must have {', '.join(REQUIRED_KEYS)}")
    return content
