"""BERT, RoBERTa and encoders with their layers, of ``transformers``, as state dicts of fairseq's RoBERTa.

fairseq's RoBERTa has no segments: the embedding of the first one is added to the position embeddings.
"""

import os
import re
from typing import Any

import torch
from torch import Tensor, nn

from ..config import LinformerConfig, check_value
from ..models.distillation import NEW_LM_HEAD
from ..models.options import BERT_EPSILON
from ..models.state_dicts import EMBEDDINGS, ENCODER, OUTPUT_BIAS, OUTPUT_EMBEDDINGS, PADDING_IDX, POSITIONS
from ..modules.encoder import init_bert_weights
from .transformers_loading import check_loaded_weights, find_hub_file, hash_weights, load_from_transformers

_LM_HEAD = "encoder.lm_head"
_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_accurate", "gelu_pytorch_tanh": "gelu_accurate", "relu": "relu"}
"""Activation in ``transformers`` -> in fairseq."""

_LAYER, _DISTILBERT_LAYER, _FAIRSEQ_LAYER = "encoder.layer.{}.", "transformer.layer.{}.", ENCODER + "layers.{}."
_NAMES = {
    "embeddings.word_embeddings": ENCODER + "embed_tokens",
    "embeddings.position_embeddings": ENCODER + "embed_positions",
    "embeddings.LayerNorm": ENCODER + "layernorm_embedding",
    _LAYER + "attention.self.query": _FAIRSEQ_LAYER + "self_attn.q_proj",
    _LAYER + "attention.self.key": _FAIRSEQ_LAYER + "self_attn.k_proj",
    _LAYER + "attention.self.value": _FAIRSEQ_LAYER + "self_attn.v_proj",
    _LAYER + "attention.output.dense": _FAIRSEQ_LAYER + "self_attn.out_proj",
    _LAYER + "attention.output.LayerNorm": _FAIRSEQ_LAYER + "self_attn_layer_norm",
    _LAYER + "intermediate.dense": _FAIRSEQ_LAYER + "fc1",
    _LAYER + "output.dense": _FAIRSEQ_LAYER + "fc2",
    _LAYER + "output.LayerNorm": _FAIRSEQ_LAYER + "final_layer_norm",
    _DISTILBERT_LAYER + "attention.q_lin": _FAIRSEQ_LAYER + "self_attn.q_proj",
    _DISTILBERT_LAYER + "attention.k_lin": _FAIRSEQ_LAYER + "self_attn.k_proj",
    _DISTILBERT_LAYER + "attention.v_lin": _FAIRSEQ_LAYER + "self_attn.v_proj",
    _DISTILBERT_LAYER + "attention.out_lin": _FAIRSEQ_LAYER + "self_attn.out_proj",
    _DISTILBERT_LAYER + "sa_layer_norm": _FAIRSEQ_LAYER + "self_attn_layer_norm",
    _DISTILBERT_LAYER + "ffn.lin1": _FAIRSEQ_LAYER + "fc1",
    _DISTILBERT_LAYER + "ffn.lin2": _FAIRSEQ_LAYER + "fc2",
    _DISTILBERT_LAYER + "output_layer_norm": _FAIRSEQ_LAYER + "final_layer_norm",
}
"""Module of an encoder in ``transformers``, without the prefix of the model -> in fairseq."""
_HEAD_NAMES = {
    "cls.predictions.transform.dense": _LM_HEAD + ".dense",  # BERT, ERNIE
    "cls.predictions.transform.LayerNorm": _LM_HEAD + ".layer_norm",
    "cls.predictions.decoder": _LM_HEAD,
    "lm_head.dense": _LM_HEAD + ".dense",  # RoBERTa
    "lm_head.layer_norm": _LM_HEAD + ".layer_norm",
    "lm_head.decoder": _LM_HEAD,
    "generator_predictions.dense": _LM_HEAD + ".dense",  # ELECTRA
    "generator_predictions.LayerNorm": _LM_HEAD + ".layer_norm",
    "generator_lm_head": _LM_HEAD,
    "vocab_transform": _LM_HEAD + ".dense",  # DistilBERT
    "vocab_layer_norm": _LM_HEAD + ".layer_norm",
    "vocab_projector": _LM_HEAD,
}
"""The same of masked LM heads."""
_SETTINGS = {
    "encoder_ffn_embed_dim": "intermediate_size",
    "activation_fn": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "layer_norm_eps": "layer_norm_eps",
}
"""Option of fairseq -> attribute of the configuration."""
_DISTILBERT_SETTINGS = {
    "encoder_ffn_embed_dim": "hidden_dim",
    "activation_fn": "activation",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
}
_LIKE_ROBERTA = ("roberta", "xlm-roberta", "camembert", "data2vec-text")
"""Model types with RoBERTa's position IDs and masked LM head."""
_TYPES = ("bert", "ernie", "electra", *_LIKE_ROBERTA, "distilbert")
_UNLIKE = {
    "its positions are rotary": ("eurobert", "gte", "jina_embeddings_v3", "modernbert", "nomic_bert", "roformer"),
    "its positions are relative": ("deberta", "deberta-v2", "mpnet", "t5"),
    "its embeddings are factorized": ("albert", "rembert"),
    "its attention is sparse": ("big_bird", "longformer"),
    "its layer norms come before the sublayers": ("esm", "megatron-bert", "roberta-prelayernorm", "xlm-roberta-xl"),
}
"""Why fairseq's RoBERTa cannot represent models -> their types."""


def read_encoder(name: str, config: Any) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]:
    """Read an encoder from a folder or from the hub.

    Only safetensors are read, and no code is run. Without a complete masked LM head, it gets that of a new model.

    Args:
        name: folder, or name of a model on the hub.
        config: from ``load_config``.

    Returns:
        - State dict of fairseq's RoBERTa; rows of the embeddings are in the order of ``transformers``.
        - Options of the model.
        - Where it comes from: ``name``, ``model_type`` and ``sha256`` of the weights; ``lm_head``, "imported" or
          ``NEW_LM_HEAD``; ``hub``, the whole name if it is on the hub; and ``license`` and ``language`` if the model
          card states them.
    """
    from transformers import AutoModelForMaskedLM

    _check_type(name, config)
    checksum = hash_weights(name)
    model, info = load_from_transformers(
        AutoModelForMaskedLM,
        name,
        config=config,
        use_safetensors=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # these are reported below
        dtype=torch.float32,
    )
    heads = (*_HEAD_NAMES, "cls.predictions.", "lm_head.")
    check_loaded_weights(name, info, lambda key: key.startswith(heads))
    state = _to_fairseq(model.base_model_prefix, model.state_dict(), config)
    if info["missing_keys"]:
        add_lm_head(state)
    tied = torch.equal(state[OUTPUT_EMBEDDINGS], state[EMBEDDINGS])
    if tied:
        state[OUTPUT_EMBEDDINGS] = state[EMBEDDINGS]
    options = {
        "layer_norm_eps": BERT_EPSILON,  # DistilBERT's is fixed
        **{option: getattr(config, attribute) for option, attribute in _settings(config).items()},
        "encoder_layers": config.num_hidden_layers,
        "encoder_embed_dim": config.hidden_size,
        "encoder_attention_heads": config.num_attention_heads,
        "max_positions": state[POSITIONS].size(0) - PADDING_IDX - 1,
        "untie_weights_roberta": not tied,
    }
    options["activation_fn"] = _ACTIVATIONS[options["activation_fn"]]
    origin = {
        "name": os.path.basename(os.path.abspath(name)),
        "model_type": config.model_type,
        "sha256": checksum,
        "lm_head": NEW_LM_HEAD if info["missing_keys"] else "imported",
        **({} if os.path.isdir(name) else {"hub": name}),
        **_read_card(name),
    }
    return state, options, origin


def _read_card(name: str) -> dict[str, Any]:
    """License and languages in the model card of a folder or a model on the hub, if it states them."""
    from huggingface_hub import ModelCard

    if not (path := find_hub_file(name, "README.md")):
        return {}
    try:
        data = ModelCard.load(path, ignore_metadata_errors=True).data
    except Exception:  # it is damaged, which raises many types
        return {}
    values = {key: getattr(data, key, None) for key in ("license", "language")}
    return {key: value for key, value in values.items() if isinstance(value, str | list)}


def _settings(config: Any) -> dict[str, str]:
    return _DISTILBERT_SETTINGS if config.model_type == "distilbert" else _SETTINGS


def _check_type(name: str, config: Any) -> None:
    """Raise ValueError if fairseq's RoBERTa cannot represent the model."""
    if config.model_type not in _TYPES:
        reason = next((f": {reason}" for reason, types in _UNLIKE.items() if config.model_type in types), "")
        raise ValueError(f"model_type of {name} must be one of {', '.join(_TYPES)}, got {config.model_type!r}{reason}")
    # The masked LM heads of RoBERTa and ELECTRA in transformers always use gelu, that of fairseq the activation of the
    # layers.
    activations = ["gelu"] if config.model_type in (*_LIKE_ROBERTA, "electra") else list(_ACTIVATIONS)
    for option, value, allowed in (
        ("position_embedding_type", getattr(config, "position_embedding_type", "absolute"), ["absolute"]),
        ("is_decoder", getattr(config, "is_decoder", False), [False]),
        ("embedding_size", getattr(config, "embedding_size", config.hidden_size), [config.hidden_size]),  # ELECTRA
        ("use_task_id", getattr(config, "use_task_id", False), [False]),  # ERNIE
        ("activation", getattr(config, _settings(config)["activation_fn"]), activations),
    ):
        if value not in allowed:
            raise ValueError(f"{option} of {name} must be {' or '.join(map(str, allowed))}, got {value!r}")
    declared = LinformerConfig.__dataclass_fields__["layer_norm_eps"]
    check_value(declared, getattr(config, "layer_norm_eps", BERT_EPSILON), f"layer_norm_eps of {name}")


def _to_fairseq(prefix: str, weights: dict[str, Tensor], config: Any) -> dict[str, Tensor]:
    """Rename the weights, fold the first segment into the positions, and offset the positions.

    Args:
        prefix: of the encoder's weights.
    """
    names, state = {**_NAMES, **_HEAD_NAMES}, {}
    for key, value in weights.items():
        module, _, leaf = key.removeprefix(f"{prefix}.").rpartition(".")
        layer = "".join(re.findall(r"(?<=layer\.)\d+", module))
        if new := names.get(module.replace(f"layer.{layer}.", "layer.{}.")):
            state[f"{new.format(layer)}.{leaf}"] = value.clone()
    first = config.pad_token_id + 1 if config.model_type in _LIKE_ROBERTA else 0
    positions = state[POSITIONS][first:]
    segments = next((value for key, value in weights.items() if key.endswith("token_type_embeddings.weight")), None)
    if segments is not None and len(segments):
        positions = positions + segments[0]
    padding = positions.new_zeros(PADDING_IDX + 1, config.hidden_size)
    state[POSITIONS] = torch.cat([padding, positions])
    return state


def add_lm_head(state: dict[str, Tensor]) -> None:
    """Add a new masked LM head, tied to the embeddings, to a state dict."""
    vocab_size, width = state[EMBEDDINGS].shape
    dtype = state[EMBEDDINGS].dtype
    dense, norm = nn.Linear(width, width, dtype=dtype), nn.LayerNorm(width, dtype=dtype)
    init_bert_weights(dense)
    for name, module in (("dense", dense), ("layer_norm", norm)):
        state.update({f"{_LM_HEAD}.{name}.{key}": value for key, value in module.state_dict().items()})
    state[OUTPUT_EMBEDDINGS], state[OUTPUT_BIAS] = state[EMBEDDINGS], torch.zeros(vocab_size, dtype=dtype)
