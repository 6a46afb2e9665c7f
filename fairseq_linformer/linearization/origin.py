"""OUT/origin.json of ``linearize``: source, teacher, text and options. A rerun must have the same."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..checkpoints.files import is_fairseq_checkpoint
from ..checkpoints.roberta import converted_init
from ..checkpoints.transformers_encoder import hash_weights
from ..data.tokenizer_files import DICTIONARY
from ..files import read_json, sha256, write_json
from ..models.distillation import TEACHER_KEY
from .options import TRAINING_OPTIONS, Linearization

ORIGIN = "origin.json"
MAX_HASHED_BYTES = 1 << 30
"""Of a file of the training text: hashing a larger one would delay the start."""
_EARLIER_DEFAULTS = {"amp": False, "short_seq_prob": 0.0, "projection_init": "staggered", "measure_at": [], "text": {}}
"""Values that the origin of an earlier version may lack."""


def write_origin(options: Linearization, teacher_sha256: str, folder: Path) -> None:
    origin = {**_describe_inputs(options), "source": _hash_source(options), TEACHER_KEY: teacher_sha256}
    write_json(folder / ORIGIN, origin)


def check_unfinished(options: Linearization, out: Path, teacher: Path) -> None:
    """Raise ValueError if OUT has another origin, or its teacher is missing or has changed."""
    stored = _read_origin(out)
    current = {**_describe_inputs(options), "source": _hash_source(options)}
    # An earlier version did not store the checksum of train.bin.
    current["text"] = {name: value for name, value in current["text"].items() if name in stored["text"]}
    _compare(stored, current, options, out)
    if is_fairseq_checkpoint(options.source):  # the source itself is the teacher
        return
    if not teacher.is_file():
        raise ValueError(f"the teacher {teacher} is missing; restore it, or choose another OUT")
    if stored.get(TEACHER_KEY) not in (None, sha256(teacher)):  # an earlier version did not store it
        raise ValueError(
            f"the teacher {teacher} differs from the one that {out} was started with; restore it, or choose another OUT"
        )


def check_finished(options: Linearization, out: Path, source: str) -> None:
    """Raise ValueError if a finished OUT has another origin.

    Files of the text that are missing are not compared, and of a missing source or a model on the hub only the name.

    Args:
        source: that of OUT, as in its report.
    """
    stored, current = _read_origin(out), _describe_inputs(options)
    names = stored["text"].keys() & current["text"].keys()
    for origin in (stored, current):
        origin["text"] = {name: origin["text"][name] for name in names}
    if Path(options.source).exists():
        current["source"] = _hash_source(options)
    elif source in (options.source, Path(options.source).name):
        current["source"] = stored.get("source")
    else:
        raise ValueError(f"{out} was converted from {source}, got {options.source}; choose another OUT")
    _compare(stored, current, options, out)


def name_source(options: Linearization) -> str:
    """The name of a file or folder, or the full name of a model on the hub."""
    return Path(options.source).name if Path(options.source).exists() else options.source


def describe_options(options: Linearization) -> dict[str, Any]:
    """The options as JSON has them, without source and text."""
    values = {key: value for key, value in asdict(options).items() if key not in ("source", "text")}
    model = {key: value for key, value in options.model.items() if key != "projection_init"}
    values |= {"model": model, "projection_init": converted_init(options.model)}
    described: dict[str, Any] = json.loads(json.dumps(values))
    return described


def read_stored(path: Path, advice: str = "restore it, or delete it and rerun") -> dict[str, Any]:
    """Read a JSON file of OUT; ValueError if it is missing or damaged."""
    try:
        return dict(read_json(path))
    except (OSError, ValueError, TypeError):
        raise ValueError(f"{path} is missing or damaged; {advice}") from None


def _read_origin(out: Path) -> dict[str, Any]:
    return {**_EARLIER_DEFAULTS, **read_stored(out / ORIGIN, "choose another OUT")}


def _describe_inputs(options: Linearization) -> dict[str, Any]:
    """The options, and checksums of those files of the training text that exist and are not too large."""
    files = [Path(options.text) / name for name in (DICTIONARY, "train.idx", "train.bin")]
    hashed = [path for path in files if path.is_file() and path.stat().st_size <= MAX_HASHED_BYTES]
    return {**describe_options(options), "text": {path.name: sha256(path) for path in hashed}}


def _hash_source(options: Linearization) -> str:
    if not is_fairseq_checkpoint(options.source):
        return hash_weights(options.source)
    if not Path(options.source).is_file():
        raise ValueError(f"{options.source} is missing; restore it, or choose another OUT")
    return sha256(options.source)


def _compare(stored: dict[str, Any], current: dict[str, Any], options: Linearization, out: Path) -> None:
    """Raise ValueError at the first difference of two origins, except in options that have no effect."""
    for key in ("source", "text"):
        if stored.get(key) != current[key]:
            raise ValueError(
                f"{getattr(options, key)} differs from the one that {out} was started with; pass that one, or choose "
                "another OUT"
            )
    stored, current = ({**origin, **origin["model"]} for origin in (stored, current))
    ignored = {"source", "text", "model", TEACHER_KEY, *(() if options.max_update else (*TRAINING_OPTIONS, "device"))}
    # First, because another max_update also changes which options are compared.
    for key in sorted({*stored, *current} - ignored, key=lambda key: (key != "max_update", key)):
        expected, value = ("unset" if each.get(key) is None else each[key] for each in (stored, current))
        if expected != value:
            raise ValueError(f"{key} of {out} must be {expected}, got {value}; choose another OUT")
