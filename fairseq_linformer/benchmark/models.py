"""Whole models that a training step is compared with, each behind one call.

    loss = model(tokens (B, n), positions (B, m), targets (B, m))        masked language modelling
    loss = model(tokens (B, n), labels (B,))                             classification

``ours-modules`` and the Transformers need PyTorch only, ``ours``, ``roberta`` and ``authors`` fairseq; ``linformer``
and ``linformer-pytorch`` are other packages, with ``pip install fairseq-linformer[benchmark]``.
"""

import importlib
import importlib.util
import sys
from argparse import Namespace
from functools import lru_cache, partial
from pathlib import Path
from typing import Callable, Dict, Optional, Sequence
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from .encoders import MaskedLM, transformer

CLASSES = 2


class Classified(nn.Module):
    """An encoder read at its first position."""

    def __init__(self, encoder: nn.Module):
        super().__init__()
        d = encoder.config.embed_dim
        self.encoder, self.dense, self.out = encoder, nn.Linear(d, d), nn.Linear(d, CLASSES)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x, _ = self.encoder(tokens, tokens.new_zeros(len(tokens), 1), padded=False)
        return F.cross_entropy(self.out(torch.tanh(self.dense(x[:, 0]))).float(), labels)


class OfFairseq(nn.Module):
    """A model of fairseq with the losses of its criterions ``masked_lm`` and ``sentence_prediction``."""

    def __init__(self, model: nn.Module, classify: bool):
        super().__init__()
        self.model, self.classify = model, classify
        if classify:
            model.register_classification_head("benchmark", CLASSES)

    def forward(self, tokens: Tensor, *wanted: Tensor) -> Tensor:
        if self.classify:
            logits = self.model(tokens, features_only=True, classification_head_name="benchmark")[0]
            return F.nll_loss(F.log_softmax(logits, -1, dtype=torch.float32), wanted[0])
        positions, targets = wanted
        masked = torch.zeros_like(tokens, dtype=torch.bool).scatter_(1, positions, True)
        logits = self.model(tokens, masked_tokens=masked)[0]
        return F.nll_loss(F.log_softmax(logits, -1, dtype=torch.float32), targets.flatten())


class OfIndex(nn.Module):
    """A language model of another package: it computes the logits, or for classification the features, of all
    positions.

    Args:
        length: it takes inputs of this length only, so shorter ones are filled up, as its user must; None for any.
    """

    def __init__(self, model: nn.Module, width: int, classify: bool, length: Optional[int] = None):
        super().__init__()
        self.length = length
        self.model, self.head = model, nn.Linear(width, CLASSES) if classify else None

    def forward(self, tokens: Tensor, *wanted: Tensor) -> Tensor:
        if self.length is not None:
            tokens = F.pad(tokens, (0, self.length - tokens.size(1)), value=1)
        x = self.model(tokens)
        if self.head is not None:
            return F.cross_entropy(self.head(x[:, 0]), wanted[0])
        positions, targets = wanted
        logits = x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.size(-1)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


WITH_FAIRSEQ = ("ours", "roberta", "authors")
OF_INDEX = ("linformer", "linformer-pytorch")
FILLED_UP = ("linformer-pytorch",)
"""Models that take inputs of their full length only."""
BARE = ("ours-modules", "transformer-eager", "transformer-sdpa")


def why_not(name: str) -> Optional[str]:
    """What is missing to measure a model, and how to get it; None if nothing is."""
    if name in WITH_FAIRSEQ and not importlib.util.find_spec("fairseq"):
        return f"{name} needs fairseq: scripts/setup.sh"
    if name == "authors" and not authors_example().exists():
        return "authors needs fairseq's examples/linformer, which this fairseq has not"
    if name in OF_INDEX and not importlib.util.find_spec(name.replace("-", "_")):
        return f"{name} is not installed: pip install {name}"
    return None


def check_models(names: Sequence[str], allowed: Sequence[str], n: int, k: int) -> None:
    """
    Raises:
        ValueError: no model, one that is not allowed or not installed, or the authors' and k does not divide n.
    """
    if not names:
        raise ValueError(f"models is empty; it must be some of {', '.join(allowed)}")
    for name in names:
        if name not in allowed:
            raise ValueError(f"{name} is among the models; they must be some of {', '.join(allowed)}")
        if missing := why_not(name):
            raise ValueError(missing)
    if "authors" in names and n % k:
        raise ValueError(f"k is {k}; the authors' code needs one that divides n, {n}")


def _built(
    model, classify: bool, c: LinformerConfig, set_defaults: Callable[[Namespace], None] = lambda args: None, **options
) -> nn.Module:
    """A model class of fairseq in the Linformer's shape."""
    from ..models.bare_task import BareTask

    args = Namespace(
        max_positions=c.max_positions, tokens_per_sample=c.max_positions, encoder_layers=c.layers,
        encoder_embed_dim=c.embed_dim,
        encoder_ffn_embed_dim=c.ffn_embed_dim, encoder_attention_heads=c.attention_heads, dropout=c.dropout,
        attention_dropout=c.attention_dropout, **options,
    )  # fmt: skip
    set_defaults(args)
    return OfFairseq(model.build_model(args, BareTask(c.vocab_size, c.max_positions)), classify)


def _ours(c: LinformerConfig, classify: bool) -> nn.Module:
    from ..models import LinformerRobertaModel

    return _built(LinformerRobertaModel, classify, c, arch="linformer_roberta_base", projected_dim=c.projected_dim,
                  sharing=c.sharing)  # fmt: skip


def _roberta(c: LinformerConfig, classify: bool) -> nn.Module:
    from fairseq.models.roberta import RobertaModel, roberta_base_architecture

    return _built(RobertaModel, classify, c, roberta_base_architecture)


def _authors(c: LinformerConfig, classify: bool) -> nn.Module:
    """With layerwise sharing."""
    check_models(("authors",), WITH_FAIRSEQ, c.max_positions, c.projected_dim)
    compressed = c.max_positions // c.projected_dim
    return _built(_authors_code().LinformerModel, classify, c, compressed=compressed, shared_kv_compressed=1,
                  shared_layer_kv_compressed=1)  # fmt: skip


def authors_example() -> Path:
    return Path(importlib.util.find_spec("fairseq").submodule_search_locations[0]) / "examples" / "linformer"


@lru_cache
def _authors_code():
    """Their module, without registering its models: they have the same names as this plugin's."""
    import fairseq.models

    unregistered = lambda *names: lambda thing: thing  # noqa: E731
    with mock.patch.object(fairseq.models, "register_model", unregistered), \
         mock.patch.object(fairseq.models, "register_model_architecture", unregistered), \
         mock.patch.object(sys, "path", [str(authors_example()), *sys.path]):  # fmt: skip
        return importlib.import_module("linformer_src.models.linformer_roberta")


def _of_index(name: str, c: LinformerConfig, classify: bool) -> nn.Module:
    """Their defaults, except sizes and dropout. ``linformer`` shares no E between layers; ``share_kv`` would also make
    keys values."""
    if name == "linformer":
        from linformer import LinformerLM

        model = LinformerLM(c.vocab_size, c.embed_dim, c.max_positions, c.layers, k=c.projected_dim,
                            heads=c.attention_heads, dropout=c.dropout)  # fmt: skip
        if classify:
            model.to_logits = nn.Identity()
        return OfIndex(model, c.embed_dim, classify)
    from linformer_pytorch import LinformerLM

    model = LinformerLM(c.vocab_size, c.max_positions, c.embed_dim, dim_k=c.projected_dim, dim_ff=c.ffn_embed_dim,
                        nhead=c.attention_heads,
                        depth=c.layers, dropout=c.attention_dropout, dropout_ff=c.dropout, dropout_tokens=c.dropout,
                        parameter_sharing="layerwise", return_emb=classify)  # fmt: skip
    return OfIndex(model, c.embed_dim, classify, c.max_positions)


def _of_modules(
    make_encoder: Callable[[LinformerConfig], LinformerEncoder], c: LinformerConfig, classify: bool
) -> nn.Module:
    return (Classified if classify else MaskedLM)(make_encoder(c))


MODELS: Dict[str, Callable[[LinformerConfig, bool], nn.Module]] = {
    "ours": _ours,
    "roberta": _roberta,
    "authors": _authors,
    "linformer": partial(_of_index, "linformer"),
    "linformer-pytorch": partial(_of_index, "linformer-pytorch"),
    "ours-modules": partial(_of_modules, LinformerEncoder),
    "transformer-eager": partial(_of_modules, partial(transformer, kind="eager")),
    "transformer-sdpa": partial(_of_modules, partial(transformer, kind="sdpa")),
}
"""Functions from the Linformer's shape, and whether to classify, to each model."""
