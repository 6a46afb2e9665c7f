"""Linformer (Wang et al. 2020) for fairseq: ``--user-dir fairseq_linformer``.

If fairseq is already imported, as it is with ``--user-dir``, importing this package registers ``linformer_roberta`` and
``linformer_distillation``. Importing ``fairseq_linformer.models`` always does. The package itself does not import
fairseq, which takes seconds: ``fairseq_linformer.Linformer`` needs only PyTorch, and data preparation not even that.
"""

import logging
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .modules import Linformer

__all__ = ["Linformer"]
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)  # importing fairseq suggests tensorboardX
__version__ = "0.3.0"


def __getattr__(name: str) -> Any:
    """Import PyTorch when ``Linformer`` is used."""
    if name != "Linformer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .modules import Linformer

    return Linformer


if sys.modules.get("fairseq"):
    from . import models  # noqa: F401  registers the architectures and the criterion
