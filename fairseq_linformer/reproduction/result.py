"""Results: what a command measured, and its circumstances, as plain JSON.

RESULTS/EXPERIMENT/SCALE.json is a list of results, one per part of the experiment. A new result replaces that of the
same part; git keeps the earlier one.
"""

import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..benchmark.rows import Row
from ..benchmark.rows import repeated as repeated
from ..benchmark.rows import significant as significant
from ..data.tokenizer_files import DICTIONARY
from ..files import check_data_path, lock, open_atomic, read_json, sha256
from ..machine import provenance

Parts = dict[str, dict[str, tuple[str, ...]]]
"""The parts of an experiment by scale, and the options of ``reproduce`` that each reads."""
OPTIONS = {"data": "FOLDER", "tasks": "FOLDER", "encoder": "NAME", "source": "FILE"}
"""The options of ``reproduce`` that parts read, and what each takes."""
SCALE_NAMES = ("smoke", "cpu", "encoder", "gpu", "paper")
"""All scales. ``encoder`` is that of experiments on a pretrained encoder, which have sizes of their own."""
TEXT_FILES = (DICTIONARY, "train.bin", "valid.bin")
ENVIRONMENT = ("command", "commit", "hardware", "versions", "data", "date", "seconds")


class Rows(list[Row]):
    """The rows of one or several results."""

    def select(self, metric: str, **where: Any) -> "Rows":
        """The rows of a metric with these values, in order."""
        return Rows(
            row for row in self if row.metric == metric and all(row.get(key) == value for key, value in where.items())
        )

    def find(self, metric: str, **where: Any) -> Row | None:
        """The first of ``select``, if any."""
        return next(iter(self.select(metric, **where)), None)

    def lines(self, name: str, x: str, label: str = "{}") -> dict[str, list[list[tuple[float, float]]]]:
        """The values over the column ``x``, for a chart: a line per value of the column ``name``, by ``label``."""
        found: dict[str, list[list[tuple[float, float]]]] = {}
        for row in sorted(self, key=lambda row: row[x]):
            found.setdefault(label.format(row[name]), [[]])[0].append((row[x], row.value))
        return {each: found[each] for each in dict.fromkeys(label.format(row[name]) for row in self)}


@dataclass
class Result:
    """What was measured of a part of an experiment, and its circumstances.

    Attributes:
        part: of the experiment; unique in its file.
        scale: one of ``SCALE_NAMES``.
        rows: what was measured.
        environment: ``ENVIRONMENT``.
        configuration: sizes and other facts that rules and tables read.
    """

    part: str
    scale: str
    rows: Rows
    environment: dict[str, Any]
    configuration: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> str:
        """A line per row."""
        head = {"part": self.part, "scale": self.scale, **self.environment, "configuration": self.configuration}
        rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in self.rows)
        return f'{json.dumps(head, indent=1, ensure_ascii=False)[:-2]},\n "rows": [\n  {rows}\n ]\n}}'


@dataclass(frozen=True)
class Inputs:
    """The part of an experiment to measure, and the arguments of ``reproduce``.

    Attributes:
        part, scale: of the experiment.
        command: for results; paths are reduced to their last part.
        runs: folder of the runs of all scales.
        data: folder of ``prepare pretraining``, a Path. It and the following are None unless the part reads them.
        tasks: folder with one folder per task, written by ``prepare TASK``, a Path.
        encoder: a model of ``transformers``, by its name on the hub or its folder.
        source: raw texts, as for ``prepare pretraining --source``.
        started: ``time.monotonic()`` before the part.
    """

    part: str
    scale: str
    command: str
    runs: Path
    data: Any = None
    tasks: Any = None
    encoder: Any = None
    source: Any = None
    started: float = field(default_factory=time.monotonic)

    @property
    def folder(self) -> Path:
        """Folder of the runs of this scale."""
        return self.runs.absolute() / self.scale

    def result(
        self, rows: Iterable[Row], data: str, configuration: Mapping[str, Any] | None = None, **measured: Any
    ) -> Result:
        """The result of the part.

        Args:
            data: what was read, with checksums.
            measured: commit, hardware, versions, date and seconds, where this process has not measured itself.
        """
        found = Rows(rows)  # an iterator measures here
        seconds = round(time.monotonic() - self.started, 3)
        circumstances = {"command": self.command, **provenance(), "data": data, "seconds": seconds, **measured}
        return Result(self.part, self.scale, found, circumstances, dict(configuration or {}))


def write(result: Result, path: Path) -> None:
    """Write a result into a file of results, in the place of the one of its part; another process may write another
    part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock(path.parent):
        results = {each.part: each for each in read(path)}
        results[result.part] = result
        with open_atomic(path) as file:
            file.write("[\n" + ",\n".join(each.as_json() for each in results.values()) + "\n]\n")


def read(path: Path) -> list[Result]:
    """The results in a file; none if it does not exist."""
    return [
        Result(
            each["part"],
            each["scale"],
            Rows(map(Row, each["rows"])),
            {name: each[name] for name in ENVIRONMENT},
            each["configuration"],
        )
        for each in (read_json(path) if path.exists() else [])
    ]


# Rows


def join(results: Iterable[Result], part: str = "") -> Rows:
    """The rows of several results: those whose part begins with ``part``."""
    return Rows(row for result in results if result.part.startswith(part) for row in result.rows)


def in_words(row: Row | None, digits: int = 3) -> str:
    """The value of a row and its extremes, for a cell of a table; a dash if there is no value.

    >>> in_words(Row(value=1.25, low=1.0, high=1.5)), in_words(None)
    ('1.25 [1, 1.5]', '-')
    """
    if not row:
        return "-"
    value, low, high = (
        f"{each:,.{max(digits, math.ceil(math.log10(abs(each) + 1)))}g}"  # integers in full, without an exponent
        for each in (row.value, row.low, row.high)
    )
    return value + f" [{low}, {high}]" * ("low" in row)


# Texts: the data folders that fairseq reads


def find_shards(text: Path, single: bool = False) -> list[Path]:
    """The data folders of a text written by ``prepare pretraining`` or ``fairseq-preprocess``; ValueError if there is
    none, or several although ``single``."""
    check_data_path(text, "--data")
    numbered = {int(path.name[5:]): path for path in text.glob("shard*") if path.name[5:].isdecimal()}
    shards = [text] if (text / DICTIONARY).is_file() else [numbered[i] for i in sorted(numbered)]
    for name in TEXT_FILES:
        if not shards or not (shards[0] / name).is_file():
            raise ValueError(f"--data {text} has no {name}; `fairseq-linformer prepare pretraining` writes it")
    if single and len(shards) > 1:
        raise ValueError(f"--data {text} must have one shard, got {len(shards)}; prepare it with --shards 1")
    return shards


def describe_files(sources: Iterable[Mapping[str, Any]]) -> str:
    """Names and checksums of the files of sources, as ``describe_source`` has them."""
    files = (file for source in sources for file in source["files"])
    return ", ".join(f"{Path(each['path']).name} {each['sha256'][:12]}" for each in files)


def describe_text(text: Path) -> str:
    """The sources of a text if it has a manifest, and the checksums of its files."""
    first, *others = find_shards(text)
    manifest = first.resolve().parent / "manifest.json"
    sources = f"made of {describe_files(read_json(manifest)['sources'])}; " if manifest.is_file() else ""
    parts = [first / name for name in TEXT_FILES] + [each / "train.bin" for each in others]
    sums = (f"{path.parent.name}/{path.name} {sha256(path)[:12]}" for path in parts)
    return f"{sources}sha256: {', '.join(sums)}"
