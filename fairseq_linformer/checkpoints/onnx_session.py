"""Sessions of ``onnxruntime``."""

from pathlib import Path
from typing import Any


def open_session(graph: Path, threads: int) -> Any:
    """Load a graph on the CPU. ``onnxruntime`` has no common type of errors."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
