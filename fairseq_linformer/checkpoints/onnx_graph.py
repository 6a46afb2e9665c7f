"""A Linformer as an ONNX graph for any batch and any length up to n.

    B sentences, n positions of this input, N the longest input, d width, V size of the dictionary, C classes

The graph has no branches. Its shapes are expressions of B and n, so an input of n positions costs what its own n
positions and its k' windows cost, and nothing is padded to N.
"""

import warnings
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx.experimental import _config

from ..errors import only_errors
from ..huggingface import LinformerPreTrainedModel
from ..modules.linear import LinearProjection
from ..modules.projection import LearnedProjection
from .sentence_transformers import Pooling

OPSET = 20
"""It has Gelu and LayerNormalization as single operators."""
INPUTS, OUTPUT = ("input_ids", "attention_mask"), "logits"


class OnnxModel(nn.Module):
    """A model with the inputs and the output of the graph.

    Args:
        model: modified in place: E and F become plain matrices with N columns.
        max_positions: N.
        pooling: the features of each token (``none``), of the first one (``cls``), or their mean over all tokens
            (``mean``); None for the logits of the head.

    Attributes:
        output: name of the output, and names of its dimensions.
    """

    def __init__(self, model: LinformerPreTrainedModel, max_positions: int, pooling: Pooling | None):
        super().__init__()
        self.encoder, self.mode = model.base_model.encoder, pooling.mode if pooling else None
        self.normalize = pooling is not None and pooling.normalize
        self.is_classifier = hasattr(model, "classifier")
        self.output: tuple[str, tuple[str, ...]] = "sentence_embedding", ("batch", "width")
        if pooling is None:
            self.head: nn.Module = model.classifier if self.is_classifier else model.lm_head
            self.output = OUTPUT, ("batch", "classes") if self.is_classifier else ("batch", "length", "vocabulary")
        elif pooling.mode == "none":
            self.output = "last_hidden_state", ("batch", "length", "width")
        embeddings = self.encoder.embed_positions
        rows = max_positions + self.encoder.config.padding_idx + 1
        embeddings.weight = nn.Parameter(embeddings.weight[:rows].detach().clone())
        for module in self.modules():
            if isinstance(module, LearnedProjection):
                _fold(module, max_positions)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """
        Args:
            input_ids: (B, n) integers.
            attention_mask: (B, n), zero at padding, which must follow the sentence.

        Returns:
            Logits, (B, C) of a classifier or (B, n, V) of a masked language model; or with ``pooling`` features,
            (B, n, d) or (B, d).
        """
        padding = attention_mask.eq(0) | input_ids.eq(self.encoder.config.padding_idx)
        reads_first = self.mode == "cls" or (self.mode is None and self.is_classifier)
        positions = input_ids.new_zeros(input_ids.size(0), 1) if reads_first else None
        features: Tensor = self.encoder(input_ids, positions, padding_mask=padding, padded=True)[0]
        if self.mode == "cls":
            features = features[:, 0]
        elif self.mode == "mean":
            num_tokens = (~padding).sum(1, keepdim=True).clamp(min=1)
            features = features.masked_fill(padding.unsqueeze(-1), 0.0).sum(1) / num_tokens
        elif self.mode is None:
            features = self.head(features)
        return F.normalize(features, dim=1) if self.normalize else features


def _fold(projection: LearnedProjection, max_positions: int) -> None:
    """Let E be one constant, with as many columns as there are positions."""
    E = projection().detach()
    if isinstance(projection, LinearProjection):
        E = E[..., : projection.num_reached(max_positions), :max_positions].clone()
    projection.weight = nn.Parameter(E, requires_grad=False)  # the graph names it by its path
    projection.forward = lambda n=None: projection.get_parameter("weight")  # type: ignore[method-assign]


def write_graph(
    model: LinformerPreTrainedModel, path: Path, max_positions: int, pooling: Pooling | None = None, int8: bool = False
) -> None:
    """Write a model as ``path``; PyTorch writes weights of more than 1.5 GiB to ``path`` + ``.data``.

    Args:
        model: modified, see ``OnnxModel``.
        max_positions: N.
        pooling: as for ``OnnxModel``.
        int8: quantize the graph, see ``onnx_int8.py``.
    """
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass, DeduplicateInitializersPass

    from .onnx_int8 import quantize_

    wrapped = OnnxModel(model.eval(), max_positions, pooling)
    output, output_sizes = wrapped.output
    # Two different sizes that are not special, so that no size is taken for another, or for 1.
    batch, length = 3, max(2, min(max_positions, 37))
    example = torch.full((batch, length), wrapped.encoder.config.padding_idx + 1)
    sizes: Any = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC(max=max_positions)}
    with (
        torch.no_grad(),
        only_errors("torch.onnx", "onnxscript", "onnx_ir"),  # not their progress
        warnings.catch_warnings(action="ignore"),  # such as those about torchvision
        _config.patch(backed_size_oblivious=True),  # type: ignore[attr-defined]
    ):
        exported = torch.export.export(
            wrapped,
            (example, torch.ones_like(example)),
            dynamic_shapes=(sizes, sizes),
            strict=False,
            prefer_deferred_runtime_asserts_over_guards=True,
        )
        program = torch.onnx.export(
            exported, dynamo=True, opset_version=OPSET, input_names=INPUTS, output_names=[output], verbose=False
        )
        assert program is not None
        ClearMetadataAndDocStringPass()(program.model)  # stack traces, with paths of this machine
        if int8:
            quantize_(program.model)
        DeduplicateInitializersPass(size_limit=2**31)(program.model)  # shapes of windows, which layers have in common
    graph = program.model.graph
    for value, names in (*((each, ("batch", "length")) for each in graph.inputs), (graph.outputs[0], output_sizes)):
        known = [size if isinstance(size, int) else name for size, name in zip(value.shape, names, strict=True)]
        value.shape = type(value.shape)(known)
    program.save(path)
