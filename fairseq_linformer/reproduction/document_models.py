"""Classifiers of long documents with equal width and depth and random weights, and the memory that each takes.

    B documents of n tokens

All read (B, n) tokens without padding. This project's models compute only the first position in their last layer, as
classifiers do; ``EVERY_POSITION`` and the models of ``transformers`` compute all, without a head, which would cost
as much as a few tokens.
"""

import ctypes
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..benchmark.encoders import build_transformer
from ..benchmark.models import BIGBIRD_FULL, FEATURES
from ..benchmark.models import BUILDERS as PEERS
from ..benchmark.timing import choose_clock, time_interleaved
from ..config import LinformerConfig
from ..machine import process_bytes

LINFORMER, EVERY_POSITION, ONNX, INT8 = "Linformer", "Linformer, every position", "Linformer, ONNX", "Linformer, int8"
WINDOWED, WINDOWED_ONNX, WINDOWED_INT8 = (f"Linformer, local window{runtime}" for runtime in ("", ", ONNX", ", int8"))
TRANSFORMER, MODERNBERT, LONGFORMER, BIGBIRD = "Transformer, SDPA", "ModernBERT", "Longformer", "BigBird"
GRAPHS = {ONNX: (False, False), INT8: (False, True), WINDOWED_ONNX: (True, False), WINDOWED_INT8: (True, True)}
"""Run by ``onnxruntime``: whether they have a local window, and weights in 8 bits."""
OURS = (LINFORMER, EVERY_POSITION, ONNX, INT8, WINDOWED, WINDOWED_ONNX, WINDOWED_INT8)
OTHERS = (TRANSFORMER, MODERNBERT, LONGFORMER, BIGBIRD)
WARM_UP = 1024
"""Most tokens of the pass that loads libraries, before memory is measured."""
FIRST_TOKEN = 5
"""Random tokens begin after the special symbols."""
Sizes = dict[str, Any]
"""``layers``, ``width``, ``heads``, ``vocabulary``, ``window``, ``threads``; ``k`` and ``tokens`` of a round."""
SMOKE: Sizes = {"threads": 1, "layers": 1, "width": 32, "heads": 2, "vocabulary": 100, "window": 4}
MINILM: Sizes = {"threads": 2, "layers": 6, "width": 384, "heads": 12, "vocabulary": 30522, "window": 16}
"""As all-MiniLM-L6-v2."""
BIGBIRD_LONGEST = 8192
"""``transformers`` allocates n^2 numbers per head and layer for BigBird, in 12 heads 12 GiB at n = 16,384."""
Call = Callable[[Tensor], object]


def measured_models(n: int) -> list[str]:
    """The models that are measured at a length: BigBird is not where its attention is full, or takes n x n memory."""
    return [name for name in (*OURS, *OTHERS) if name != BIGBIRD or BIGBIRD_FULL < n <= BIGBIRD_LONGEST]


def build_config(n: int, sizes: Sizes, is_windowed: bool) -> LinformerConfig:
    return LinformerConfig(
        vocab_size=sizes["vocabulary"],
        max_positions=n,
        projected_dim=min(sizes["k"], n),
        sharing="layerwise",
        local_window=sizes["window"] if is_windowed else 0,
        layers=sizes["layers"],
        embed_dim=sizes["width"],
        ffn_embed_dim=4 * sizes["width"],
        attention_heads=sizes["heads"],
    )


def build_call(name: str, n: int, sizes: Sizes, graphs: Path) -> Call:
    """The forward pass of a model on (B, n) tokens, with PyTorch's number of threads.

    Args:
        graphs: folder of ``write_graphs``.
    """
    if name in GRAPHS:
        return _open_graph(graphs / f"{name}-{n}.onnx")
    config = build_config(n, sizes, name == WINDOWED)
    if name not in (LINFORMER, EVERY_POSITION, WINDOWED, TRANSFORMER):
        return PEERS[name.lower()](config, FEATURES).eval()
    model = _build_classifier(config)
    if name == TRANSFORMER:
        model.linformer.encoder = build_transformer(config, "sdpa")
    called = model.linformer if name == EVERY_POSITION else model
    return called.eval()


def build_tokens(documents: int, n: int, sizes: Sizes) -> Tensor:
    return torch.randint(FIRST_TOKEN, sizes["vocabulary"], (documents, n))


def count_documents(n: int, sizes: Sizes) -> int:
    """B: as many documents as have ``sizes["tokens"]`` tokens, at least one."""
    return max(1, int(sizes["tokens"]) // n)


@torch.inference_mode()
def time_models(names: Sequence[str], n: int, sizes: Sizes, rounds: int, graphs: Path) -> dict[str, list[float]]:
    """Seconds of each model in each round, on the same (B, n) tokens; a round that is not recorded comes first."""
    tokens = build_tokens(count_documents(n, sizes), n, sizes)
    runs = {name: partial(build_call(name, n, sizes, graphs), tokens) for name in names}
    return time_interleaved(runs, rounds, clock=choose_clock("cpu"))


def write_graphs(folder: Path, n: int, sizes: Sizes) -> None:
    """Write the graphs of ``GRAPHS`` for inputs of up to n tokens."""
    from ..checkpoints.onnx_graph import write_graph

    for name, (is_windowed, is_int8) in GRAPHS.items():
        model = _build_classifier(build_config(n, sizes, is_windowed))
        write_graph(model, folder / f"{name}-{n}.onnx", n, int8=is_int8)


def _build_classifier(config: LinformerConfig) -> Any:
    from ..huggingface import LinformerForSequenceClassification, LinformerPreTrainedConfig

    return LinformerForSequenceClassification(LinformerPreTrainedConfig(**asdict(config)))


def _open_graph(path: Path) -> Call:
    from ..checkpoints.files import open_session
    from ..checkpoints.onnx_graph import INPUTS, OUTPUT

    session = open_session(path, torch.get_num_threads())

    def call(tokens: Tensor) -> object:
        inputs = (tokens, torch.ones_like(tokens))
        return session.run([OUTPUT], {name: each.numpy() for name, each in zip(INPUTS, inputs)})

    return call


def measure_memory(name: str, n: int, sizes: Sizes, graphs: Path) -> int:
    """Resident bytes that the forward pass of one document of n tokens adds to the loaded model, in a process of its
    own, on Linux."""
    # Copies of a process that has imported what models need, and started no threads.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "fairseq_linformer.checkpoints.onnx_graph"])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_measure_here, name, n, sizes, graphs).result()


@torch.inference_mode()
def _measure_here(name: str, n: int, sizes: Sizes, graphs: Path) -> int:
    torch.set_num_threads(sizes["threads"])
    call, tokens = build_call(name, n, sizes, graphs), build_tokens(1, n, sizes)
    if name not in GRAPHS:  # onnxruntime keeps the memory of its first pass, so that pass is measured
        call(tokens[:, :WARM_UP])
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # of glibc: what was freed is not the model's
        trim(0)
    before = process_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak becomes the current size
    call(tokens)
    peak = process_bytes("VmHWM")
    assert before is not None and peak is not None  # of this process, on Linux
    return peak - before
