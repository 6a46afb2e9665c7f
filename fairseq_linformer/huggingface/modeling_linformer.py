"""Models for ``transformers``: encoder, masked language model, classification.

This file is copied into exported folders: it imports only ``transformers`` and the files next to it. Parameters are
those of fairseq's ``linformer_roberta`` with other prefixes:

    linformer.encoder.*   encoder.sentence_encoder.*
    lm_head.*             encoder.lm_head.*
    classifier.*          classification_heads.NAME.*

    B sentences, n positions, d width, V size of the dictionary, C classes
"""

import copy
import re
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput, SequenceClassifierOutput
from transformers.utils import can_return_tuple

from ..modules.encoder import LinformerEncoder, init_bert_weights
from ..modules.encoder_layer import ACTIVATION_FUNCTIONS
from ..modules.projection import KIND_BUFFERS, Projection
from .configuration_linformer import LinformerPreTrainedConfig

_LEARNING_OPTIONS = ("freeze_projections", "projection_lr_scale")
"""Options that determine how a file stores E and F: as a matrix, or as ``start``, ``scale`` and ``delta``."""
_OLD_MATRIX = re.compile(r"\.[EF]\.(?:heads\.\d+\.)?weight$")
_LOCATION_OPTIONS = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")


class LinformerPreTrainedModel(PreTrainedModel):
    """Base class of the models: initialization, loading, activation checkpointing."""

    config_class = LinformerPreTrainedConfig
    base_model_prefix = "linformer"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    accepts_loss_kwargs = False  # forward does not accept Trainer's ``num_items_in_batch``
    # A folder may carry more heads than a model has, and the buffers of earlier versions.
    _keys_to_ignore_on_load_unexpected = [
        *(r"^lm_head\.", r"^classifier\.", r"^classification_heads\."),
        rf"\.[EF]\.(?:heads\.\d+\.)?(?:{'|'.join(KIND_BUFFERS)})$",
    ]
    write_code: Callable[[str], None] | None = None
    """Writes the source files to a folder (``__init__.py``). None in an exported folder, whose files ``transformers``
    copies."""

    def __init__(self, config, *inputs, **kwargs):
        super().__init__(config, *inputs, **kwargs)
        _check_attention(config._attn_implementation)

    def set_attn_implementation(self, attn_implementation, *args, **kwargs):
        """Raise ValueError unless it is 'sdpa', the only one."""
        _check_attention(attn_implementation)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *model_args, config=None, **kwargs):
        """Load a model with the E and F of the file, for any ``freeze_projections`` and ``projection_lr_scale``.

        ``transformers`` copies the tensors of a file one by one, so the model is first built with the options of the
        file, and rebuilt if the requested ones differ.
        """
        if isinstance(config, PreTrainedConfig) and pretrained_model_name_or_path is not None:
            options = {name: getattr(config, name) for name in _LEARNING_OPTIONS}
            location = {name: kwargs[name] for name in _LOCATION_OPTIONS if name in kwargs}
            saved = cls.config_class.from_pretrained(pretrained_model_name_or_path, **location)
            config = copy.deepcopy(config)
            for name in _LEARNING_OPTIONS:
                setattr(config, name, getattr(saved, name))
        else:
            options = {name: kwargs.pop(name) for name in _LEARNING_OPTIONS if name in kwargs}
        wants_report = kwargs.pop("output_loading_info", False)
        model, report = super().from_pretrained(
            pretrained_model_name_or_path, *model_args, config=config, output_loading_info=True, **kwargs
        )
        if any(_OLD_MATRIX.search(key) for key in report["unexpected_keys"]):
            raise ValueError(
                f"{pretrained_model_name_or_path} was exported before version 0.3; run `fairseq-linformer convert` on "
                "it, and export the result"
            )
        model = model._with_options(options)
        return (model, report) if wants_report else model

    def _with_options(self, options: dict[str, Any]):
        """This model, or a copy with other options and the same E and F."""
        if all(getattr(self.config, name) == value for name, value in options.items()):
            return self
        config = copy.deepcopy(self.config)
        for name, value in options.items():
            setattr(config, name, value)
        other = type(self)(config).to(device=self.device, dtype=self.dtype)
        other.load_state_dict(self.state_dict())
        return other.train(self.training)

    def post_init(self):
        frozen = {name for name, parameter in self.named_parameters() if not parameter.requires_grad}
        super().post_init()
        self._frozen = frozen - self.all_tied_weights_keys.keys()
        self._complete = True

    def initialize_weights(self):
        """Initialize tensors that a loaded file lacks, and freeze frozen parameters again.

        Modules initialize themselves when built, E and F unlike other matrices, so missing tensors are copied from a
        new model. ``transformers`` calls this at the end of loading, after replacing all parameters by trainable ones.
        """
        if not getattr(self, "_complete", False):
            return  # the constructor is still running
        for name in self._frozen:
            self.get_parameter(name).requires_grad_(False)
        missing = {
            name: tensor
            for name, tensor in [*self.named_parameters(), *self.named_buffers()]
            if not getattr(tensor, "_is_hf_initialized", False)
        }
        if missing:
            fresh = type(self)(self.config)
            fresh = dict([*fresh.named_parameters(), *fresh.named_buffers()])
            with torch.no_grad():
                for name, tensor in missing.items():
                    # A file of version 0.2 does not have these options, and its E and F were trained without them.
                    tensor.copy_(torch.zeros(3) if name.endswith(".window_options") else fresh[name])
        for module in self.modules():
            if isinstance(module, Projection):
                module.read_options()

    def save_pretrained(self, save_directory, is_main_process=True, *args, **kwargs):
        super().save_pretrained(save_directory, is_main_process, *args, **kwargs)
        if self.write_code is not None and is_main_process:
            type(self).write_code(save_directory)

    def _upload_modified_files(self, working_dir, *args, **kwargs):
        if self.write_code is not None:
            type(self).write_code(working_dir)  # save_pretrained(push_to_hub=True) uploads before it returns
        return super()._upload_modified_files(working_dir, *args, **kwargs)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.base_model.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.base_model.encoder.embed_tokens = value

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs=None, every_n_layers=1, offload=False):
        """Recompute each layer in the backward pass instead of storing its activations; with ``offload``, keep the
        stored inputs of layers in host memory. The other arguments have no effect."""
        config = self.base_model.encoder.config
        config.checkpoint_activations, config.offload_activations = True, offload

    def gradient_checkpointing_disable(self):
        config = self.base_model.encoder.config
        config.checkpoint_activations = config.offload_activations = False

    @property
    def is_gradient_checkpointing(self) -> bool:
        return self.base_model.encoder.config.checkpoint_activations


def _check_attention(implementation: Any) -> None:
    if implementation != "sdpa":
        raise ValueError(f"attn_implementation must be 'sdpa', got {implementation!r}")


class LinformerModel(LinformerPreTrainedModel):
    """The encoder: features of every position."""

    def __init__(self, config: LinformerPreTrainedConfig):
        super().__init__(config)
        self.encoder = LinformerEncoder(config.to_linformer_config())
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        first_only: bool = False,
    ) -> BaseModelOutput | tuple[Tensor, ...]:
        """
        Args:
            input_ids: (B, n) integers; n at most ``config.max_positions``.
            attention_mask: (B, n), zero at padding; ``config.padding_idx`` is always padding. Padding must follow the
                sentence, because E and F depend on the position.
            inputs_embeds: (B, n, d), token embeddings instead of ``input_ids``.
            output_attentions: must be False.
            output_hidden_states: also return the hidden states.
            first_only: let the last layer compute only the first position, which a classification head reads.

        Returns:
            ``last_hidden_state`` (B, n, d), or (B, 1, d) with ``first_only`` and without hidden states; values at
            padding are meaningless. ``hidden_states``: the input of the first layer and the output of each, as in
            fairseq before the last norm of a pre-norm model.
        """
        if self.config.output_attentions if output_attentions is None else output_attentions:
            raise ValueError(
                "output_attentions must be False, since weights over projected positions are not returned, got True"
            )
        hiddens = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        if input_ids is not None and inputs_embeds is None:
            tokens, padding = input_ids, input_ids.eq(self.config.padding_idx)
        elif inputs_embeds is not None and input_ids is None:
            tokens = inputs_embeds[..., 0]
            padding = torch.zeros_like(tokens, dtype=torch.bool)
        else:
            raise ValueError("exactly one of input_ids and inputs_embeds must be set")
        if attention_mask is not None:
            if attention_mask.shape != tokens.shape:
                raise ValueError(
                    f"attention_mask must have the shape of the input, {tuple(tokens.shape)}, got "
                    f"{tuple(attention_mask.shape)}"
                )
            padding = padding | attention_mask.eq(0)
        if (padding[:, 0] & ~padding.all(1)).any():
            raise ValueError("the input must be padded after the sentence, since E and F depend on the position")
        positions = tokens.new_zeros(tokens.size(0), 1, dtype=torch.long) if first_only and not hiddens else None
        features, states = self.encoder(tokens, positions, hiddens, inputs_embeds, padding)
        return BaseModelOutput(last_hidden_state=features, hidden_states=None if states is None else tuple(states))


class LinformerLMHead(nn.Module):
    """fairseq's masked language model head: (B, n, d) to logits (B, n, V)."""

    def __init__(self, config: LinformerPreTrainedConfig):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.vocab_size, config.embed_dim))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.dense = nn.Linear(config.embed_dim, config.embed_dim)
        self.layer_norm = nn.LayerNorm(config.embed_dim, config.layer_norm_eps)
        self.activation_fn = ACTIVATION_FUNCTIONS[config.activation_fn]
        nn.init.normal_(self.weight, std=0.02)
        self.apply(init_bert_weights)

    def forward(self, features: Tensor) -> Tensor:
        x = self.layer_norm(self.activation_fn(self.dense(features)))
        return F.linear(x, self.weight) + self.bias


class LinformerClassificationHead(nn.Module):
    """fairseq's classification head: the first position of (B, n, d) to logits (B, C)."""

    def __init__(self, config: LinformerPreTrainedConfig):
        super().__init__()
        inner = config.classifier_inner_dim or config.embed_dim
        self.dense = nn.Linear(config.embed_dim, inner)
        self.activation_fn = ACTIVATION_FUNCTIONS[config.pooler_activation_fn]
        self.dropout = nn.Dropout(config.pooler_dropout)
        self.out_proj = nn.Linear(inner, config.num_labels)
        self.apply(init_bert_weights)

    def forward(self, features: Tensor) -> Tensor:
        x = self.activation_fn(self.dense(self.dropout(features[:, 0])))
        return self.out_proj(self.dropout(x))


class LinformerForMaskedLM(LinformerPreTrainedModel):
    """Encoder and masked language model head."""

    _tied_weights_keys = {"lm_head.weight": "linformer.encoder.embed_tokens.weight"}

    def __init__(self, config: LinformerPreTrainedConfig):
        super().__init__(config)
        self.linformer = LinformerModel(config)
        self.lm_head = LinformerLMHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs,
    ) -> MaskedLMOutput | tuple[Tensor, ...]:
        """The other arguments are those of ``LinformerModel.forward``.

        Args:
            labels: (B, n), the tokens at masked positions; -100 elsewhere.

        Returns:
            ``loss``, the mean over the masked positions, and ``logits`` (B, n, V).
        """
        outputs = self.linformer(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), labels.to(logits.device).flatten())
        return MaskedLMOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


class LinformerForSequenceClassification(LinformerPreTrainedModel):
    """Encoder and classification head.

    As in fairseq it keeps the language model head, unused and frozen, so that ``Trainer`` saves a complete model.
    """

    _tied_weights_keys = LinformerForMaskedLM._tied_weights_keys

    def __init__(self, config: LinformerPreTrainedConfig):
        super().__init__(config)
        self.linformer = LinformerModel(config)
        # Frozen before tying, so that the embeddings stay trainable.
        self.lm_head = LinformerLMHead(config).requires_grad_(False)
        self.classifier = LinformerClassificationHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs,
    ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
        """The other arguments are those of ``LinformerModel.forward``.

        Args:
            labels: (B,) classes, or (B,) values for ``problem_type`` regression, or (B, C) zeros and ones for
                ``multi_label_classification``.

        Returns:
            ``loss`` and ``logits`` (B, C).
        """
        kwargs.update(first_only=True, return_dict=True)
        outputs = self.linformer(input_ids, attention_mask, inputs_embeds, **kwargs)
        logits = self.classifier(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, logits=logits, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)
