"""``linformer_roberta``: fairseq's RoBERTa with the Linformer's encoder inside.

    fairseq-train DATA --user-dir fairseq_linformer --task masked_lm --criterion masked_lm \\
        --arch linformer_roberta_base --projected-dim 256 --sharing layerwise ...

    B sentences, n positions, d width, V entries of the dictionary
"""

import logging
import os
from functools import partial

import torch
from fairseq.checkpoint_utils import prune_state_dict
from fairseq.distributed import fsdp_wrap
from fairseq.models import register_model, register_model_architecture
from fairseq.models.roberta import RobertaEncoder, RobertaModel
from fairseq.modules import LayerNorm
from fairseq.modules.layer_norm import has_fused_layernorm
from fairseq.modules.quant_noise import quant_noise
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import Tensor, nn

from ..modules import LinformerEncoder
from ..modules.projection import count_matrices
from . import authors
from .compatibility import RESIZABLE, describe_mismatch, differing_fields
from .compiling import compile_layers
from .options import ARCHITECTURES, LinformerRobertaConfig, as_options, resolve, to_linformer_config
from .resize import with_projections
from .shapes import ATTENTION_HEADS, POSITIONS, count_layers, projections, shape_of

logger = logging.getLogger(__name__)


@register_model("linformer_roberta", dataclass=LinformerRobertaConfig)
class LinformerRobertaModel(RobertaModel):
    """A RoBERTa whose self-attention is linear in the length of the input.

    Everything that RoBERTa's model offers in fairseq is here: heads, hub interface, tasks and criterions; see
    ``options.py`` for the options.
    """

    @classmethod
    def add_args(cls, parser):
        # Skip RobertaModel.add_args: its flags clash with those made from the dataclass.
        super(RobertaModel, cls).add_args(parser)

    @classmethod
    def hub_models(cls):
        return {}

    @classmethod
    def build_model(cls, cfg, task):
        args = resolve(cfg, task.max_positions())
        encoder = LinformerRobertaEncoder(args, task.source_dictionary)
        _write_back(cfg, args)
        _report(args, encoder)
        model = cls(args, encoder)
        model._cfg = cfg
        return model

    @classmethod
    def from_pretrained(cls, model_name_or_path, checkpoint_file="model.pt", data_name_or_path=".", bpe=None, **kwargs):
        """fairseq's RoBERTa hub interface around a checkpoint of this model.

        Args:
            model_name_or_path: folder of the checkpoint.
            checkpoint_file: file in it.
            data_name_or_path: folder of ``dict.txt``; one that starts with "." lies in the folder of the checkpoint.
            bpe: the tokenizer; by default ``sentencepiece`` if the folder of the checkpoint has a
                ``sentencepiece.bpe.model`` or one is given, else ``gpt2``.
        """
        if bpe is None:
            has_model = os.path.exists(os.path.join(model_name_or_path, "sentencepiece.bpe.model"))
            bpe = "sentencepiece" if has_model or "sentencepiece_model" in kwargs else "gpt2"
        return super().from_pretrained(model_name_or_path, checkpoint_file, data_name_or_path, bpe=bpe, **kwargs)

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
            features_only: stop before the head of the language model.
            return_all_hiddens: also return the hidden states, each (n, B, d) as in fairseq.
            classification_head_name: the head to apply; it reads the first position only.
            masked_tokens: (B, n) boolean, the positions whose logits are needed.

        Returns:
            (B, n, V) logits, or (masked tokens, V), or (B, n, d) features, or (B, classes), and a dictionary with
            ``inner_states``.
        """
        if classification_head_name is not None and not return_all_hiddens:
            kwargs["positions"] = src_tokens.new_zeros(src_tokens.size(0), 1)
        return super().forward(src_tokens, features_only, return_all_hiddens, classification_head_name, **kwargs)

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        """Load a checkpoint of this model or of the authors' model.

        Layers are dropped if ``encoder_layers_to_keep`` says so, and E, F and the position embeddings are made to fit
        if ``resize_checkpoint`` does.

        Raises:
            ValueError: it does not fit; the sentence names what differs.
        """
        try:
            state_dict = self._fitting(state_dict)
        except ValueError as error:
            logger.error(error)  # the trainer replaces the exception with one of its own
            raise
        return super().load_state_dict({ATTENTION_HEADS: self.encoder.attention_heads, **state_dict}, strict)

    def _fitting(self, state_dict):
        """The state dict as this model has it, or a ValueError."""
        if authors.is_authors(state_dict):
            state_dict, old, untied = authors.convert(state_dict)
            self._follow_version_1(shape_of(state_dict).sharing if old else self.args.sharing, untied)
        if self.args.encoder_layers_to_keep and count_layers(state_dict) == self.args.encoder_layers_before:
            # A copy: fairseq clears the option in the configuration that it is given.
            state_dict = prune_state_dict(state_dict, type(self.args)(**vars(self.args)))
        if self.args.resize_checkpoint and POSITIONS in state_dict and projections(state_dict):
            state_dict = self._resized(state_dict)
        problem = describe_mismatch(self.state_dict(), state_dict, tied=not self.args.untie_weights_roberta)
        if problem:
            raise ValueError(problem)
        return state_dict

    def _follow_version_1(self, sharing, untied) -> None:
        """Rebuild the encoder as version 1 of the authors' code was, whatever its options say: unshared and untied."""
        unshared = self.args.sharing == "layerwise" and sharing in ("headwise", "key-value")
        untied = untied and not self.args.untie_weights_roberta
        if not (unshared or untied):
            return
        if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            raise ValueError(
                "this checkpoint is of version 1 of the authors' code, which did not share what it says: give "
                f"--sharing {sharing}" + " --untie-weights-roberta" * untied
            )
        if unshared:
            self.args.sharing = sharing
        self.args.untie_weights_roberta = self.args.untie_weights_roberta or untied
        logger.warning("the checkpoint is of version 1 of the authors' code: sharing is %s, %s", self.args.sharing,
                       "output embeddings are untied" if untied else "output embeddings are as they were")  # fmt: skip
        some = next(self.encoder.parameters())
        self.encoder = LinformerRobertaEncoder(self.args, self.encoder.dictionary).to(some)
        _write_back(self._cfg, self.args)

    def _resized(self, state_dict):
        """The state dict for this model's n and k; as it is if something else differs too, which is refused later."""
        config = self.encoder.sentence_encoder.config
        shape = shape_of(state_dict, config.attention_heads)
        differing = differing_fields(shape, shape_of(self.state_dict()))
        if not differing or not RESIZABLE.issuperset(differing):
            return state_dict
        logger.info("resizing the checkpoint from n = %d, k = %s", shape.max_positions, shape.projected_dim)
        return with_projections(state_dict, config)

    def upgrade_state_dict_named(self, state_dict, name):
        # fairseq looks for out_proj.weight, which spectral normalisation has renamed.
        renamed = [key for key in state_dict if key.endswith("out_proj.weight_orig")]
        aliases = {key.removesuffix("_orig"): state_dict[key] for key in renamed}
        state_dict.update(aliases)
        super().upgrade_state_dict_named(state_dict, name)
        for alias in aliases:
            state_dict.pop(alias, None)


class LinformerRobertaEncoder(RobertaEncoder):
    """RobertaEncoder, batch first, whose last layer computes only the positions that are read."""

    def __init__(self, args, dictionary):
        super().__init__(args, dictionary)
        self.register_buffer("attention_heads", torch.tensor(float(args.encoder_attention_heads)))

    def build_encoder(self, args, dictionary, embed_tokens):
        noisy = partial(quant_noise, p=args.quant_noise_pq, block_size=args.quant_noise_pq_block_size)
        width = args.encoder_embed_dim
        encoder = LinformerEncoder(
            to_linformer_config(args, len(dictionary), dictionary.pad()),
            embed_tokens,
            linear=lambda inputs, outputs: noisy(nn.Linear(inputs, outputs)),
            layer_norm=LayerNorm,  # apex's, where apex and a GPU are at hand
            wrap_layer=partial(fsdp_wrap, min_num_params=0 if args.checkpoint_activations else args.min_params_to_wrap),
            embedding_noise=noisy(nn.Linear(width, width, bias=False)) if args.quant_noise_pq > 0 else None,
        )
        if args.compile:
            compile_layers(encoder.layers)
        return encoder

    def forward(
        self, src_tokens, features_only=False, return_all_hiddens=False, masked_tokens=None, positions=None, **kwargs
    ):
        """As of the model.

        Args:
            positions: (B, m), the positions whose features are needed; not used together with ``masked_tokens``.

        Returns:
            logits (B, n, V) or (masked tokens, V), or features (B, n, d) or (B, m, d), and ``inner_states``.
        """
        if features_only or masked_tokens is None or return_all_hiddens:
            x, extra = self.extract_features(src_tokens, return_all_hiddens, positions=positions, **kwargs)
            return x if features_only else self.output_layer(x, masked_tokens=masked_tokens), extra
        positions, masked = masked_positions(masked_tokens)
        x, extra = self.extract_features(src_tokens, positions=positions, **kwargs)
        return self.output_layer(x.flatten(0, 1)[masked]), extra

    def extract_features(self, src_tokens, return_all_hiddens=False, positions=None, token_embeddings=None, **unused):
        """(B, n) tokens to (B, n, d) features, or (B, m, d) of ``positions`` (B, m)."""
        x, hiddens = self.sentence_encoder(src_tokens, positions, return_all_hiddens, token_embeddings)
        # fairseq hands hidden states on as (n, B, d).
        return x, {"inner_states": hiddens and [h.transpose(0, 1) for h in hiddens]}


def masked_positions(masked_tokens: Tensor):
    """The positions to compute, (B, m), and which of the B m are masked: (masked tokens,) integers.

    m is the largest number of masked tokens in a sentence; a sentence with fewer is filled up with others. Taken in
    order, the masked ones are ``masked_tokens.nonzero()``.

    Both are found before the encoder runs: finding them synchronizes with the GPU.
    """
    counts = masked_tokens.sum(1)
    order = masked_tokens.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
    positions = order[:, : int(counts.max())]
    masked = torch.arange(positions.size(1), device=counts.device) < counts.unsqueeze(1)
    return positions, masked.flatten().nonzero().squeeze(1)


def _write_back(cfg, args) -> None:
    """Write the resolved options into the configuration that checkpoints carry, so that they do not depend on later
    defaults. Layers that are not kept are gone already, and whoever loads the checkpoint need not have a compiler."""
    if not isinstance(cfg, DictConfig):
        return
    values = {**as_options(args), "encoder_layers_to_keep": None, "compile": False}
    # fairseq hands on a merged copy if the architecture has the name of the model.
    parent = cfg._get_parent()
    for target in (cfg, parent.get("model") if isinstance(parent, DictConfig) else None):
        if isinstance(target, DictConfig):
            with open_dict(target):
                for key, value in values.items():
                    OmegaConf.update(target, key, value)


def _report(args, encoder) -> None:
    if args.translated:
        theirs = "--projection-init normal" + " --projection-lr-scale 1" * (not args.freeze_projections)
        logger.info("the options of the authors' plugin mean: %s; E and F start and learn as here by default, and as "
                    "theirs with %s", args.translated, theirs)  # fmt: skip
    logger.info("linformer: n = %d, k = %s, %s projection, %s sharing, %d matrices; apex: %s", args.max_positions,
                args.projected_dim, args.projection, args.sharing, count_matrices(encoder),
                "fused layer norm" if has_fused_layernorm else "not importable")  # fmt: skip


for _arch in ARCHITECTURES:
    if _arch != "linformer_roberta":  # registered with the model itself
        register_model_architecture("linformer_roberta", _arch)(lambda args: None)
