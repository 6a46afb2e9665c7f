"""Whole models with a common interface, to compare their training steps.

    loss = model(tokens (B, n), positions (B, m), targets (B, m))        masked language modeling
    loss = model(tokens (B, n), labels (B,))                             classification

``ours-modules`` and the Transformers need PyTorch only; ``ours``, ``roberta`` and ``authors`` need fairseq;
``linformer`` and ``linformer-pytorch`` are packages that ``pip install fairseq-linformer[benchmark]`` installs.
"""

import importlib
import importlib.util
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from ..modules.attention import gather_positions
from .encoders import MaskedLM, build_transformer

NUM_CLASSES = 2


class SequenceClassifier(nn.Module):
    """An encoder with a classification head on its first position."""

    def __init__(self, encoder: LinformerEncoder):
        super().__init__()
        d = encoder.config.embed_dim
        self.encoder, self.dense, self.out = encoder, nn.Linear(d, d), nn.Linear(d, NUM_CLASSES)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x, _ = self.encoder(tokens, tokens.new_zeros(len(tokens), 1), padded=False)
        return F.cross_entropy(self.out(torch.tanh(self.dense(x[:, 0]))).float(), labels)


class FairseqModel(nn.Module):
    """A fairseq model with the losses of the criterions ``masked_lm`` and ``sentence_prediction``."""

    def __init__(self, model: Any, classify: bool):
        super().__init__()
        self.model, self.classify = model, classify
        if classify:
            model.register_classification_head("benchmark", NUM_CLASSES)

    def forward(self, tokens: Tensor, *targets: Tensor) -> Tensor:
        if self.classify:
            logits = self.model(tokens, features_only=True, classification_head_name="benchmark")[0]
            return F.nll_loss(F.log_softmax(logits, -1, dtype=torch.float32), targets[0])
        positions, masked_tokens = targets
        mask = torch.zeros_like(tokens, dtype=torch.bool).scatter_(1, positions, True)
        logits = self.model(tokens, masked_tokens=mask)[0]
        return F.nll_loss(F.log_softmax(logits, -1, dtype=torch.float32), masked_tokens.flatten())


class PackageModel(nn.Module):
    """A language model of another package, which computes all positions.

    Args:
        model: returns logits, or features for classification.
        length: the only supported input length, to which shorter inputs are padded; None for any length.
    """

    def __init__(self, model: nn.Module, width: int, classify: bool, length: int | None = None):
        super().__init__()
        self.length = length
        self.model, self.head = model, nn.Linear(width, NUM_CLASSES) if classify else None

    def forward(self, tokens: Tensor, *targets: Tensor) -> Tensor:
        if self.length is not None:
            tokens = F.pad(tokens, (0, self.length - tokens.size(1)), value=1)
        x = self.model(tokens)
        if self.head is not None:
            return F.cross_entropy(self.head(x[:, 0]), targets[0])
        positions, masked_tokens = targets
        return F.cross_entropy(gather_positions(x, positions).flatten(0, 1), masked_tokens.flatten())


FAIRSEQ_MODELS = ("ours", "roberta", "authors")
PYPI_MODELS = ("linformer", "linformer-pytorch")
FIXED_LENGTH_MODELS = ("linformer-pytorch",)
"""Models that support only inputs of their full length."""
PYTORCH_MODELS = ("ours-modules", "transformer-eager", "transformer-sdpa")


def missing_requirement(name: str) -> str | None:
    """Why a model cannot be measured here, and how to install what is missing; None if it can."""
    if name in FAIRSEQ_MODELS and not importlib.util.find_spec("fairseq"):
        return f"{name} needs fairseq: scripts/setup.sh"
    if name == "authors" and not authors_example_folder().exists():
        return "authors needs fairseq's examples/linformer, which this fairseq lacks"
    if name in PYPI_MODELS and not importlib.util.find_spec(name.replace("-", "_")):
        return f"{name} is not installed: pip install {name}"
    return None


def check_models(names: Sequence[str], allowed: Sequence[str], n: int, k: int) -> None:
    """Check the names of models.

    Raises:
        ValueError: there are no models, one is unknown or not installed, or k does not divide n for the authors' model.
    """
    if not names:
        raise ValueError(f"models must have at least one name; choose from {', '.join(allowed)}")
    for name in names:
        if name not in allowed:
            raise ValueError(f"unknown model {name!r}; choose from {', '.join(allowed)}")
        if missing := missing_requirement(name):
            raise ValueError(missing)
    if "authors" in names and n % k:
        raise ValueError(f"projected_dim must divide n ({n}) for the authors' code, got {k}")


def _build_fairseq(
    model: Any, classify: bool, c: LinformerConfig, set_defaults: Callable[[Namespace], None] | None = None, **options
) -> nn.Module:
    """Build a fairseq model class in the Linformer's shape."""
    from ..models.stub_task import StubTask

    args = Namespace(
        max_positions=c.max_positions,
        tokens_per_sample=c.max_positions,
        encoder_layers=c.layers,
        encoder_embed_dim=c.embed_dim,
        encoder_ffn_embed_dim=c.ffn_embed_dim,
        encoder_attention_heads=c.attention_heads,
        dropout=c.dropout,
        attention_dropout=c.attention_dropout,
        **options,
    )
    if set_defaults is not None:
        set_defaults(args)
    return FairseqModel(model.build_model(args, StubTask(c.vocab_size, c.max_positions)), classify)


def _build_ours(c: LinformerConfig, classify: bool) -> nn.Module:
    from ..models import LinformerRobertaModel

    options = dict(arch="linformer_roberta_base", projected_dim=c.projected_dim, sharing=c.sharing)
    return _build_fairseq(LinformerRobertaModel, classify, c, **options)


def _build_roberta(c: LinformerConfig, classify: bool) -> nn.Module:
    from fairseq.models.roberta import RobertaModel, roberta_base_architecture

    return _build_fairseq(RobertaModel, classify, c, roberta_base_architecture)


def _build_authors(c: LinformerConfig, classify: bool) -> nn.Module:
    """The authors' model with layerwise sharing."""
    check_models(("authors",), FAIRSEQ_MODELS, c.max_positions, c.projected_dim)
    ratio = c.max_positions // c.projected_dim
    options = dict(compressed=ratio, shared_kv_compressed=1, shared_layer_kv_compressed=1)
    return _build_fairseq(_import_authors().LinformerModel, classify, c, **options)


def authors_example_folder() -> Path:
    spec = importlib.util.find_spec("fairseq")
    assert spec is not None and spec.origin is not None, "fairseq is not installed"
    return Path(spec.origin).parent / "examples" / "linformer"


@lru_cache
def _import_authors():
    """Import the authors' module without registering its models, which have the same names as this plugin's."""
    import fairseq.models

    unregistered = lambda *names: lambda function: function  # noqa: E731
    with (
        mock.patch.object(fairseq.models, "register_model", unregistered),
        mock.patch.object(fairseq.models, "register_model_architecture", unregistered),
        mock.patch.object(sys, "path", [str(authors_example_folder()), *sys.path]),
    ):
        return importlib.import_module("linformer_src.models.linformer_roberta")


def _build_linformer(c: LinformerConfig, classify: bool) -> nn.Module:
    """The package's defaults, except sizes and dropout. E is not shared between layers; ``share_kv`` would also use the
    keys as values."""
    from linformer import LinformerLM

    shape = dict(k=c.projected_dim, heads=c.attention_heads, dropout=c.dropout)
    model = LinformerLM(c.vocab_size, c.embed_dim, c.max_positions, c.layers, **shape)
    if classify:
        model.to_logits = nn.Identity()
    return PackageModel(model, c.embed_dim, classify)


def _build_linformer_pytorch(c: LinformerConfig, classify: bool) -> nn.Module:
    from linformer_pytorch import LinformerLM

    model = LinformerLM(
        c.vocab_size,
        c.max_positions,
        c.embed_dim,
        dim_k=c.projected_dim,
        dim_ff=c.ffn_embed_dim,
        nhead=c.attention_heads,
        depth=c.layers,
        dropout=c.attention_dropout,
        dropout_ff=c.dropout,
        dropout_tokens=c.dropout,
        parameter_sharing="layerwise",
        return_emb=classify,
    )
    return PackageModel(model, c.embed_dim, classify, c.max_positions)


def _build_modules(
    build_encoder: Callable[[LinformerConfig], LinformerEncoder], c: LinformerConfig, classify: bool
) -> nn.Module:
    return (SequenceClassifier if classify else MaskedLM)(build_encoder(c))


MODELS: dict[str, Callable[[LinformerConfig, bool], nn.Module]] = {
    "ours": _build_ours,
    "roberta": _build_roberta,
    "authors": _build_authors,
    "linformer": _build_linformer,
    "linformer-pytorch": _build_linformer_pytorch,
    "ours-modules": partial(_build_modules, LinformerEncoder),
    "transformer-eager": partial(_build_modules, partial(build_transformer, kind="eager")),
    "transformer-sdpa": partial(_build_modules, partial(build_transformer, kind="sdpa")),
}
"""Builder of each model from the Linformer's configuration and whether to classify."""
