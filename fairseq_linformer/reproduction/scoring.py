"""Results of finished runs: perplexity of the last checkpoint, validation curve, provenance.

Files:

    RUN/perplexity.json                     of the last checkpoint, measured once
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..checkpoints.files import read_checkpoint
from ..evaluation.perplexity import SEED, compute_perplexity
from ..fairseq_log import read_curve
from ..files import read_sealed, write_sealed
from ..launching.checkpoints import LAST
from ..launching.run_folder import CHECKPOINTS, LOGS, read_config, training_provenance
from .records import Curve, Measurement, summarize_repetitions
from .text import checksums, digest, find_shards

PERPLEXITY = "perplexity.json"
MASKS = f"15 %, of seed {SEED}, on the validation split"
_ADVICE = "remove it and rerun the command to measure it again"
_COMPARED_OPTIONS = (
    *(
        ("model", option)
        for option in ("projected_dim", "sharing", "projection", "projection_init", "projection_lr_scale")
    ),
    ("task", "tokens_per_sample"),
    ("common", "seed"),
)


@dataclass(frozen=True)
class FinishedRun:
    """A finished run.

    Attributes:
        folder: its run folder.
        n, updates: of its configuration.
        initial_checkpoint: that it started from, if any.
    """

    folder: Path
    n: int
    updates: int
    initial_checkpoint: Path | None = None

    @property
    def last_checkpoint(self) -> Path:
        """Its last checkpoint."""
        return self.folder / CHECKPOINTS / LAST

    @property
    def is_scored(self) -> bool:
        return (self.folder / PERPLEXITY).exists()


def measure_perplexity(run: FinishedRun, text, device: str) -> dict[str, Any]:
    """``evaluation.perplexity`` of the last checkpoint on the validation split, with the masks of one seed.

    Args:
        device: ``cpu`` or ``cuda``.

    Raises:
        ValueError: the file is damaged, or of another text or checkpoint; or the checkpoint is not of this run.
    """
    if run.is_scored:
        return read_perplexity(run, text)
    check_last_checkpoint(run)
    found = asdict(compute_perplexity(run.last_checkpoint, find_shards(text)[0], seed=SEED, device=device))
    found |= _depends_on(run, text)
    write_sealed(run.folder / PERPLEXITY, found)
    return read_perplexity(run, text)


def read_perplexity(run: FinishedRun, text) -> dict[str, Any]:
    """Read the file that ``measure_perplexity`` wrote.

    Raises:
        ValueError: it is damaged, or of another text or checkpoint.
    """
    path = run.folder / PERPLEXITY
    found = read_scores(path, _depends_on(run, text), ("perplexity", "bits"))
    if not all(isinstance(found[name], float) and math.isfinite(found[name]) for name in ("perplexity", "bits")):
        raise ValueError(
            f"{path} must have finite perplexity and bits, got {found['perplexity']} and {found['bits']}; {_ADVICE}"
        )
    return found


def read_scores(path: Path, source: Mapping[str, Any], needed: Sequence[str]) -> dict[str, Any]:
    """Read a sealed file of scores.

    Args:
        source: what the scores must be of.
        needed: the other entries that it must have.

    Raises:
        ValueError: it is missing, edited or damaged, lacks an entry, or is of another source.
    """
    try:
        found = read_sealed(path)
    except ValueError as error:
        raise ValueError(f"{error}; {_ADVICE}") from None
    if not {*source, *needed} <= found.keys():
        raise ValueError(f"{path} is of an earlier version; {_ADVICE}")
    for name, current in source.items():
        if found[name] != current:
            raise ValueError(f"{path} was measured on another {name}; {_ADVICE}")
    return found


def _depends_on(run: FinishedRun, text) -> dict[str, Any]:
    return {"checkpoint": digest(run.last_checkpoint), "text": checksums(text)}


def check_finished_run(run: FinishedRun, text) -> None:
    """Check, before other runs are trained, that a finished one has all that a record needs.

    Raises:
        ValueError: its last checkpoint, its start, its provenance or its perplexity is missing or damaged.
    """
    try:
        provenance([run.folder])
        check_last_checkpoint(run)
        validation_curve(run.folder, run.updates)
    except (OSError, ValueError) as error:
        raise ValueError(f"{error}; move {run.folder} away and rerun the command to train it again") from None
    if run.initial_checkpoint is not None and run.initial_checkpoint.exists():
        try:
            read_checkpoint(run.initial_checkpoint)
        except (OSError, ValueError) as error:
            raise ValueError(f"{error}; remove it and rerun the command to write it again") from None
    if run.is_scored:
        read_perplexity(run, text)


def check_last_checkpoint(run: FinishedRun) -> None:
    """
    Raises:
        ValueError: the last checkpoint is of another run, or not of the last update.
    """
    checkpoint, config = read_checkpoint(run.last_checkpoint), read_config(run.folder)
    for section, key in _COMPARED_OPTIONS:
        stored, configured = (_option(cfg, section, key) for cfg in (checkpoint["cfg"], config))
        if stored != configured:
            raise ValueError(
                f"{run.last_checkpoint} must be of the run {run.folder}, "
                f"whose {section}.{key} is {configured}; got {stored}"
            )
    updates = (checkpoint.get("optimizer_history") or [{}])[-1].get("num_updates")
    if updates != run.updates:
        raise ValueError(f"{run.last_checkpoint} must be of the last update, {run.updates}, got update {updates}")


def _option(cfg: Any, section: str, key: str) -> str | None:
    """The option as a string, or None if missing or None: RoBERTa has no k, and may have a Namespace, not a mapping."""
    node = cfg[section]
    value = node.get(key) if hasattr(node, "get") else getattr(node, key, None)
    return None if value is None else str(value)


def provenance(folders: Sequence[Path]) -> dict[str, Any]:
    """Commit, hardware, versions and last date of runs, for a record.

    Raises:
        ValueError: a run has no provenance, or was trained outside a git repository.
    """
    if not all(training_provenance(folder)["commit"] for folder in folders):
        raise ValueError("a record needs the commit of each run, but a run was trained outside a git repository")
    return training_provenance(*folders)


def validation_curve(folder: Path, updates: int) -> list[tuple[int, float]]:
    """(update, bits per predicted token), from fairseq's log of every attempt.

    Args:
        updates: of the whole run.

    Raises:
        ValueError: there is no curve, or it ends before the run does.
    """
    logs = sorted((folder / LOGS).rglob("*.txt"), key=lambda path: path.stat().st_mtime)
    points = read_curve(
        (line for path in logs for line in path.read_text(encoding="utf-8", errors="replace").splitlines()),
        "valid",
        "loss",
    )
    if not points:
        raise ValueError(f"{folder} has no validation curve: {LOGS}/ must have fairseq's JSON log")
    if (last := points[-1][0]) < updates:
        raise ValueError(f"the validation curve of {folder} must end at update {updates:,}, got {last:,}")
    return points


def perplexity_measurements(
    scores: Sequence[Mapping[str, float]], seeds: Sequence[int], **fields: Any
) -> Iterator[Measurement]:
    """Perplexity and bits of a model: medians over its seeds, and bits of each seed.

    Args:
        scores: ``perplexity`` and ``bits`` of each seed.
    """
    for metric in ("perplexity", "bits"):
        yield Measurement(metric=metric, unit=metric, **fields, **summarize_repetitions([s[metric] for s in scores]))
    for seed, score in zip(seeds, scores, strict=True):
        yield Measurement(metric="bits", unit="bits", value=score["bits"], seed=seed, **fields)


def bits_curve(run: FinishedRun, model: str, seed: int) -> Curve:
    """``validation_curve`` for a record."""
    points = [(float(update), round(bits, 4)) for update, bits in validation_curve(run.folder, run.updates)]
    return Curve(metric="bits", model=model, seed=seed, points=points)
