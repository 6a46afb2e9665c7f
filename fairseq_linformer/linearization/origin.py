"""OUT/origin.json of ``linearize``: source, teacher, text and options. A rerun must have the same."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..checkpoints.files import is_fairseq_checkpoint
from ..checkpoints.roberta import converted_init
from ..checkpoints.transformers_encoder import hash_weights
from ..corpus.tokenizer_files import DICTIONARY
from ..files import read_json, sha256, write_lines
from ..models.recorded_files import MAX_HASHED_BYTES
from .options import TRAINING_OPTIONS, Linearization

ORIGIN = "origin.json"
_TEACHER = "teacher_sha256"
_EARLIER_DEFAULTS = {"amp": False, "short_seq_prob": 0.0, "projection_init": "staggered", "measure_at": [], "text": {}}
"""Values that the origin of an earlier version may lack."""


def write_origin(options: Linearization, teacher_sha256: str, folder: Path) -> None:
    origin = {
        **_stored_values(options),
        "source": _hash_source(options),
        "text": _hash_text(options),
        _TEACHER: teacher_sha256,
    }
    write_lines(folder / ORIGIN, [json.dumps(origin, indent=1)])


def check_unfinished(options: Linearization, out: Path, teacher: Path) -> None:
    """Raise ValueError if OUT has another origin, or its teacher is missing or has changed."""
    if not teacher.is_file():
        raise ValueError(f"the teacher {teacher} is missing; restore it, or choose another OUT")
    stored = _read_origin(out)
    current = {**_stored_values(options), "source": _hash_source(options), "text": _hash_text(options)}
    # An earlier version stored neither the checksum of train.bin nor that of the teacher.
    current["text"] = {name: value for name, value in current["text"].items() if name in stored["text"]}
    if _TEACHER in stored:
        current[_TEACHER] = sha256(teacher)
    _compare(stored, current, options, out, teacher)


def check_finished(options: Linearization, out: Path, source: str) -> None:
    """Raise ValueError if a finished OUT has another origin. A source or text that is gone is not compared.

    Args:
        source: name of the source that OUT was converted from.
    """
    stored = _read_origin(out)
    current = {**_stored_values(options), "text": _hash_text(options)}
    names = stored["text"].keys() & current["text"].keys()
    for origin in (stored, current):
        origin["text"] = {name: origin["text"][name] for name in names}
    stored.pop(_TEACHER, None)  # no longer needed
    if Path(options.source).exists():
        current["source"] = _hash_source(options)
    else:
        stored.pop("source", None)
        if source != Path(options.source).name:
            raise ValueError(f"{out} was converted from {source}, got {options.source}")
    _compare(stored, current, options, out)


def stored_options(options: Linearization) -> dict[str, Any]:
    """The options for files in OUT, without the paths of source and text."""
    values = {key: value for key, value in asdict(options).items() if key not in ("source", "text")}
    model = {key: value for key, value in options.model.items() if key != "projection_init"}
    return {**values, "model": model, "projection_init": converted_init(options.model)}


def read_stored(path: Path) -> dict[str, Any]:
    """Read a JSON file of OUT; ValueError if it is missing or damaged."""
    try:
        return dict(read_json(path))
    except (OSError, ValueError, TypeError):
        raise ValueError(f"{path} is missing or damaged; choose another OUT") from None


def _read_origin(out: Path) -> dict[str, Any]:
    return {**_EARLIER_DEFAULTS, **read_stored(out / ORIGIN)}


def _stored_values(options: Linearization) -> dict[str, Any]:
    """``stored_options`` as JSON holds them."""
    values: dict[str, Any] = json.loads(json.dumps(stored_options(options)))
    return values


def _hash_source(options: Linearization) -> str:
    return sha256(options.source) if is_fairseq_checkpoint(options.source) else hash_weights(options.source)


def _hash_text(options: Linearization) -> dict[str, str]:
    """SHA-256 of the files of the training text that exist and are not too large."""
    files = [Path(options.text) / name for name in (DICTIONARY, "train.idx", "train.bin")]
    return {path.name: sha256(path) for path in files if path.is_file() and path.stat().st_size <= MAX_HASHED_BYTES}


def _compare(
    stored: dict[str, Any], current: dict[str, Any], options: Linearization, out: Path, teacher: Path | None = None
) -> None:
    """Raise ValueError at the first difference of two origins."""
    paths = {"text": options.text, "source": options.source, _TEACHER: teacher}
    for key in sorted({*stored, *current} - {*(() if options.max_update else TRAINING_OPTIONS)}):
        if stored.get(key) == current.get(key):
            continue
        if key in paths:
            raise ValueError(
                f"{paths[key]} differs from the one that {out} was started with; pass that one, or choose another OUT"
            )
        raise ValueError(f"{key} of {out} must be {stored.get(key)}, got {current.get(key)}; choose another OUT")
