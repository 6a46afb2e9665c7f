"""BERT, RoBERTa and encoders with their layers, of ``transformers``, as state dicts of fairseq's RoBERTa.

fairseq's RoBERTa has no segments: the embedding of the first one is added to the position embeddings.
"""

import os
import re
from typing import Any

import torch
from torch import Tensor, nn

from ..config import LinformerConfig, check_value
from ..models.options import BERT_EPSILON
from ..models.state_dicts import EMBEDDINGS, ENCODER, OUTPUT_BIAS, OUTPUT_EMBEDDINGS, PADDING_IDX, POSITIONS
from ..modules.encoder import init_bert_weights
from .provenance import NEW_LM_HEAD
from .transformers_loading import check_loaded_weights, find_hub_file, hash_weights, load_from_transformers

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_accurate", "gelu_pytorch_tanh": "gelu_accurate", "relu": "relu"}
"""Activation in ``transformers`` -> in fairseq."""

_LAYER = re.compile(r"(?:encoder|transformer)\.layer\.(\d+)\.")
_NAMES = {
    "embeddings.word_embeddings": ENCODER + "embed_tokens",
    "embeddings.position_embeddings": ENCODER + "embed_positions",
    "embeddings.LayerNorm": ENCODER + "layernorm_embedding",
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
    "attention.q_lin": "self_attn.q_proj",  # DistilBERT
    "attention.k_lin": "self_attn.k_proj",
    "attention.v_lin": "self_attn.v_proj",
    "attention.out_lin": "self_attn.out_proj",
    "sa_layer_norm": "self_attn_layer_norm",
    "ffn.lin1": "fc1",
    "ffn.lin2": "fc2",
    "output_layer_norm": "final_layer_norm",
}
"""Module of an encoder, without its prefix, or of a layer in ``transformers`` -> in fairseq."""
_HEAD_NAMES = {
    "cls.predictions.transform.dense": "encoder.lm_head.dense",  # BERT, ERNIE
    "cls.predictions.transform.LayerNorm": "encoder.lm_head.layer_norm",
    "cls.predictions.decoder": "encoder.lm_head",
    "lm_head.dense": "encoder.lm_head.dense",  # RoBERTa
    "lm_head.layer_norm": "encoder.lm_head.layer_norm",
    "lm_head.decoder": "encoder.lm_head",
    "generator_predictions.dense": "encoder.lm_head.dense",  # ELECTRA
    "generator_predictions.LayerNorm": "encoder.lm_head.layer_norm",
    "generator_lm_head": "encoder.lm_head",
    "vocab_transform": "encoder.lm_head.dense",  # DistilBERT
    "vocab_layer_norm": "encoder.lm_head.layer_norm",
    "vocab_projector": "encoder.lm_head",
}
"""The same of masked LM heads."""
_SETTINGS = {
    "encoder_ffn_embed_dim": ("intermediate_size", "hidden_dim"),
    "activation_fn": ("hidden_act", "activation"),
    "dropout": ("hidden_dropout_prob", "dropout"),
    "attention_dropout": ("attention_probs_dropout_prob", "attention_dropout"),
}
"""Option of fairseq -> attribute of the configuration, and that of DistilBERT's."""
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
    is_new = bool(info["missing_keys"] or info["mismatched_keys"])  # weights of a head, which has been drawn at random
    if is_new:
        add_lm_head(state)
    tied = torch.equal(state[OUTPUT_EMBEDDINGS], state[EMBEDDINGS])
    if tied:
        state[OUTPUT_EMBEDDINGS] = state[EMBEDDINGS]
    options = {
        "layer_norm_eps": getattr(config, "layer_norm_eps", BERT_EPSILON),  # DistilBERT's is fixed
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
        "lm_head": NEW_LM_HEAD if is_new else "imported",
        **({} if os.path.isdir(name) else {"hub": name}),
        **_read_card(name),
    }
    return state, options, origin


def _read_card(name: str) -> dict[str, Any]:
    """License and languages in the model card of a folder or a model on the hub, if it states them."""
    from huggingface_hub import ModelCard

    try:
        path = find_hub_file(name, "README.md")
        data = ModelCard.load(path, ignore_metadata_errors=True).data if path else None
    except Exception:  # it is damaged, or the hub cannot be reached, which raises many types
        return {}
    values = {key: getattr(data, key, None) for key in ("license", "language")}
    return {key: value for key, value in values.items() if isinstance(value, str | list)}


def _settings(config: Any) -> dict[str, str]:
    """Option of fairseq -> attribute of this configuration."""
    return {option: names[config.model_type == "distilbert"] for option, names in _SETTINGS.items()}


def _check_type(name: str, config: Any) -> None:
    """Raise ValueError if fairseq's RoBERTa cannot represent the model."""
    if config.model_type not in _TYPES:
        reason = next((f": {reason}" for reason, types in _UNLIKE.items() if config.model_type in types), "")
        raise ValueError(f"model_type of {name} must be one of {', '.join(_TYPES)}, got {config.model_type!r}{reason}")
    # The masked LM heads of RoBERTa and ELECTRA in transformers always use gelu, that of fairseq the activation of the
    # layers.
    activations = ["gelu"] if config.model_type in (*_LIKE_ROBERTA, "electra") else list(_ACTIVATIONS)
    requirements: dict[str, list[Any]] = {
        "position_embedding_type": ["absolute"],
        "is_decoder": [False],
        "embedding_size": [config.hidden_size],  # ELECTRA
        "use_task_id": [False],  # ERNIE
        _settings(config)["activation_fn"]: activations,
    }
    for attribute, allowed in requirements.items():
        value = getattr(config, attribute, allowed[0])
        if value not in allowed:
            raise ValueError(f"{attribute} of {name} must be {' or '.join(map(str, allowed))}, got {value!r}")
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
        if new := names.get(_LAYER.sub("", module)):
            layer = _LAYER.match(module)
            where = f"{ENCODER}layers.{layer[1]}." if layer else ""
            state[f"{where}{new}.{leaf}"] = value.clone()
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
        state.update({f"encoder.lm_head.{name}.{key}": value for key, value in module.state_dict().items()})
    state[OUTPUT_EMBEDDINGS], state[OUTPUT_BIAS] = state[EMBEDDINGS], torch.zeros(vocab_size, dtype=dtype)
