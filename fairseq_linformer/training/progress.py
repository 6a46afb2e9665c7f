"""Progress of training on stderr, read from fairseq's log as it is written."""

import sys

from ..fairseq_log import parse_line
from ..progress import progress_bar

_SCORES = ("loss", "accuracy", "spearman")


class TrainingProgress:
    """A bar that counts updates, in a ``with`` block.

    Args:
        name: name of the run.
        total: total number of updates.
    """

    def __init__(self, name: str, total: int):
        self.name = name
        self._bar = progress_bar(name, total, "update")

    def __enter__(self) -> "TrainingProgress":
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def read(self, line: str) -> None:
        """Count the updates in a line of fairseq's log; print validation scores."""
        if not (parsed := parse_line(line)):
            return
        split, stats = parsed
        values = {key.removeprefix(f"{split}_"): value for key, value in stats.items()}
        if split not in ("train_inner", "train"):
            scores = ", ".join(f"{key} {value:g}" for key, value in values.items() if key.endswith(_SCORES))
            self._bar.write(f"{self.name}: epoch {values.get('epoch', 0):.0f}, {split}: {scores}", file=sys.stderr)
        elif "num_updates" in values:
            update = int(values["num_updates"])
            if not self._bar.n:  # the updates of earlier attempts do not count for the rate
                self._bar.n = self._bar.initial = update
            self._bar.set_postfix_str(f"loss {values.get('loss', float('nan')):.4g}", refresh=False)
            self._bar.update(update - self._bar.n)
