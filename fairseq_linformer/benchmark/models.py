"""The compared models, with equal sizes and random weights, behind one interface.

    features = model(tokens (B, n))                                      (B, n, d)
    loss = model(tokens (B, n), positions (B, m), targets (B, m))        masked language modeling
    loss = model(tokens (B, n), labels (B,))                             classification

``ours`` is this plugin, ``roberta`` fairseq's model and ``authors`` the plugin in fairseq's examples. ``linformer`` is
this project's encoder in plain PyTorch, and ``transformer-...`` the same with full attention. ``recurrent`` is
``torch.nn.LSTM``, and the others come from ``transformers``. Each is compared at equal width and depth, with its
default options otherwise.
"""

import importlib
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from .encoders import build_transformer

FEATURES, MASKED_LM, CLASSIFY = ("features", "masked_lm", "classify")
NUM_CLASSES = 2
BIGBIRD_FULL = 704
"""Up to this length BigBirdModel of ``transformers`` uses full attention: (5 + 2 random blocks) * block size."""


class PlainModel(nn.Module):
    """An encoder of plain PyTorch, with RoBERTa's head and loss for a task."""

    def __init__(self, encoder: LinformerEncoder, task: str):
        super().__init__()
        self.encoder, self.task = encoder, task
        d = encoder.config.embed_dim
        if task != FEATURES:
            self.dense = nn.Linear(d, d)
        if task == MASKED_LM:
            self.norm, self.bias = nn.LayerNorm(d), nn.Parameter(torch.zeros(encoder.config.vocab_size))
        if task == CLASSIFY:
            self.out = nn.Linear(d, NUM_CLASSES)

    def forward(self, tokens: Tensor, *targets: Tensor) -> Tensor:
        if self.task == FEATURES:
            return self.encoder(tokens, padded=False)[0]
        if self.task == CLASSIFY:
            x, _ = self.encoder(tokens, tokens.new_zeros(len(tokens), 1), padded=False)
            return F.cross_entropy(self.out(torch.tanh(self.dense(x[:, 0]))).float(), targets[0])
        positions, masked_tokens = targets
        x, _ = self.encoder(tokens, positions, padded=False)
        logits = F.linear(self.norm(F.gelu(self.dense(x))), self.encoder.embed_tokens.weight, self.bias)
        return F.cross_entropy(logits.flatten(0, 1).float(), masked_tokens.flatten())


class FairseqModel(nn.Module):
    """A fairseq model with the losses of the criterions ``masked_lm`` and ``sentence_prediction``."""

    def __init__(self, model: Any, task: str):
        super().__init__()
        self.model, self.task = model, task
        if task == CLASSIFY:
            model.register_classification_head("benchmark", NUM_CLASSES)

    def forward(self, tokens: Tensor, *targets: Tensor) -> Tensor:
        if self.task == FEATURES:
            return self.model(tokens, features_only=True)[0]
        if self.task == CLASSIFY:
            logits = self.model(tokens, features_only=True, classification_head_name="benchmark")[0]
            return F.nll_loss(F.log_softmax(logits, -1, dtype=torch.float32), targets[0])
        positions, masked_tokens = targets
        mask = torch.zeros_like(tokens, dtype=torch.bool).scatter_(1, positions, True)
        logits = self.model(tokens, masked_tokens=mask)[0]
        return F.nll_loss(F.log_softmax(logits, -1, dtype=torch.float32), masked_tokens.flatten())


class Recurrent(nn.Module):
    """A stack of LSTMs of width d."""

    def __init__(self, config: LinformerConfig):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.embed_dim)
        self.lstm = nn.LSTM(config.embed_dim, config.embed_dim, config.layers, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.lstm(self.embed(tokens))[0]


class TransformersModel(nn.Module):
    """Returns the features of a ``transformers`` model, with an attention mask of ones.

    Reformer's have the width 2 d, because its reversible layers have two streams.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state


def _build_fairseq(
    model: Any, c: LinformerConfig, task: str, set_defaults: Callable[[Namespace], None] | None = None, **options
) -> nn.Module:
    """Build a fairseq model class in the Linformer's shape."""
    from ..models.options import from_linformer_config
    from ..models.stub_task import StubTask

    args = Namespace(**from_linformer_config(c), tokens_per_sample=c.max_positions, **options)
    if set_defaults is not None:
        set_defaults(args)
    return FairseqModel(model.build_model(args, StubTask(c.vocab_size, c.max_positions)), task)


def _build_ours(c: LinformerConfig, task: str) -> nn.Module:
    from ..models import LinformerRobertaModel

    return _build_fairseq(LinformerRobertaModel, c, task, arch="linformer_roberta_base")


def _build_roberta(c: LinformerConfig, task: str) -> nn.Module:
    from fairseq.models.roberta import RobertaModel, roberta_base_architecture

    return _build_fairseq(RobertaModel, c, task, roberta_base_architecture)


def _build_authors(c: LinformerConfig, task: str) -> nn.Module:
    """The authors' model with layerwise sharing."""
    ratio, model = compression(c.max_positions, c.projected_dim), _import_authors().LinformerModel
    return _build_fairseq(model, c, task, compressed=ratio, shared_kv_compressed=1, shared_layer_kv_compressed=1)


def compression(n: int, k: int) -> int:
    """n / k, the authors' option.

    Raises:
        ValueError: k does not divide n.
    """
    if n % k:
        raise ValueError(f"projected_dim must divide n ({n}) for the authors' code, got {k}")
    return n // k


def authors_folder() -> Path:
    """The authors' plugin.

    Raises:
        ValueError: fairseq was installed without its examples.
    """
    import fairseq

    folder = Path(fairseq.__file__).parent / "examples" / "linformer" / "linformer_src"
    if not folder.is_dir():
        raise ValueError(f"the authors' code needs fairseq's {folder}, which does not exist")
    return folder


@lru_cache
def _import_authors():
    """Import the authors' module without registering its models, which have the same names as this plugin's."""
    import fairseq.models

    unregistered = lambda *names: lambda function: function  # noqa: E731
    with (
        mock.patch.object(fairseq.models, "register_model", unregistered),
        mock.patch.object(fairseq.models, "register_model_architecture", unregistered),
        mock.patch.object(sys, "path", [str(authors_folder().parent), *sys.path]),
    ):
        return importlib.import_module("linformer_src.models.linformer_roberta")


def _build_transformers(name: str, c: LinformerConfig, task: str) -> nn.Module:
    import transformers as t

    shape: dict[str, Any] = dict(
        vocab_size=c.vocab_size,
        hidden_size=c.embed_dim,
        num_hidden_layers=c.layers,
        num_attention_heads=c.attention_heads,
        intermediate_size=c.ffn_embed_dim,
        max_position_embeddings=c.max_positions + 2,
        pad_token_id=1,
    )
    if name == "bigbird":  # blocks of 64 and 3 random ones
        if c.max_positions <= BIGBIRD_FULL:
            raise ValueError(f"up to n = {BIGBIRD_FULL} BigBird uses full attention")
        model = t.BigBirdModel(t.BigBirdConfig(**shape, attention_type="block_sparse"), add_pooling_layer=False)
    elif name == "longformer":  # windows of 512
        model = t.LongformerModel(t.LongformerConfig(**shape, attention_window=512), add_pooling_layer=False)
    elif name == "modernbert":
        # Layers 0, 3, 6, ... are global, the others have windows of 128. The gated feed-forward has three matrices
        # instead of two, so two thirds of f give the same number of parameters.
        shape |= dict(
            bos_token_id=0, eos_token_id=2, cls_token_id=0, sep_token_id=2, intermediate_size=2 * c.ffn_embed_dim // 3
        )
        model = t.ModernBertModel(t.ModernBertConfig(**shape, reference_compile=False))
    else:
        side = 2 ** (c.max_positions.bit_length() // 2)
        shape |= dict(
            attn_layers=[("local", "lsh")[i % 2] for i in range(c.layers)],  # as by default
            attention_head_size=c.embed_dim // c.attention_heads,
            feed_forward_size=c.ffn_embed_dim,
            max_position_embeddings=c.max_positions,
            axial_pos_shape=(c.max_positions // side, side),
            axial_pos_embds_dim=(c.embed_dim // 4, c.embed_dim - c.embed_dim // 4),
        )
        model = t.ReformerModel(t.ReformerConfig(**shape, is_decoder=False, num_hashes=1))
    return TransformersModel(model)


BUILDERS: dict[str, Callable[[LinformerConfig, str], nn.Module]] = {
    "ours": _build_ours,
    "roberta": _build_roberta,
    "authors": _build_authors,
    "linformer": lambda c, task: PlainModel(LinformerEncoder(c), task),
    "transformer-eager": lambda c, task: PlainModel(build_transformer(c, "eager"), task),
    "transformer-sdpa": lambda c, task: PlainModel(build_transformer(c, "sdpa"), task),
    "recurrent": lambda c, task: Recurrent(c),
    **{name: partial(_build_transformers, name) for name in ("bigbird", "longformer", "reformer", "modernbert")},
}
"""Builder of each model from the Linformer's configuration and a task."""
