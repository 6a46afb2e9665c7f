"""How fast E and F learn."""


def default_lr_scale(n: int, k: int) -> float:
    """Learning rate of E and F relative to that of the other weights."""
    return 1 / 16
