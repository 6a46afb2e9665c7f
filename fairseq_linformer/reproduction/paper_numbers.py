"""The paper's numbers (Wang et al. 2020, arXiv:2006.04768), as printed in the tables of the published PDF.

Its figures print no numbers; the claims in ``paper/`` state what the text says about them.
"""

TABLE_1: dict[str, tuple[str, str]] = {
    "recurrent": ("O(n)", "O(n)"),
    "transformer": ("O(n^2)", "O(1)"),
    "sparse": ("O(n sqrt(n))", "O(1)"),
    "reformer": ("O(n log(n))", "O(log(n))"),
    "linformer": ("O(n)", "O(1)"),
}
"""Table 1: complexity per layer and minimum number of sequential operations."""

_TASKS = ("sst-2", "imdb", "qnli", "qqp")
TABLE_2: dict[tuple[int, int | None, str], dict[str, float]] = {
    row: dict(zip(_TASKS, values))
    for row, values in {
        (512, None, "RoBERTa-base"): (93.1, 94.1, 90.9, 90.9),
        (512, 128, "headwise"): (92.4, 94.0, 90.4, 90.2),
        (512, 128, "key-value"): (93.4, 93.4, 90.3, 90.3),
        (512, 128, "layerwise"): (93.2, 93.8, 90.1, 90.2),
        (512, 256, "headwise"): (93.2, 94.0, 90.6, 90.5),
        (512, 256, "key-value"): (93.3, 93.6, 90.6, 90.6),
        (512, 256, "layerwise"): (93.1, 94.1, 91.2, 90.8),
        (512, None, "BERT-base"): (92.7, 93.5, 91.8, 89.6),
        (512, None, "Distilled BERT"): (91.3, 92.8, 89.2, 88.5),
        (1024, 256, "headwise"): (93.0, 93.8, 90.4, 90.4),
        (1024, 256, "key-value"): (93.0, 93.6, 90.3, 90.4),
        (1024, 256, "layerwise"): (93.2, 94.2, 90.8, 90.5),
    }.items()
}
"""Table 2, by n, k and sharing (ASSUMED to be headwise where the paper names none) or, without k, the model: accuracy
in percent on the development set; for IMDB, which has none, on the test set. The paper does not name QQP's metric;
ASSUMED to be accuracy."""

TABLE_3_DIMENSIONS = (128, 256, 512, 1024, 2048)
"""k, the columns of both halves of Table 3."""

TABLE_3_TIME: dict[int, tuple[float, ...]] = {
    512: (1.5, 1.3),
    1024: (1.7, 1.6, 1.3),
    2048: (2.6, 2.4, 2.1, 1.3),
    4096: (3.4, 3.2, 2.8, 2.2, 1.3),
    8192: (5.5, 5.0, 4.4, 3.5, 2.1),
    16384: (8.6, 7.8, 7.0, 5.6, 3.3),
    32768: (13, 12, 11, 8.8, 5.0),
    65536: (20, 18, 16, 14, 7.9),
}
"""Table 3, left: speedup of the forward pass by n, for each k."""

TABLE_3_MEMORY: dict[int, tuple[float, ...]] = {
    512: (1.7, 1.5),
    1024: (3.0, 2.9, 1.8),
    2048: (6.1, 5.6, 3.6, 2.0),
    4096: (14, 13, 8.3, 4.3, 2.3),
    8192: (28, 26, 17, 8.5, 4.5),
    16384: (56, 48, 32, 16, 8),
    32768: (56, 48, 36, 18, 16),
    65536: (60, 52, 40, 20, 18),
}
"""Table 3, right: ratio of the largest batch sizes by n, for each k."""


def table_3(half: dict[int, tuple[float, ...]], n: int, k: int) -> float | None:
    """A cell of ``TABLE_3_TIME`` or ``TABLE_3_MEMORY``; None where the paper has none."""
    return dict(zip(TABLE_3_DIMENSIONS, half.get(n, ()))).get(k)
