"""The limit on skipped rows."""

MAX_SKIPPED = 0.01
"""Default limit on the share of the rows of a task that are skipped."""


def check_max_skipped(share: float) -> None:
    """Raise ValueError unless 0 <= share < 1."""
    if not 0 <= share < 1:
        raise ValueError(f"max_skipped must be at least 0 and below 1, got {share}")
