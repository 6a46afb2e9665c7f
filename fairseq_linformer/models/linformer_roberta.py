"""``linformer_roberta``: fairseq's RoBERTa with a Linformer encoder.

    fairseq-train DATA --user-dir fairseq_linformer --task masked_lm --criterion masked_lm \\
        --arch linformer_roberta_base --projected-dim 256 --sharing layerwise ...

    B sentences, n positions, d width, V size of the dictionary
"""

import logging
from argparse import Namespace
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.models import register_model, register_model_architecture
from fairseq.models.roberta import RobertaEncoder, RobertaModel
from fairseq.models.roberta.model import RobertaLMHead
from fairseq.modules import LayerNorm
from fairseq.modules.layer_norm import has_fused_layernorm
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import Tensor, nn

from ..modules import LinformerEncoder
from ..modules.projection import learned_projections
from . import authors_plugin
from .hub_bpe import HubTokenizerMixin
from .options import (
    ARCHITECTURES,
    LinformerRobertaConfig,
    check_checkpoint_options,
    collect_options,
    resolve_options,
    to_linformer_config,
)
from .state_dicts import drop_old_buffers

logger = logging.getLogger(__name__)
RECOMPILE_LIMIT = 64
"""Past its default limit of 8 variants of a layer, PyTorch silently stops compiling: with padding or without, all
positions or some (in the last layer), training or inference, one length or any length."""
ALIGNED = 64
"""In half precision a GPU multiplies fast only if dimensions are multiples of 8, on newer ones of 64 (NVIDIA, "Matrix
Multiplication Background", tensor core requirements). RoBERTa's dictionary has 50,265 entries."""


@register_model("linformer_roberta", dataclass=LinformerRobertaConfig)
class LinformerRobertaModel(HubTokenizerMixin, RobertaModel):
    """RoBERTa whose self-attention is linear in the length of the input.

    It supports all of fairseq's RoBERTa but quantization noise, a spectral-norm head and pruning: heads, hub interface,
    tasks and criterions; ``options.py`` lists the options.
    """

    encoder: "LinformerRobertaEncoder"

    @classmethod
    def add_args(cls, parser):
        # Skip RobertaModel.add_args: its flags conflict with those generated from the dataclass.
        super(RobertaModel, cls).add_args(parser)

    @classmethod
    def build_model(cls, cfg, task):
        args = resolve_options(cfg, task.max_positions())
        encoder = LinformerRobertaEncoder(args, task.source_dictionary)
        _store_options(cfg, args)
        _log_shape(args, encoder)
        return cls(args, encoder)

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        classification_head_name=None,
        **kwargs,
    ):
        """
        Args:
            src_tokens: (B, n) integers.
            features_only: skip the language model head.
            return_all_hiddens: also return the hidden states, each (n, B, d) as in fairseq.
            classification_head_name: head to apply; it reads the first position only.
            masked_tokens: (B, n) boolean, the positions whose logits are needed.

        Returns:
            (B, n, V) logits, or (masked tokens, V), or (B, n, d) features, or (B, classes), and a dictionary with
            ``inner_states``.
        """
        if classification_head_name is not None and not return_all_hiddens:
            kwargs["positions"] = src_tokens.new_zeros(src_tokens.size(0), 1)
        return super().forward(src_tokens, features_only, return_all_hiddens, classification_head_name, **kwargs)

    def check_options(self, options: dict[str, Any]) -> None:
        """Raise ValueError if a checkpoint with these options, which training is about to load, does not fit."""
        check_checkpoint_options(options, self.args)

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        """Load a checkpoint of this model or of the authors' model."""
        if authors_plugin.is_authors_state_dict(state_dict):
            state_dict, _, is_untied = authors_plugin.convert_state_dict(state_dict)
            if is_untied and not self.args.untie_weights_roberta:
                raise ValueError(
                    "untie_weights_roberta must be True, as in the checkpoint, got False; `fairseq-linformer convert` "
                    "finds the options of such a checkpoint"
                )
        return super().load_state_dict(state_dict, strict)

    def upgrade_state_dict_named(self, state_dict, name):
        drop_old_buffers(state_dict, is_ours=True)
        super().upgrade_state_dict_named(state_dict, name)


class LinformerRobertaEncoder(RobertaEncoder):
    """Batch-first RobertaEncoder whose last layer computes only the positions that are read."""

    def __init__(self, args, dictionary):
        super().__init__(args, dictionary)
        self.lm_head.layer_norm.eps = args.layer_norm_eps

    def build_encoder(self, args, dictionary, embed_tokens):
        encoder = LinformerEncoder(
            to_linformer_config(args, len(dictionary), dictionary.pad()),
            embed_tokens,
            layer_norm=LayerNorm,  # apex's if apex and a GPU are available
        )
        encoder.use_length_groups = not args.compile  # each group would be compiled for its own sizes
        if args.compile:
            from torch._dynamo import config  # it takes seconds

            config.recompile_limit = max(config.recompile_limit, RECOMPILE_LIMIT)
            for layer in encoder.layers:
                layer.compile()  # in place, so that parameters keep their names; it runs at the first batch
        return encoder

    def build_lm_head(self, embed_dim, output_dim, activation_fn, weight):
        return AlignedLMHead(embed_dim, output_dim, activation_fn, weight)

    def forward(
        self, src_tokens, features_only=False, return_all_hiddens=False, masked_tokens=None, positions=None, **kwargs
    ):
        """Like ``LinformerRobertaModel.forward``.

        Args:
            positions: (B, m), the positions whose features are needed; ignored with ``masked_tokens``.

        Returns:
            Logits (B, n, V) or (masked tokens, V), or features (B, n, d) or (B, m, d), and ``inner_states``.
        """
        if features_only or masked_tokens is None or return_all_hiddens:
            x, extra = self.extract_features(src_tokens, return_all_hiddens, positions=positions, **kwargs)
            return x if features_only else self.output_layer(x, masked_tokens=masked_tokens), extra
        positions, masked = masked_positions(masked_tokens)
        x, extra = self.extract_features(src_tokens, positions=positions, **kwargs)
        return self.output_layer(x.flatten(0, 1)[masked]), extra

    def extract_features(self, src_tokens, return_all_hiddens=False, positions=None, token_embeddings=None, **unused):
        """Features (B, n, d) of tokens (B, n), or (B, m, d) with ``positions`` (B, m)."""
        x, hiddens = self.sentence_encoder(src_tokens, positions, return_all_hiddens, token_embeddings)
        # fairseq expects hidden states as (n, B, d).
        return x, {"inner_states": hiddens and [h.transpose(0, 1) for h in hiddens]}


class AlignedLMHead(RobertaLMHead):
    """``RobertaLMHead`` whose product is aligned in half precision on a GPU."""

    def forward(self, features: Tensor, masked_tokens: Tensor | None = None, **kwargs: object) -> Tensor:
        """Logits (masked tokens, V) or (B, n, V) of features (B, n, d)."""
        if masked_tokens is not None:
            features = features[masked_tokens, :]
        x = self.layer_norm(self.activation_fn(self.dense(features)))
        return aligned_linear(x, self.weight, ALIGNED if is_half_on_gpu(x, self.weight) else 1) + self.bias


def aligned_linear(x: Tensor, weight: Tensor, multiple: int) -> Tensor:
    """x weight^T with rows of zeros appended to ``weight`` up to a multiple: (..., d) and (V, d) to (..., V)."""
    missing = -weight.size(0) % multiple
    return F.linear(x, F.pad(weight, (0, 0, 0, missing)) if missing else weight)[..., : weight.size(0)]


def is_half_on_gpu(x: Tensor, weight: Tensor) -> bool:
    """Whether the product of these tensors is computed in half precision on a GPU, or on the meta device, on which a
    plan counts what a GPU does."""
    return (x.is_cuda or x.is_meta) and (
        weight.dtype in (torch.float16, torch.bfloat16) or torch.is_autocast_enabled("cuda")
    )


def masked_positions(masked_tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The positions to compute, (B, m), and the indices of the masked ones among these B m: (masked tokens,).

    m is the largest number of masked tokens per sentence; sentences with fewer masked tokens get other positions too.
    The masked ones are in the order of ``masked_tokens.nonzero()``.

    Call it before the encoder runs: it synchronizes with the GPU.
    """
    counts = masked_tokens.sum(1)
    order = masked_tokens.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
    positions = order[:, : int(counts.max())]
    masked = torch.arange(positions.size(1), device=counts.device) < counts.unsqueeze(1)
    return positions, masked.flatten().nonzero().squeeze(1)


def _store_options(cfg: Any, args: Namespace) -> None:
    """Store the resolved options in the configuration that checkpoints hold, so that they do not depend on defaults.

    Excluded is ``compile``, since the checkpoint may be loaded without a compiler.
    """
    if not isinstance(cfg, DictConfig):
        return
    values = {**collect_options(args), "compile": False}
    # fairseq passes a merged copy if the architecture is named like the model.
    parent = cfg._get_parent()
    for target in (cfg, parent.get("model") if isinstance(parent, DictConfig) else None):
        if isinstance(target, DictConfig):
            with open_dict(target):
                for key, value in values.items():
                    OmegaConf.update(target, key, value)


def _log_shape(args: Namespace, encoder: nn.Module) -> None:
    if args.translated:
        logger.info(
            "the authors' options are equivalent to: %s; for their initialization and learning rate of E and F pass "
            "--projection-init normal%s",
            args.translated,
            " --projection-lr-scale 1" * (not args.freeze_projections),
        )
    if args.projection == "none":
        logger.info("full attention: n = %d", args.max_positions)
        return
    logger.info(
        "linformer: n = %d, k = %s, %s projection, %s sharing, %d matrices; apex: %s",
        args.max_positions,
        args.projected_dim,
        args.projection,
        args.sharing,
        sum(each.heads or 1 for each in learned_projections(encoder)),
        "fused layer norm" if has_fused_layernorm else "not importable",
    )


for _arch in ARCHITECTURES:
    if _arch != "linformer_roberta":  # registered with the model itself
        register_model_architecture("linformer_roberta", _arch)(lambda args: None)
