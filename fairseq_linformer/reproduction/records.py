"""Records: what one command measured, with all that is needed to trust the numbers and to measure them again.

``ledger.py`` keeps each in a file. A record that lacks a field is rejected. Reports are built from records alone.
"""

import datetime
import json
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..machine import provenance

SCHEMA: Final = 2
ScaleName = Literal["smoke", "cpu", "encoder", "gpu", "paper"]
Number = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
Pair = Annotated[tuple[Number, Number], Field(strict=False)]  # JSON has lists
TRAINING = "training"
"""The part of a configuration with the options of trained runs. Records from before 2026-11-23 lack it."""
KEY_FIELDS = """
    model baseline n baseline_n k sharing seed task split phase part source layer head matrix head_dim epsilon delta
    approximation
""".split()
"""Fields of a measurement that say where it was taken."""


class _StrictModel(BaseModel):
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
            raise ValueError(f"{type(self).__name__.lower()} {name!r}: {first_problem(error)}") from None


def first_problem(error: ValidationError) -> str:
    """The first of pydantic's errors: the field, and what is wrong with it."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    return f"{field}: {first['msg']}" if field else first["msg"]


if TYPE_CHECKING:
    # Every metric has its own key fields; a type checker cannot know which of them are set.
    KeyStr: TypeAlias = Any
    KeyInt: TypeAlias = Any
    KeyFloat: TypeAlias = Any
else:
    KeyStr, KeyInt, KeyFloat = str | None, int | None, float | None


class Measurement(_StrictModel):
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
        phase: ``pretraining``, ``finetuning``, ``training step`` or ``inference``.
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
    model: KeyStr = None
    baseline: KeyStr = None
    n: KeyInt = None
    baseline_n: KeyInt = None
    k: KeyInt = None
    sharing: KeyStr = None
    seed: KeyInt = None
    task: KeyStr = None
    split: KeyStr = None
    phase: KeyStr = None
    part: KeyStr = None
    source: KeyStr = None
    layer: KeyInt = None
    head: KeyInt = None
    matrix: KeyStr = None
    head_dim: KeyInt = None
    epsilon: KeyFloat = None
    delta: KeyStr = None
    approximation: KeyStr = None

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.interval_kind == "range" and (self.repetitions > 1) != (self.interval is not None):
            raise ValueError(
                f"interval must be set if and only if there are several repetitions, "
                f"got {self.interval} for {self.repetitions} repetitions"
            )
        if self.interval is not None and not self.interval[0] <= self.value <= self.interval[1]:
            raise ValueError(f"interval must be (lowest, highest) around {self.value}, got {self.interval}")
        return self

    @property
    def low(self) -> float:
        return self.value if self.interval is None else self.interval[0]

    @property
    def high(self) -> float:
        return self.value if self.interval is None else self.interval[1]

    @property
    def key(self) -> tuple:
        """Everything but the number; unique in a record."""
        return self.metric, *(getattr(self, name) for name in KEY_FIELDS)

    def __str__(self) -> str:
        at = {name: getattr(self, name) for name in KEY_FIELDS if getattr(self, name) is not None}
        return self.metric + f" ({', '.join(f'{name} {value}' for name, value in at.items())})" * bool(at)


class Curve(_StrictModel):
    """Points (x, y) of one run: validation bits over updates, or a spectrum over its index."""

    metric: Text
    points: Annotated[list[Pair], Field(min_length=1)]
    model: str | None = None
    n: int | None = None
    seed: int | None = None
    source: str | None = None
    layer: int | None = None


class Paper(_StrictModel):
    """What the paper prints, and where; the value is None where it prints no number."""

    where: Text
    value: Any = None


class Record(_StrictModel):
    """What was measured by one command.

    Attributes:
        identifier: also the name of the file.
        experiment: of the registry that it belongs to; None for none.
        made_by: the command: ``reproduce``; another one, whose sizes the user chose; or ``script`` for an earlier
            measurement, which the report shows without a verdict.
        claim: what the numbers are about, in a sentence.
        configuration: all that the numbers depend on.
        data: the files read, with their checksums.
        tolerance: by unit, how far a repeated measurement may differ: a share, or for exponents an amount.
        date: year-month-day.
    """

    schema_version: Literal[2] = SCHEMA
    identifier: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    experiment: str | None = None
    made_by: Literal["reproduce", "benchmark", "finetune", "analyze", "script"]
    claim: Text
    paper: Paper
    measurements: Annotated[list[Measurement], Field(min_length=1)]
    curves: list[Curve] = []
    scale: ScaleName
    hardware: Annotated[dict[str, Any], Field(min_length=1)]
    versions: Annotated[dict[str, str], Field(min_length=1)]
    commit: Text
    configuration: Annotated[dict[str, Any], Field(min_length=1)]
    data: Text
    command: Text
    seconds: Annotated[Number, Field(gt=0)]
    date: str
    tolerance: dict[str, Number] | None = None

    @field_validator("configuration", mode="before")
    @classmethod
    def _as_json(cls, configuration: Any) -> Any:
        """As JSON stores it: lists for tuples, and strings for keys."""
        return as_json(configuration)

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if datetime.date.fromisoformat(self.date).isoformat() != self.date:
            raise ValueError(f"date must be YYYY-MM-DD, got {self.date}")
        if not isinstance(self.hardware.get("accelerators", []), list):
            raise ValueError(f"hardware.accelerators must be a list, got {self.hardware['accelerators']!r}")
        seen: set[tuple] = set()
        for measurement in self.measurements:
            if measurement.key in seen:
                raise ValueError(f"measurements must be unique, got {measurement} twice")
            seen.add(measurement.key)
        # Raises a ValueError for what JSON files cannot hold: NaN, or half a surrogate pair.
        json.dumps(self.model_dump(mode="python"), ensure_ascii=False, allow_nan=False).encode()
        return self

    def select(self, metric: str, **fields: Any) -> list[Measurement]:
        """The measurements of a metric with these fields, in the order of the record."""
        return [
            m
            for m in self.measurements
            if m.metric == metric and all(getattr(m, name) == value for name, value in fields.items())
        ]

    def find(self, metric: str, **fields: Any) -> Measurement | None:
        """The first of ``select``, if any."""
        return next(iter(self.select(metric, **fields)), None)

    def content(self) -> dict[str, Any]:
        """As JSON holds it."""
        content = json.loads(json.dumps(self.model_dump()))
        for part in ("measurements", "curves"):
            content[part] = [each.model_dump(mode="json", exclude_defaults=True) for each in getattr(self, part)]
        return content

    def copy_with(self, **fields: Any) -> "Record":
        """A copy with other fields, validated again."""
        return Record(**{**{name: getattr(self, name) for name in type(self).model_fields}, **fields})


def select_reproduced(records: Iterable[Record], experiment: str, scale: str) -> list[Record]:
    """The records of an experiment at a scale that ``reproduce`` made."""
    return [r for r in records if (r.experiment, r.scale, r.made_by) == (experiment, scale, "reproduce")]


def as_json(value: Any) -> Any:
    """A value as JSON holds it; ValueError if it cannot."""
    try:
        return json.loads(json.dumps(value))
    except TypeError as error:
        raise ValueError(str(error)) from None


def circumstances(data: str, command: str, scale: str) -> dict[str, Any]:
    """The fields that all records of one command on this machine share."""
    environment = provenance()
    return {
        "scale": scale,
        "data": data,
        "command": command,
        **{name: environment[name] for name in ("hardware", "versions", "date")},
    }


def summarize_repetitions(values: Sequence[float]) -> dict[str, Any]:
    """``value`` (the median), ``interval`` and ``repetitions`` of a measurement, rounded to significant digits."""
    rounded = [significant(value) for value in values]
    interval = (min(rounded), max(rounded)) if len(rounded) > 1 else None
    return {"value": significant(median(rounded)), "interval": interval, "repetitions": len(rounded)}


def significant(value: float, digits: int = 6) -> float:
    """Round to significant digits."""
    return float(f"{float(value):.{digits}g}")
