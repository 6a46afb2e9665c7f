"""What finished runs show: perplexity of the last checkpoint, validation curve, provenance.

    RUN/perplexity.json               of the last checkpoint, measured once
    RUNS/SCALE/rules/EXPERIMENT.json  the rules of its claims, from before its first run
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..checkpoints.files import read_checkpoint
from ..evaluation.perplexity import SEED, measure
from ..fairseq_log import curve
from ..files import atomic, read_json
from ..launching.checkpoints import LAST
from ..launching.run_folder import CHECKPOINTS, LOGS, read_config, training_provenance
from .records import fingerprint
from .registry import Claim
from .text import digest, shards_of, sums

PERPLEXITY = "perplexity.json"
MASKS = f"15 %, of seed {SEED}, on the validation split"
_SAME = (
    *(("model", option) for option in ("projected_dim", "sharing", "projection", "projection_init", "projection_lr_scale")),
    ("task", "tokens_per_sample"), ("common", "seed"),
)  # fmt: skip


@dataclass(frozen=True)
class Trained:
    """A finished run.

    Attributes:
        folder: its run folder.
        n, updates: of its configuration.
        start: the checkpoint that it started from, if any.
    """

    folder: Path
    n: int
    updates: int
    start: Path | None = None

    @property
    def last(self) -> Path:
        """Its last checkpoint."""
        return self.folder / CHECKPOINTS / LAST

    @property
    def is_scored(self) -> bool:
        return (self.folder / PERPLEXITY).exists()


def perplexity(run: Trained, text, device: str, again: bool = False) -> dict[str, Any]:
    """``evaluation.perplexity`` of the last checkpoint on the validation split, with the masks of one seed.

    Args:
        device: ``cpu`` or ``gpu``.
        again: measure it although it was measured before, and leave what was written.

    Raises:
        ValueError: what was written is damaged, or of another text or checkpoint; or the checkpoint is not of this run.
    """
    if run.is_scored and not again:
        return read_perplexity(run, text)
    check_last(run)
    found = asdict(measure(run.last, shards_of(text)[0], seed=SEED, device={"gpu": "cuda"}.get(device, device)))
    if again:
        return found
    found |= _depends_on(run, text)
    with atomic(run.folder / PERPLEXITY) as file:
        json.dump({**found, "seal": fingerprint(found)}, file, indent=1)
    return read_perplexity(run, text)


def read_perplexity(run: Trained, text) -> dict[str, Any]:
    """What ``perplexity`` wrote.

    Raises:
        ValueError: it is damaged, or of another text or checkpoint.
    """
    path, advice = run.folder / PERPLEXITY, "remove it, and rerun the command to measure it again"
    try:
        found = read_json(path)
        intact = found.pop("seal") == fingerprint(found) and all(math.isfinite(found[name]) for name in ("perplexity", "bits"))
        there = {name: found[name] for name in ("checkpoint", "text")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        intact = False
    if not intact:
        raise ValueError(f"{path} was edited or damaged; {advice}")
    for name, here in _depends_on(run, text).items():
        if there[name] != here:
            raise ValueError(f"{path} is of another {name}; {advice}")
    return found


def _depends_on(run: Trained, text) -> dict[str, Any]:
    return {"checkpoint": digest(run.last), "text": sums(text)}


def check_trained(run: Trained, text) -> None:
    """Before other runs are trained: does a finished one have all that a record needs?

    Raises:
        ValueError: its last checkpoint, its start, its provenance or its perplexity is missing or damaged.
    """
    try:
        provenance([run.folder])
        check_last(run)
        validation_curve(run.folder, run.updates)
    except (OSError, ValueError) as error:
        raise ValueError(f"{error}; move {run.folder} away, and rerun the command to train it again") from None
    if run.start is not None and run.start.exists():
        try:
            read_checkpoint(run.start)
        except (OSError, ValueError) as error:
            raise ValueError(f"{error}; remove it, and rerun the command to make it again") from None
    if run.is_scored:
        read_perplexity(run, text)


def check_last(run: Trained) -> None:
    """
    Raises:
        ValueError: the last checkpoint is of another run, or not of the last update.
    """
    checkpoint, config = read_checkpoint(run.last), read_config(run.folder)
    for section, key in _SAME:
        there, here = (_option(cfg, section, key) for cfg in (checkpoint["cfg"], config))
        if there != here:
            raise ValueError(f"{run.last} is of another run: its {section}.{key} is {there}, that of {run.folder} is {here}")
    updates = (checkpoint.get("optimizer_history") or [{}])[-1].get("num_updates")
    if updates != run.updates:
        raise ValueError(f"{run.last} was saved at update {updates}, but the run ends at update {run.updates}")


def _option(cfg: Any, section: str, key: str) -> str | None:
    """The option as a string; None if it is missing or None. RoBERTa's options have no k, and may be a Namespace instead of a mapping."""
    node = cfg[section]
    value = node.get(key) if hasattr(node, "get") else getattr(node, key, None)
    return None if value is None else str(value)


def provenance(folders: Sequence[Path]) -> dict[str, Any]:
    """Commit, hardware, versions and last date of runs, for a record.

    Raises:
        ValueError: a run does not say, or was trained outside a git repository.
    """
    if not all(training_provenance(folder)["commit"] for folder in folders):
        raise ValueError("a run was trained outside a git repository, so that its commit is unknown; a record needs one")
    return training_provenance(*folders)


def validation_curve(folder: Path, updates: int) -> list[tuple[int, float]]:
    """(update, bits per predicted token), from fairseq's log of every attempt.

    Args:
        updates: of the whole run.

    Raises:
        ValueError: there is no curve, or it ends before the run does.
    """
    logs = sorted((folder / LOGS).rglob("*.txt"), key=lambda path: path.stat().st_mtime)
    points = curve((line for path in logs for line in path.read_text(encoding="utf-8", errors="replace").splitlines()), "valid", "loss")
    if not points:
        raise ValueError(f"{folder} has no validation curve: {LOGS}/ has no JSON lines of fairseq's log")
    if (last := points[-1][0]) < updates:
        raise ValueError(f"the validation curve of {folder} is cut short: it ends at update {last:,} of {updates:,}")
    return points


def rules_file(experiment: str, runs: Path, model: str = "") -> Path:
    """Where ``rules_before_runs`` keeps the rules."""
    return runs / "rules" / (experiment + f"-{model}" * bool(model) + ".json")


def rules_before_runs(experiment: str, claims: Iterable[Claim], runs: Path, model: str = "") -> dict[str, str]:
    """The rules of an experiment by claim, as they read when its first run began here.

    Args:
        runs: folder of the runs of a scale.
        model: where each model of an experiment is a record of its own: the first run of this one.

    Raises:
        ValueError: the file that keeps them is damaged.
    """
    path = rules_file(experiment, runs, model)
    if not path.exists():
        with atomic(path) as file:
            json.dump({claim.identifier: claim.rule for claim in claims}, file, indent=1)
    try:
        rules = read_json(path)
    except (OSError, ValueError):
        rules = None
    if not rules or not isinstance(rules, dict) or not all(isinstance(rule, str) for rule in rules.values()):
        raise ValueError(f"{path} does not hold rules by claim; restore it, or give another --runs")
    return rules
