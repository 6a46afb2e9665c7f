"""The paper's numbers (Wang et al. 2020, arXiv:2006.04768), as they are printed.

Numbers of tables are those of the published PDF.
"""

from typing import Dict

_TASKS = ("sst-2", "imdb", "qnli", "qqp")
TABLE_2: Dict[str, Dict[str, float]] = {
    row: dict(zip(_TASKS, values))
    for row, values in {
        "512, RoBERTa-base": (93.1, 94.1, 90.9, 90.9),
        "512, Linformer, 128": (92.4, 94.0, 90.4, 90.2),
        "512, Linformer, 128, shared kv": (93.4, 93.4, 90.3, 90.3),
        "512, Linformer, 128, shared kv, layer": (93.2, 93.8, 90.1, 90.2),
        "512, Linformer, 256": (93.2, 94.0, 90.6, 90.5),
        "512, Linformer, 256, shared kv": (93.3, 93.6, 90.6, 90.6),
        "512, Linformer, 256, shared kv, layer": (93.1, 94.1, 91.2, 90.8),
        "512, BERT-base": (92.7, 93.5, 91.8, 89.6),
        "512, Distilled BERT": (91.3, 92.8, 89.2, 88.5),
        "1024, Linformer, 256": (93.0, 93.8, 90.4, 90.4),
        "1024, Linformer, 256, shared kv": (93.0, 93.6, 90.3, 90.4),
        "1024, Linformer, 256, shared kv, layer": (93.2, 94.2, 90.8, 90.5),
    }.items()
}
"""Table 2: accuracy on the development set, in percent (the paper does not say what it is of QQP; of IMDB, which has none, the test set)."""
