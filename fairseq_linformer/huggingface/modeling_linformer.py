"""Models for ``transformers``: encoder, masked language model, classification of texts and of tokens, answers.

This file is copied into exported folders: it imports only ``transformers`` and the files next to it. Parameters are
those of fairseq's ``linformer_roberta`` with other prefixes:

    linformer.encoder.*   encoder.sentence_encoder.*
    lm_head.*             encoder.lm_head.*
    classifier.*          classification_heads.NAME.*
    score.*, qa_outputs.* (fairseq has no such heads)

    B sentences, n positions, k' projected positions, w the local window, H heads, d width, V size of the dictionary,
    C classes
"""

import re
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from ..modules.attention import gather_positions
from ..modules.encoder import LinformerEncoder, find_shifts, init_bert_weights
from ..modules.encoder_layer import ACTIVATION_FUNCTIONS
from ..modules.projection import KIND_BUFFERS, Projection
from .configuration_linformer import LinformerPreTrainedConfig

_OLD_MATRIX = re.compile(r"\.[EF]\.(?:heads\.\d+\.)?weight$")
"""An entry of earlier versions, which stored some E and F in another way."""


class LinformerPreTrainedModel(PreTrainedModel):
    """Base class of the models: initialization, loading, activation checkpointing."""

    config_class = LinformerPreTrainedConfig
    base_model_prefix = "linformer"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_context_parallel = False  # E and F mix the whole sequence, so that shards of it would be wrong
    _no_split_modules = ["LinformerEncoderLayer"]
    # A folder may carry more heads than a model has, and the buffers of earlier versions.
    _keys_to_ignore_on_load_unexpected = [
        r"^(?:lm_head|classifier|classification_heads|score|qa_outputs)\.",
        rf"\.[EF]\.(?:heads\.\d+\.)?(?:{'|'.join(KIND_BUFFERS)})$",
    ]

    _keys_to_ignore_on_load_missing = [r"\.(?:windows|window_options)$"]  # which earlier versions lacked

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, output_loading_info=False, **kwargs):
        """Load a model. It keeps the E and F of the file, also with another ``projection_lr_scale``."""
        model, report = super().from_pretrained(
            pretrained_model_name_or_path, *args, output_loading_info=True, **kwargs
        )
        if any(_OLD_MATRIX.search(key) for key in report["unexpected_keys"]):
            raise ValueError(
                f"{pretrained_model_name_or_path} was exported by an earlier version; run `fairseq-linformer convert` "
                "on it, and export the result"
            )
        return (model, report) if output_loading_info else model

    def post_init(self):
        frozen = {name for name, parameter in self.named_parameters() if not parameter.requires_grad}
        self._complete = False  # the constructor of a subclass calls this again
        super().post_init()
        self._frozen = frozen - self.all_tied_weights_keys.keys()
        self._complete = True

    def initialize_weights(self):
        """Initialize tensors that a loaded file lacks, and freeze frozen parameters again.

        Modules initialize themselves when built, E and F unlike other matrices, so missing tensors are copied from a
        new model. ``transformers`` calls this at the end of loading, after replacing all parameters by trainable ones.
        """
        if not self._complete:
            return  # the constructor is still running
        self._freeze()
        missing = {
            f"{prefix}.{name}": tensor
            for prefix, module in self.named_modules()
            if not getattr(module, "_is_hf_initialized", False)  # as quantizers mark the layers that they have loaded
            for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            if not getattr(tensor, "_is_hf_initialized", False)
        }
        if missing:
            fresh = type(self)(self.config)
            fresh = dict([*fresh.named_parameters(remove_duplicate=False), *fresh.named_buffers()])
            with torch.no_grad():
                for name, tensor in missing.items():
                    # A file of version 0.2 does not have these options, and its E and F were trained without them.
                    tensor.copy_(torch.zeros(3) if name.endswith(".window_options") else fresh[name])
        for module in self.modules():
            if isinstance(module, Projection):
                module.finish_loading()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.base_model.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.base_model.encoder.embed_tokens = value

    def set_output_embeddings(self, value: nn.Linear) -> None:
        self.lm_head.weight, self.lm_head.bias, self.lm_head.out_features = value.weight, value.bias, len(value.bias)
        self._freeze()  # the head has got the flag of the matrix

    def _freeze(self) -> None:
        for name in self._frozen:
            self.get_parameter(name).requires_grad_(False)

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs=None, every_n_layers=1, offload=False):
        """Recompute each layer in the backward pass instead of storing its activations; with ``offload``, keep the
        stored inputs of layers in host memory. The other arguments have no effect."""
        config = self.base_model.encoder.config
        config.checkpoint_activations, config.offload_activations = True, offload

    def gradient_checkpointing_disable(self):
        config = self.base_model.encoder.config
        config.checkpoint_activations = config.offload_activations = False

    @property
    def is_activation_checkpointing(self) -> bool:
        """Whether layers are recomputed; DistributedDataParallel must then not search unused parameters."""
        return self.base_model.encoder.config.checkpoint_activations

    is_gradient_checkpointing = is_activation_checkpointing  # its name before transformers 5.20


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
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        first_only: bool = False,
    ) -> BaseModelOutput | tuple[Tensor, ...]:
        """
        Args:
            input_ids: (B, n) integers; n at most ``config.max_positions``.
            attention_mask: (B, n), zero at padding, before or after the sentence; ``config.padding_idx`` is always
                padding.
            token_type_ids: zeros, since the model has no segments.
            position_ids: (B or 1, n), which must count the tokens of each sentence from 0, or from fairseq's
                ``padding_idx + 1``, since E and F depend on the position.
            inputs_embeds: (B, n, d), token embeddings instead of ``input_ids``.
            output_attentions: also return the attention weights, which are then computed a second time; of all layers,
                also with LayerDrop.
            output_hidden_states: also return the hidden states, of all layers, too.
            first_only: return only the first token of each sentence, which a classification head reads.

        Returns:
            ``last_hidden_state`` (B, n, d), or (B, 1, d) with ``first_only``; values at padding are meaningless.
            ``hidden_states``: the input of the first layer and the output of each, as in fairseq before the last norm
            of a pre-norm model. ``attentions``: of each layer (B, H, n, k'), before dropout. The last dimension is not
            positions but what a query attends to, the k' projected positions: the windows of E that n positions reach,
            counted from the beginning of the sentence (without projection the n positions). With a local window it is
            k' + 2 w + 1, the last 2 w + 1 of which are the exact keys from w positions before to w after the query.
        """
        if torch.jit.is_tracing():
            raise RuntimeError(
                "torch.jit.trace would keep the length and padding of its example; use torch.export.export with "
                "backed_size_oblivious, see docs/conversion.md"
            )
        if self.config.padding_idx != self.encoder.config.padding_idx:  # `Trainer` sets it to that of the tokenizer
            raise ValueError(
                f"pad_token_id must be {self.encoder.config.padding_idx}, with which the model was built, got "
                f"{self.config.padding_idx}; build it with that of the tokenizer"
            )
        wants_weights = self.config.output_attentions if output_attentions is None else output_attentions
        wants_hiddens = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        padding = find_padding(self.config, input_ids, attention_mask, inputs_embeds)
        _check_ids(token_type_ids, position_ids, padding, self.config.padding_idx)
        tokens = padding if input_ids is None else input_ids  # read only for their shape with inputs_embeds
        back = None
        if torch.compiler.is_exporting() or padding[:, 0].any():  # an exported graph has no branches
            order, back = find_shifts(padding)
            tokens, padding = tokens.gather(1, order), padding.gather(1, order)
            inputs_embeds = None if inputs_embeds is None else gather_positions(inputs_embeds, order)
        needs_hiddens = wants_hiddens or wants_weights
        read = padding.new_zeros(padding.size(0), 1, dtype=torch.long) if first_only and not needs_hiddens else None
        is_padded = True if torch.compiler.is_exporting() else None
        features, states = self.encoder(tokens, read, needs_hiddens, inputs_embeds, padding, is_padded)
        weights = self._attention_weights(states, padding) if wants_weights else []
        if first_only:
            features = features[:, :1]
        elif back is not None:
            features = gather_positions(features, back)
        if back is not None:
            states = states and [gather_positions(state, back) for state in states]
            weights = [each.gather(2, back.to(each.device)[:, None, :, None].expand_as(each)) for each in weights]
        return BaseModelOutput(
            last_hidden_state=features,
            hidden_states=tuple(states) if wants_hiddens else None,
            attentions=tuple(weights) if wants_weights else None,
        )

    def _attention_weights(self, states: list[Tensor], padding: Tensor) -> list[Tensor]:
        """The weights of each layer (B, H, n, k') from the hidden states; fused kernels do not return them."""
        layers: Any = self.encoder.layers
        projection, weights = None if self.encoder.E is None else self.encoder.E(), []
        for layer, x in zip(layers, states):
            x = layer.self_attn_layer_norm(x) if layer.normalize_before else x
            weights.append(layer.self_attn(x, padding, projection, need_weights=True)[1])
        return weights


def find_padding(
    config: LinformerPreTrainedConfig,
    input_ids: Tensor | None,
    attention_mask: Tensor | None,
    inputs_embeds: Tensor | None,
) -> Tensor:
    """Where an input is padding: (B, n), True at padding. The arguments are those of ``LinformerModel.forward``."""
    if input_ids is not None and inputs_embeds is None:
        padding = input_ids.eq(config.padding_idx)
    elif inputs_embeds is not None and input_ids is None:
        padding = torch.zeros_like(inputs_embeds[..., 0], dtype=torch.bool)
    else:
        raise ValueError("exactly one of input_ids and inputs_embeds must be set")
    if attention_mask is None:
        return padding
    if attention_mask.shape != padding.shape:
        raise ValueError(
            f"attention_mask must have the shape of the input, {tuple(padding.shape)}, got "
            f"{tuple(attention_mask.shape)}"
        )
    return padding | attention_mask.eq(0)


def _check_ids(token_type_ids: Tensor | None, position_ids: Tensor | None, padding: Tensor, padding_idx: int) -> None:
    """Raise ValueError for segments and positions that the model does not have. A graph cannot: it reads no data."""
    if torch.compiler.is_compiling():
        return
    if token_type_ids is not None and token_type_ids.any():
        raise ValueError("token_type_ids must be zero, since the model has no segments")
    if position_ids is not None:
        offsets = {*(position_ids - (~padding).cumsum(1) + 1)[~padding].tolist()}
        if not (offsets <= {0} or offsets == {padding_idx + 1}):
            raise ValueError(
                "position_ids must count the tokens of each sentence from 0, since E and F depend on the position"
            )


class LinformerLMHead(nn.Linear):
    """fairseq's masked language model head: (B, n, d) to logits (B, n, V).

    It is the output embedding that ``transformers`` and ``peft`` look for, with more layers before it.
    """

    def __init__(self, config: LinformerPreTrainedConfig):
        super().__init__(config.embed_dim, config.vocab_size)
        self.dense = nn.Linear(config.embed_dim, config.embed_dim)
        self.layer_norm = nn.LayerNorm(config.embed_dim, config.layer_norm_eps)
        self.activation_fn = ACTIVATION_FUNCTIONS[config.activation_fn]
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


class _LabeledModel(LinformerPreTrainedModel):
    """An encoder, and a head whose logits are compared with labels."""

    output_class: Any
    reads_first_only = False

    def head(self, features: Tensor) -> Tensor:
        """The logits of features (B, n, d)."""
        raise NotImplementedError

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | None = None,
        **kwargs,
    ) -> Any:
        """The other arguments are those of ``LinformerModel.forward``.

        Args:
            labels: see the class; -100 at positions without one.
            num_items_in_batch: number of labels in all batches of an update; None for those of this one.

        Returns:
            ``loss``, the sum over the labels divided by their number, and ``logits``.
        """
        kwargs.setdefault("first_only", self.reads_first_only)
        outputs = self.linformer(input_ids, attention_mask, return_dict=True, **kwargs)
        logits = self.head(outputs.last_hidden_state)
        loss = None if labels is None else self.compute_loss(logits, labels, num_items_in_batch)
        return self.output_class(loss, logits, outputs.hidden_states, outputs.attentions)

    def compute_loss(self, logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | None) -> Tensor:
        return self.loss_function(
            logits=logits,
            labels=labels,
            vocab_size=logits.size(-1),
            config=self.config,
            num_items_in_batch=num_items_in_batch,
        )


class LinformerForMaskedLM(_LabeledModel):
    """Encoder and masked language model head: logits (B, n, V), labels (B, n), the tokens at masked positions."""

    output_class = MaskedLMOutput
    _tied_weights_keys = {"lm_head.weight": "linformer.encoder.embed_tokens.weight"}

    def __init__(self, config: LinformerPreTrainedConfig):
        super().__init__(config)
        self.linformer = LinformerModel(config)
        self.lm_head = LinformerLMHead(config)
        self.post_init()

    def head(self, features: Tensor) -> Tensor:
        return self.lm_head(features)


class LinformerForSequenceClassification(_LabeledModel):
    """Encoder and classification head: logits (B, C). Labels are (B,) classes, or (B,) values for ``problem_type``
    regression, or (B, C) zeros and ones for ``multi_label_classification``.

    As in fairseq it keeps the language model head, unused and frozen, so that ``Trainer`` saves a complete model.
    """

    output_class = SequenceClassifierOutput
    reads_first_only = True
    _tied_weights_keys = LinformerForMaskedLM._tied_weights_keys

    def __init__(self, config: LinformerPreTrainedConfig):
        super().__init__(config)
        self.linformer = LinformerModel(config)
        # Frozen before tying, so that the embeddings stay trainable.
        self.lm_head = LinformerLMHead(config).requires_grad_(False)
        self.classifier = LinformerClassificationHead(config)
        self.post_init()

    def head(self, features: Tensor) -> Tensor:
        return self.classifier(features)

    def compute_loss(self, logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | None) -> Tensor:
        loss = self.loss_function(
            labels=labels,
            logits=logits,
            pooled_logits=logits,
            config=self.config,
            num_items_in_batch=num_items_in_batch,
        )
        # Loss functions of scores ignore the number.
        if num_items_in_batch is None or self.config.problem_type == "single_label_classification":
            return loss
        return loss * labels.numel() / num_items_in_batch


class LinformerForTokenClassification(_LabeledModel):
    """Encoder and a linear layer that classifies each token: logits (B, n, C), labels (B, n) classes."""

    output_class = TokenClassifierOutput

    def __init__(self, config: LinformerPreTrainedConfig):
        super().__init__(config)
        self.linformer = LinformerModel(config)
        self.dropout = nn.Dropout(config.pooler_dropout)
        self.score = nn.Linear(config.embed_dim, config.num_labels).apply(init_bert_weights)
        self.post_init()

    def head(self, features: Tensor) -> Tensor:
        return self.score(self.dropout(features))


class LinformerForQuestionAnswering(LinformerPreTrainedModel):
    """Encoder and a linear layer that scores each token as the first and as the last of an answer."""

    def __init__(self, config: LinformerPreTrainedConfig):
        super().__init__(config)
        self.linformer = LinformerModel(config)
        self.qa_outputs = nn.Linear(config.embed_dim, 2).apply(init_bert_weights)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        num_items_in_batch: Tensor | None = None,
        **kwargs,
    ) -> QuestionAnsweringModelOutput | tuple[Tensor, ...]:
        """The other arguments are those of ``LinformerModel.forward``.

        Args:
            start_positions, end_positions: (B,), the first and the last token of the answer.
            num_items_in_batch: number of answers in all batches of an update; None for those of this one.

        Returns:
            ``loss``, the mean of both, and ``start_logits`` and ``end_logits`` (B, n), the lowest number at padding.
        """
        outputs = self.linformer(input_ids, attention_mask, return_dict=True, **kwargs)
        padding = find_padding(self.config, input_ids, attention_mask, kwargs.get("inputs_embeds"))
        logits = self.qa_outputs(outputs.last_hidden_state)
        padding = padding.unsqueeze(-1).to(logits.device)
        start, end = logits.masked_fill(padding, torch.finfo(logits.dtype).min).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = self.loss_function(start, end, start_positions, end_positions, num_items_in_batch=num_items_in_batch)
        return QuestionAnsweringModelOutput(loss, start, end, outputs.hidden_states, outputs.attentions)
