"""Defaults and limits of the options of ``prepare``."""

VALID_SHARE = 0.005
"""Share of the documents of a corpus for validation."""
MAX_SHARDS = 256
"""Each shard has three open files."""
MAX_SKIPPED = 0.01
"""Default limit on the share of the rows of a task that are skipped."""


def check_max_skipped(share: float) -> None:
    """Raise ValueError unless 0 <= share < 1."""
    if not 0 <= share < 1:
        raise ValueError(f"max_skipped must be at least 0 and below 1, got {share}")
