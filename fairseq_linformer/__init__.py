"""Linformer (Wang et al. 2020) for fairseq: ``--user-dir fairseq_linformer``.

Importing this package where fairseq is imported already, as ``--user-dir`` does, registers
``linformer_roberta`` with fairseq; so does importing ``fairseq_linformer.models``. Without fairseq
``fairseq_linformer.modules`` needs PyTorch only, and preparing data not even that: importing
fairseq takes seconds, which they should not pay.
"""

import sys

__version__ = "0.2.0"

if sys.modules.get("fairseq"):
    from . import models  # noqa: F401  (registers)
