"""The validation curve of a run folder, from what fairseq logged: TensorBoard's event files or, where there are none, its JSON lines."""

from pathlib import Path

from ..fairseq_log import every
from ..launching.run_folder import LOGS
from . import curves
from .curves import Series


def validation(run: Path, updates: int) -> Series:
    """Bits a predicted token over updates.

    Args:
        run: a run folder.
        updates: of the whole run.

    Raises:
        ValueError: there is no curve, or it ends before the run does.
    """
    try:
        series = curves.read(run / "tensorboard", "valid", "loss")
    except (FileNotFoundError, ImportError):
        series = from_log(run)
    if not series:
        raise ValueError(f"{run} has no validation curve: neither event files of TensorBoard nor JSON lines in {LOGS}/")
    if series[-1][0] < updates:
        raise ValueError(f"the validation curve of {run} is cut short: it ends at update {series[-1][0]:,} of {updates:,}")
    return series


def from_log(run: Path) -> Series:
    """From the JSON lines in the logs of a run; of an update that was logged twice the later value."""
    latest = {}
    for path in sorted((run / LOGS).rglob("*.txt"), key=lambda path: path.stat().st_mtime):
        for stats in every(path.read_text(encoding="utf-8", errors="replace").splitlines(), "valid"):
            if {"valid_num_updates", "valid_loss"} <= set(stats):
                latest[int(stats["valid_num_updates"])] = stats["valid_loss"]
    return sorted(latest.items())
