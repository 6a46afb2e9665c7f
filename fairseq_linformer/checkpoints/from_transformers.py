"""BERT, RoBERTa and encoders with their layers, of ``transformers``, as checkpoints of fairseq's RoBERTa.

fairseq's RoBERTa has no segments: the embedding of the first one is added to the position embeddings.
"""

import os
import re
from argparse import Namespace
from typing import Any

import torch
from torch import Tensor, nn

from ..config import LinformerConfig, check_value
from ..models.options import BERT_EPSILON
from ..models.state_dicts import (
    EMBEDDINGS,
    ENCODER,
    OUTPUT_BIAS,
    OUTPUT_EMBEDDINGS,
    PADDING_IDX,
    POSITIONS,
    max_positions,
)
from ..modules.encoder import init_bert_weights
from .files import Files, build_checkpoint, put_modules
from .provenance import NEW_LM_HEAD
from .sentence_transformers import needs_lower_case, read_modules
from .transformers_loading import check_loaded_weights, find_hub_file, hash_weights, load_from_transformers
from .transformers_tokenizer import read_vocabulary

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_accurate", "gelu_pytorch_tanh": "gelu_accurate", "relu": "relu"}
"""Activation in ``transformers`` -> in fairseq."""

_LAYER = re.compile(r"(?:encoder|transformer)\.layer\.(\d+)\.")
_NAMES = {
    ENCODER + "embed_tokens": ["embeddings.word_embeddings"],
    ENCODER + "embed_positions": ["embeddings.position_embeddings"],
    ENCODER + "layernorm_embedding": ["embeddings.LayerNorm"],
    "self_attn.q_proj": ["attention.self.query", "attention.q_lin"],
    "self_attn.k_proj": ["attention.self.key", "attention.k_lin"],
    "self_attn.v_proj": ["attention.self.value", "attention.v_lin"],
    "self_attn.out_proj": ["attention.output.dense", "attention.out_lin"],
    "self_attn_layer_norm": ["attention.output.LayerNorm", "sa_layer_norm"],
    "fc1": ["intermediate.dense", "ffn.lin1"],
    "fc2": ["output.dense", "ffn.lin2"],
    "final_layer_norm": ["output.LayerNorm", "output_layer_norm"],
    "encoder.lm_head.dense": [
        "cls.predictions.transform.dense",
        "vocab_transform",
        "generator_predictions.dense",
        "lm_head.dense",
    ],
    "encoder.lm_head.layer_norm": [
        "cls.predictions.transform.LayerNorm",
        "vocab_layer_norm",
        "generator_predictions.LayerNorm",
        "lm_head.layer_norm",
    ],
    "encoder.lm_head": ["cls.predictions.decoder", "vocab_projector", "generator_lm_head", "lm_head.decoder"],
}
"""Module in fairseq -> in BERT, DistilBERT, ELECTRA and RoBERTa, without the prefix of the encoder or of a layer."""
_FAIRSEQ_NAMES = {theirs: name for name, all_theirs in _NAMES.items() for theirs in all_theirs}
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


def read_transformers(name: str, config: Any) -> tuple[dict[str, Any], Files]:
    """Read BERT, RoBERTa or an encoder with their layers as a checkpoint of fairseq, with ``dict.txt``, tokenizer
    and modules of ``sentence-transformers``. No code is run.

    Features are those of ``transformers``. If the layer norms have an epsilon other than fairseq's 1e-5, the
    architecture is ``linformer_roberta`` with full attention instead of ``roberta``. Without a complete masked LM head,
    the checkpoint gets that of a new model. Its ``provenance`` has, under ``imported``, ``name``, ``model_type`` and
    ``sha256`` of the weights; ``lm_head``, "imported" or ``NEW_LM_HEAD``; ``hub``, the whole name if it is on the hub;
    and ``license`` and ``language`` if the model card states them.

    Args:
        name: folder with safetensors and a fast tokenizer, or name of a model on the hub.
        config: from ``load_config``.
    """
    from transformers import AutoModelForMaskedLM

    _check_type(name, config)
    checksum = hash_weights(name)
    encoder, info = load_from_transformers(
        AutoModelForMaskedLM,
        name,
        config=config,
        use_safetensors=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # these are reported below
        dtype=torch.float32,
    )
    prefix = f"{encoder.base_model_prefix}."
    check_loaded_weights(name, info, lambda key: not key.startswith(prefix))
    state = _to_fairseq(prefix, encoder.state_dict(), config)
    is_new = bool(info["missing_keys"] or info["mismatched_keys"])  # weights of a head, which has been drawn at random
    if is_new:
        add_lm_head(state)
    is_tied = torch.equal(state[OUTPUT_EMBEDDINGS], state[EMBEDDINGS])
    modules = read_modules(name)
    order, files = read_vocabulary(name, state[EMBEDDINGS].size(0), needs_lower_case(modules))
    for key in (EMBEDDINGS, OUTPUT_EMBEDDINGS, OUTPUT_BIAS):
        state[key] = state[key][order]
    if is_tied:
        state[OUTPUT_EMBEDDINGS] = state[EMBEDDINGS]
    n, epsilon = max_positions(state), getattr(config, "layer_norm_eps", BERT_EPSILON)  # DistilBERT's is fixed
    options = {
        **{option: getattr(config, attribute) for option, attribute in _settings(config).items()},
        "encoder_layers": config.num_hidden_layers,
        "encoder_embed_dim": config.hidden_size,
        "encoder_attention_heads": config.num_attention_heads,
        "max_positions": n,
        "untie_weights_roberta": not is_tied,
    }
    options["activation_fn"] = _ACTIVATIONS[options["activation_fn"]]
    if epsilon == LinformerConfig.layer_norm_eps:
        model: Any = Namespace(_name="roberta", arch="roberta", **options)  # fairseq's model has no dataclass
    else:
        model = {"_name": "linformer_roberta", "projection": "none", "layer_norm_eps": epsilon, **options}
    cfg = {
        "model": model,
        "task": {"_name": "masked_lm", "data": "", "tokens_per_sample": n},
        "criterion": {"_name": "masked_lm", "tpu": False},
    }
    imported = {
        "name": os.path.basename(os.path.abspath(name)),
        "model_type": config.model_type,
        "sha256": checksum,
        "lm_head": NEW_LM_HEAD if is_new else "imported",
        **({} if os.path.isdir(name) else {"hub": name}),
        **_read_card(name),
    }
    return build_checkpoint(cfg, state, {"imported": imported}), files | put_modules(modules)


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
    state = {}
    for key, value in weights.items():
        module, _, leaf = key.removeprefix(prefix).rpartition(".")
        if new := _FAIRSEQ_NAMES.get(_LAYER.sub("", module)):
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
    layers = {"dense": nn.Linear(width, width, dtype=dtype), "layer_norm": nn.LayerNorm(width, dtype=dtype)}
    state.update(nn.ModuleDict(layers).apply(init_bert_weights).state_dict(prefix="encoder.lm_head."))
    state[OUTPUT_EMBEDDINGS], state[OUTPUT_BIAS] = state[EMBEDDINGS], torch.zeros(vocab_size, dtype=dtype)
