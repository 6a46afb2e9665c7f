"""The ledger: one JSON file in ``results/`` for each thing that was measured.

A record holds all that is needed to believe its numbers and to measure them again. One that lacks a field is rejected, and so
is one that was edited after it was written. Reports are made from records alone.
"""

import datetime
import hashlib
import json
import os
from pathlib import Path
from subprocess import CalledProcessError
from typing import Annotated, Any, Iterable, Iterator, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..files import atomic, read_json
from ..machine import current_commit, provenance

SCHEMA = 2
Scale = Literal["smoke", "cpu", "gpu", "paper"]
Number = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
Pair = Annotated[tuple[Number, Number], Field(strict=False)]  # JSON has lists
PLACES = ("model", "baseline", "n", "baseline_n", "k", "sharing", "seed", "task", "split", "phase", "part", "source", "layer",
          "head", "matrix", "head_dim", "epsilon", "delta", "approximation")  # fmt: skip
"""Fields of a measurement that say where it was taken."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    def __init__(self, **fields: Any):
        """
        Raises:
            ValueError: a field is missing or wrong; one sentence.
        """
        try:
            super().__init__(**fields)
        except ValidationError as error:
            name = fields.get("identifier") or fields.get("metric") or ""
            raise ValueError(f"{type(self).__name__.lower()} {name!r}: {_first_problem(error)}") from None


def _first_problem(error: ValidationError) -> str:
    """The first of pydantic's errors: the field, and what is wrong with it."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    return f"{field}: {first['msg']}" if field else first["msg"]


class Measurement(_Strict):
    """One number.

    Attributes:
        metric: what was measured, such as ``perplexity`` or ``time_ratio``.
        interval: lowest and highest of the repetitions; or, if ``interval_kind`` says so, a 95 % confidence interval.
        repetitions: runs, rounds, draws or sentences behind the value.

    The other fields say where it was taken. One that does not apply is None.

    Attributes:
        model: label of the model, unique in its record.
        baseline: of a ratio, the model that it is relative to (times: baseline over model).
        n, baseline_n: sequence length, and that of the baseline where it differs.
        k: projected dimension.
        seed: of the run, from 1.
        phase: ``pretraining`` or ``finetuning``.
        part: of a training update, such as ``forward``.
        source: the attention matrices that were analyzed: random ones, or a model and a text.
        layer, head: from 1. matrix: E or F of a layer. head_dim: d.
        approximation: what stands for P or P V.
    """

    metric: Text
    value: Number
    unit: Text
    interval: Pair | None = None
    interval_kind: Literal["range", "confidence"] = "range"
    repetitions: Annotated[int, Field(ge=1)] = 1
    model: str | None = None
    baseline: str | None = None
    n: int | None = None
    baseline_n: int | None = None
    k: int | None = None
    sharing: str | None = None
    seed: int | None = None
    task: str | None = None
    split: str | None = None
    phase: str | None = None
    part: str | None = None
    source: str | None = None
    layer: int | None = None
    head: int | None = None
    matrix: str | None = None
    head_dim: int | None = None
    epsilon: float | None = None
    delta: str | None = None
    approximation: str | None = None

    @model_validator(mode="after")
    def _consistent(self):
        if self.interval_kind == "range" and (self.repetitions > 1) != (self.interval is not None):
            raise ValueError(f"{self.repetitions} repetitions with interval {self.interval}; an interval is needed for several repetitions, and not allowed for one")
        if self.interval is not None and not self.interval[0] <= self.value <= self.interval[1]:
            raise ValueError(f"interval is {self.interval}; it must be the lowest and the highest, around {self.value}")
        return self

    @property
    def low(self) -> float:
        return self.value if self.interval is None else self.interval[0]

    @property
    def high(self) -> float:
        return self.value if self.interval is None else self.interval[1]

    @property
    def place(self) -> tuple:
        """Everything but the number; unique in a record."""
        return self.metric, *(getattr(self, name) for name in PLACES)

    def __str__(self) -> str:
        at = {name: getattr(self, name) for name in PLACES if getattr(self, name) is not None}
        return self.metric + f" ({', '.join(f'{name} {value}' for name, value in at.items())})" * bool(at)


class Curve(_Strict):
    """Points (x, y) of one run: validation bits over updates, or a spectrum over its index."""

    metric: Text
    points: Annotated[list[Pair], Field(min_length=1)]
    model: str | None = None
    n: int | None = None
    seed: int | None = None
    source: str | None = None
    layer: int | None = None


class Paper(_Strict):
    """What the paper prints, and where; the value is None where it prints no number."""

    where: Text
    value: Any = None


class Record(_Strict):
    """What was measured by one command.

    Attributes:
        identifier: also the name of the file.
        experiment: of the registry that it belongs to; None for none.
        made_by: the command: ``reproduce``; another one, whose sizes the user chose; or ``script`` for an earlier measurement
            that is shown, and from which no verdict follows.
        claim: what the numbers are about, in a sentence.
        configuration: all that the numbers depend on.
        data: the files read, with their checksums.
        tolerance: by unit, how far a repeated measurement may differ: a share, or for exponents an amount.
        rules: of each claim, as it read before the first run.
        date: year-month-day.
        seal: SHA-256 of the rest; it detects an accidental edit, and is no signature.
    """

    schema_version: Literal[2] = SCHEMA
    identifier: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    experiment: str | None = None
    made_by: Literal["reproduce", "benchmark", "finetune", "analyze", "script"]
    claim: Text
    paper: Paper
    measurements: Annotated[list[Measurement], Field(min_length=1)]
    curves: list[Curve] = []
    scale: Scale
    hardware: Annotated[dict[str, Any], Field(min_length=1)]
    versions: Annotated[dict[str, str], Field(min_length=1)]
    commit: Text
    configuration: Annotated[dict[str, Any], Field(min_length=1)]
    data: Text
    command: Text
    seconds: Annotated[Number, Field(gt=0)]
    date: str
    tolerance: dict[str, Number] | None = None
    rules: dict[str, str] | None = None
    seal: str = ""

    @model_validator(mode="after")
    def _consistent(self):
        if datetime.date.fromisoformat(self.date).isoformat() != self.date:
            raise ValueError(f"date is {self.date}; it must be year-month-day")
        if not isinstance(self.hardware.get("accelerators", []), list):
            raise ValueError(f"hardware.accelerators is {self.hardware['accelerators']!r}; it must be a list")
        seen: set[tuple] = set()
        for measurement in self.measurements:
            if measurement.place in seen:
                raise ValueError(f"{measurement} is measured twice")
            seen.add(measurement.place)
        # Its ValueError names what no file can hold: NaN, or half a surrogate pair.
        json.dumps(self.model_dump(mode="python"), ensure_ascii=False, allow_nan=False).encode()
        return self

    def select(self, metric: str, **places: Any) -> list[Measurement]:
        """The measurements of a metric at places, in the order of the record."""
        return [m for m in self.measurements if m.metric == metric and all(getattr(m, at) == value for at, value in places.items())]

    def find(self, metric: str, **places: Any) -> Measurement | None:
        """The first of ``select``, if any."""
        return next(iter(self.select(metric, **places)), None)

    def content(self) -> dict[str, Any]:
        """As JSON holds it, without the seal."""
        content = json.loads(json.dumps(self.model_dump(exclude={"seal"})))
        for part in ("measurements", "curves"):
            content[part] = [each.model_dump(mode="json", exclude_defaults=True) for each in getattr(self, part)]
        return content

    def changed(self, **fields: Any) -> "Record":
        """A copy with other fields, validated again and without a seal."""
        return Record(**{**{name: getattr(self, name) for name in type(self).model_fields}, "seal": "", **fields})


def fingerprint(content: Any) -> str:
    """SHA-256 of what a JSON file holds, whatever the order of its keys."""
    content = json.loads(json.dumps(content))  # keys are strings from here on
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def write(record: Record, folder) -> Path:
    """Write ``FOLDER/IDENTIFIER.json`` with its seal, replacing what is there. ``put`` never overwrites."""
    path = Path(folder) / f"{record.identifier}.json"
    content = record.content()
    with atomic(path) as file:
        file.write(json.dumps({**content, "seal": fingerprint(content)}, indent=1) + "\n")
    return path


def put(record: Record, folder) -> Path:
    """Write a record unless it is there already.

    Raises:
        ValueError: a different measurement is there under its name.
    """
    path = Path(folder) / f"{record.identifier}.json"
    if not path.exists():
        return write(record, folder)
    there, here = read(path).content(), record.content()
    same = ("experiment", "made_by", "scale", "measurements", "data", "configuration")
    if any(there[name] != here[name] for name in same):
        raise ValueError(f"{path} holds a different measurement and is never overwritten; use another --ledger, or move it away")
    return path


def grow(record: Record, folder) -> Path:
    """Write a record of benchmark cells, or replace it by one that has all its measurements and more.

    Raises:
        ValueError: another command's record is there under its name, or one with measurements that this one lacks.
    """
    path = Path(folder) / f"{record.identifier}.json"
    if path.exists():
        there = read(path)
        lost = {m.place for m in there.measurements} - {m.place for m in record.measurements}
        advice = "use the folder of its cells, or another --results"
        if there.made_by != record.made_by:
            raise ValueError(f"{path} was made by {there.made_by}; {advice}")
        if lost:
            raise ValueError(f"{path} has {len(lost)} measurements that these cells lack; {advice}")
    return write(record, folder)


def read(path) -> Record:
    """
    Raises:
        ValueError: the file is no record, lacks a field, or was edited.
    """
    path = Path(path)
    try:
        content = read_json(path)
        record = Record.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise ValueError(f"{path} is not a record: {_first_problem(error)}") from None
    except (TypeError, ValueError, OSError) as error:
        raise ValueError(f"{path} is not a record: {error}") from None
    if record.identifier != path.stem:
        raise ValueError(f"{path} is not a record: its identifier is {record.identifier}")
    if record.seal != fingerprint({name: value for name, value in content.items() if name != "seal"}):
        raise ValueError(f"{path} was edited after it was written: its seal does not match; restore the file, or measure again")
    return record


def read_all(folder) -> list[Record]:
    """Every record in a folder, by name.

    Raises:
        ValueError: there is no folder or no record, or one is rejected.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"{folder} has no records: there is no such folder")
    if not (found := records(folder)):
        raise ValueError(f"{folder} has no records; `fairseq-linformer reproduce` writes them")
    return found


def records(folder) -> list[Record]:
    """Every record in a folder, by name; empty if there is no folder or no record.

    Raises:
        ValueError: a file is rejected.
    """
    return [read(path) for path in sorted(Path(folder).glob("*.json"))]


def reproduced(records: Iterable[Record], experiment: str, scale: str) -> list[Record]:
    """The records of an experiment at a scale that ``reproduce`` made."""
    return [r for r in records if (r.experiment, r.scale, r.made_by) == (experiment, scale, "reproduce")]


def check_ledger(folder) -> None:
    """Before hours of work: can a record be written after it?

    Raises:
        ValueError: the folder is missing or not writable, a file in it is rejected, or the package is not in a git repository.
    """
    if not os.access(folder, os.W_OK) or not Path(folder).is_dir():
        raise ValueError(f"--ledger is {folder}; it must be a writable folder")
    records(folder)
    try:
        current_commit()
    except (OSError, CalledProcessError):
        raise ValueError("--ledger needs this package to be in a git repository: a record names the commit that it was measured with") from None


def circumstances(data: str, command: str, scale: str = "cpu") -> dict[str, Any]:
    """The fields that all records of one command on this machine share."""
    here = provenance()
    return {"scale": scale, "data": data, "command": command, **{name: here[name] for name in ("hardware", "versions", "date")}}


def over_repetitions(values: list[float], digits: int = 6) -> Iterator[tuple[str, Any]]:
    """``value`` (the median), ``interval`` and ``repetitions`` of a measurement, rounded to significant digits."""
    from statistics import median

    rounded = [significant(value, digits) for value in values]
    yield "value", significant(median(rounded), digits)
    yield "interval", (min(rounded), max(rounded)) if len(rounded) > 1 else None
    yield "repetitions", len(rounded)


def significant(value: float, digits: int = 6) -> float:
    return float(f"{float(value):.{digits}g}")
