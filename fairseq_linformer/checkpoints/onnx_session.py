"""Sessions of ``onnxruntime``."""

from pathlib import Path
from typing import Any


def open_session(graph: Path, threads: int) -> Any:
    """Load a graph on the CPU; raises errors of many types, since those of ``onnxruntime`` have no common base."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
