"""BERT, DistilBERT, RoBERTa, XLM-R and CamemBERT of ``transformers`` as state dicts of fairseq's RoBERTa.

fairseq's RoBERTa has no segments: the embedding of the first one is added to the position embeddings.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..config import check_epsilon
from ..errors import silence_transformers
from ..files import fingerprint, sha256
from ..models.roberta_eps import BERT_EPSILON
from ..models.shapes import EMBEDDINGS, ENCODER, OUTPUT_EMBEDDINGS, PADDING_IDX, POSITIONS
from ..modules.encoder import init_bert_weights
from .transformers_loading import (
    WEIGHTS,
    check_config,
    check_loaded_weights,
    describe_pickle,
    find_hub_file,
    load_from_transformers,
    read_weight_files,
)

FAIRSEQ_EPSILON = 1e-5
"""Fixed epsilon of the layer norms of fairseq's RoBERTa."""
_LM_HEAD = "encoder.lm_head."
_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_accurate", "gelu_pytorch_tanh": "gelu_accurate", "relu": "relu"}
"""Activation in ``transformers`` -> in fairseq."""
_UNSUPPORTED_POSITIONS = {
    "mpnet": "a relative position bias",
    "deberta": "relative positions",
    "deberta-v2": "relative positions",
    "modernbert": "rotary positions",
    "roformer": "rotary positions",
    "nomic_bert": "rotary positions",
    "t5": "a relative position bias",
}
"""Model types whose positions the Linformer cannot represent."""


@dataclass(frozen=True)
class _Family:
    """Where a family of models keeps its weights and settings.

    Attributes:
        names: pairs of a prefix in ``transformers`` and one in fairseq; ``{}`` is the number of a layer.
        settings: option of fairseq -> attribute of the configuration.
        first_position: row of the first token in the position embeddings.
    """

    names: tuple[tuple[str, str], ...]
    settings: dict[str, str]
    first_position: int = 0


_BERT_NAMES = (
    ("embeddings.word_embeddings.", ENCODER + "embed_tokens."),
    ("embeddings.position_embeddings.", ENCODER + "embed_positions."),
    ("embeddings.LayerNorm.", ENCODER + "layernorm_embedding."),
    ("encoder.layer.{}.attention.self.query.", ENCODER + "layers.{}.self_attn.q_proj."),
    ("encoder.layer.{}.attention.self.key.", ENCODER + "layers.{}.self_attn.k_proj."),
    ("encoder.layer.{}.attention.self.value.", ENCODER + "layers.{}.self_attn.v_proj."),
    ("encoder.layer.{}.attention.output.dense.", ENCODER + "layers.{}.self_attn.out_proj."),
    ("encoder.layer.{}.attention.output.LayerNorm.", ENCODER + "layers.{}.self_attn_layer_norm."),
    ("encoder.layer.{}.intermediate.dense.", ENCODER + "layers.{}.fc1."),
    ("encoder.layer.{}.output.dense.", ENCODER + "layers.{}.fc2."),
    ("encoder.layer.{}.output.LayerNorm.", ENCODER + "layers.{}.final_layer_norm."),
)
_BERT_SETTINGS = {
    "encoder_ffn_embed_dim": "intermediate_size",
    "activation_fn": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "layer_norm_eps": "layer_norm_eps",
}
_FAMILIES = {
    "bert": _Family(
        names=(
            *((f"bert.{name}", fairseq) for name, fairseq in _BERT_NAMES),
            ("cls.predictions.transform.dense.", _LM_HEAD + "dense."),
            ("cls.predictions.transform.LayerNorm.", _LM_HEAD + "layer_norm."),
            ("cls.predictions.decoder.", _LM_HEAD),
        ),
        settings=_BERT_SETTINGS,
    ),
    "roberta": _Family(
        names=(
            *((f"roberta.{name}", fairseq) for name, fairseq in _BERT_NAMES),
            ("lm_head.dense.", _LM_HEAD + "dense."),
            ("lm_head.layer_norm.", _LM_HEAD + "layer_norm."),
            ("lm_head.decoder.", _LM_HEAD),
        ),
        settings=_BERT_SETTINGS,
        first_position=PADDING_IDX + 1,
    ),
    "distilbert": _Family(
        names=(
            ("distilbert.embeddings.word_embeddings.", ENCODER + "embed_tokens."),
            ("distilbert.embeddings.position_embeddings.", ENCODER + "embed_positions."),
            ("distilbert.embeddings.LayerNorm.", ENCODER + "layernorm_embedding."),
            ("distilbert.transformer.layer.{}.attention.q_lin.", ENCODER + "layers.{}.self_attn.q_proj."),
            ("distilbert.transformer.layer.{}.attention.k_lin.", ENCODER + "layers.{}.self_attn.k_proj."),
            ("distilbert.transformer.layer.{}.attention.v_lin.", ENCODER + "layers.{}.self_attn.v_proj."),
            ("distilbert.transformer.layer.{}.attention.out_lin.", ENCODER + "layers.{}.self_attn.out_proj."),
            ("distilbert.transformer.layer.{}.sa_layer_norm.", ENCODER + "layers.{}.self_attn_layer_norm."),
            ("distilbert.transformer.layer.{}.ffn.lin1.", ENCODER + "layers.{}.fc1."),
            ("distilbert.transformer.layer.{}.ffn.lin2.", ENCODER + "layers.{}.fc2."),
            ("distilbert.transformer.layer.{}.output_layer_norm.", ENCODER + "layers.{}.final_layer_norm."),
            ("vocab_transform.", _LM_HEAD + "dense."),
            ("vocab_layer_norm.", _LM_HEAD + "layer_norm."),
            ("vocab_projector.", _LM_HEAD),
        ),
        settings={
            "encoder_ffn_embed_dim": "hidden_dim",
            "activation_fn": "activation",
            "dropout": "dropout",
            "attention_dropout": "attention_dropout",
        },
    ),
}
_LIKE_ROBERTA = ("roberta", "xlm-roberta", "camembert")
_FAMILIES |= dict.fromkeys(_LIKE_ROBERTA, _FAMILIES["roberta"])


@dataclass(frozen=True)
class Encoder:
    """An encoder of ``transformers`` in fairseq's terms.

    Attributes:
        state: state dict of fairseq's RoBERTa; rows of the embeddings are in the order of ``transformers``.
        options: options of the model.
        has_lm_head: whether the masked LM head is the encoder's; otherwise it is new and untrained.
        source: model type, name, and checksum of the weights (``hash_weights``); ``hub``, the whole name if it is on
            the hub, and ``license`` if the model card states one.
    """

    state: dict[str, Tensor]
    options: dict[str, Any]
    has_lm_head: bool
    source: dict[str, Any]


def read_encoder(name: str) -> Encoder:
    """Read an encoder from a folder or from the hub.

    Only safetensors are read, and no code is run. A missing masked LM head is initialized like that of a new model.

    Args:
        name: folder with ``config.json``, or name of a model on the hub.

    Raises:
        ValueError: it cannot be loaded, has no weights in safetensors, or is not supported.
    """
    from transformers import AutoConfig, AutoModelForMaskedLM

    silence_transformers()
    config = load_from_transformers(AutoConfig, name)
    check_config(name, config)
    family = _check_supported(name, config)
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
    has_lm_head = _check_weights(name, family, model, info)
    if has_lm_head and config.model_type in _LIKE_ROBERTA and config.hidden_act != "gelu":
        raise ValueError(
            f"hidden_act of {name} must be 'gelu', got {config.hidden_act!r}: the head in transformers always uses "
            "gelu, fairseq's head the activation of the layers"
        )
    state = _to_fairseq(model.state_dict(), family, config)
    if not has_lm_head:
        _add_lm_head(state)
    tied = torch.equal(state[OUTPUT_EMBEDDINGS], state[EMBEDDINGS])
    if tied:
        state[OUTPUT_EMBEDDINGS] = state[EMBEDDINGS]
    options = {
        "layer_norm_eps": BERT_EPSILON,  # DistilBERT's is fixed
        **{option: getattr(config, attribute) for option, attribute in family.settings.items()},
        "encoder_layers": config.num_hidden_layers,
        "encoder_embed_dim": config.hidden_size,
        "encoder_attention_heads": config.num_attention_heads,
        "max_positions": state[POSITIONS].size(0) - PADDING_IDX - 1,
        "untie_weights_roberta": not tied,
    }
    options["activation_fn"] = _ACTIVATIONS[options["activation_fn"]]
    source = {"name": os.path.basename(os.path.abspath(name)), "model_type": config.model_type, "sha256": checksum}
    if not os.path.isdir(name):
        source["hub"] = name
    if license := read_license(name):
        source["license"] = license
    return Encoder(state, options, has_lm_head, source)


def read_license(name: str) -> str | None:
    """The license in the model card of a folder or a model on the hub; None without one."""
    from huggingface_hub import ModelCard

    path = Path(name) / "README.md"
    if os.path.isdir(name) and not path.is_file():
        return None
    try:
        license = ModelCard.load(path if path.is_file() else name, ignore_metadata_errors=True).data.license
    except Exception:  # there is no card, it is damaged, or the network fails
        return None
    return license if isinstance(license, str) else None


def hash_weights(name: str) -> str:
    """SHA-256 of the safetensors file of a model, or of the checksums of several.

    Raises:
        ValueError: there is no such model, a file is missing, or its weights are a pickle.
    """
    if path := find_hub_file(name, WEIGHTS):
        return sha256(path)
    if index := find_hub_file(name, f"{WEIGHTS}.index.json"):
        paths = {shard: find_hub_file(name, shard) for shard in read_weight_files(index)}
        if missing := [shard for shard, path in paths.items() if path is None]:
            raise ValueError(f"{name} has no {missing[0]}, which is in {index.name}")
        return fingerprint({shard: sha256(path) for shard, path in paths.items()})
    if find_hub_file(name, "pytorch_model.bin"):
        raise ValueError(describe_pickle(name))
    offline = "" if os.path.isdir(name) else ", or it is not cached and the hub cannot be reached"
    raise ValueError(f"{name} has no {WEIGHTS}{offline}")


def _check_weights(name: str, family: _Family, model: Any, info: dict[str, Any]) -> bool:
    """Check that the stored weights are those of the configuration; returns whether they have a masked LM head."""
    prefixes = [prefix for prefix, fairseq in family.names if fairseq.startswith(_LM_HEAD)]
    head_prefixes = (*prefixes, "cls.predictions.", "lm_head.")
    head = {key for key in model.state_dict() if key.startswith(head_prefixes)}
    if model.config.tie_word_embeddings:  # the decoder is not stored
        head -= {key for key in head if key.endswith(("decoder.weight", "vocab_projector.weight"))}
    missing = set(info["missing_keys"])
    check_loaded_weights(name, info, (head & missing).__contains__)
    if unexpected := sorted(key for key in info["unexpected_keys"] if re.search(r"layer\.\d+\.", key)):
        raise ValueError(f"the weights of {name} do not match its config.json: {unexpected[0]} is unexpected")
    if missing and missing != head:
        raise ValueError(f"the masked LM head of {name} is incomplete: {min(missing)} is missing")
    return not missing


def _check_supported(name: str, config: Any) -> _Family:
    """The family of a model; ValueError if fairseq's RoBERTa cannot represent the model."""
    model_type = config.model_type
    if model_type not in _FAMILIES:
        hint = f", which has {_UNSUPPORTED_POSITIONS[model_type]}" if model_type in _UNSUPPORTED_POSITIONS else ""
        raise ValueError(f"model_type of {name} must be one of {', '.join(_FAMILIES)}, got {model_type!r}{hint}")
    family = _FAMILIES[model_type]
    kind = getattr(config, "position_embedding_type", "absolute")
    if kind != "absolute":
        raise ValueError(f"position_embedding_type of {name} must be 'absolute', got {kind!r}")
    if getattr(config, "is_decoder", False) or getattr(config, "add_cross_attention", False):
        raise ValueError(f"is_decoder and add_cross_attention of {name} must be False; expected an encoder")
    activation = getattr(config, family.settings["activation_fn"])
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation of {name} must be one of {', '.join(_ACTIVATIONS)}, got {activation!r}")
    epsilon = config.layer_norm_eps if "layer_norm_eps" in family.settings else BERT_EPSILON
    check_epsilon(epsilon, f"layer_norm_eps of {name}")
    if config.max_position_embeddings <= family.first_position:
        raise ValueError(
            f"max_position_embeddings of {name} must be above {family.first_position}, got "
            f"{config.max_position_embeddings}"
        )
    if getattr(config, "pruned_heads", None):
        raise ValueError(f"pruned_heads of {name} must be empty, got {config.pruned_heads}")
    if model_type in _LIKE_ROBERTA and config.pad_token_id != PADDING_IDX:
        raise ValueError(f"pad_token_id of {name} must be {PADDING_IDX}, as in fairseq, got {config.pad_token_id}")
    return family


def _to_fairseq(weights: dict[str, Tensor], family: _Family, config: Any) -> dict[str, Tensor]:
    """Rename the weights, fold the first segment into the positions, and offset the positions."""
    patterns = [(re.compile(re.escape(old).replace(r"\{\}", r"(\d+)") + r"(\w+)"), new) for old, new in family.names]
    state = {}
    for key, value in weights.items():
        for pattern, new in patterns:
            if match := pattern.fullmatch(key):
                *layer, leaf = match.groups()
                state[new.format(*layer) + leaf] = value.clone()
    segments = next((value for key, value in weights.items() if key.endswith("token_type_embeddings.weight")), None)
    positions = state[POSITIONS][family.first_position :]
    if segments is not None and len(segments):
        positions = positions + segments[0]
    padding = positions.new_zeros(PADDING_IDX + 1, config.hidden_size)
    state[POSITIONS] = torch.cat([padding, positions])
    return state


def _add_lm_head(state: dict[str, Tensor]) -> None:
    """Add a new masked LM head, tied to the embeddings, to a state dict."""
    vocab_size, width = state[EMBEDDINGS].shape
    dense, norm = nn.Linear(width, width), nn.LayerNorm(width)
    init_bert_weights(dense)
    for name, module in (("dense", dense), ("layer_norm", norm)):
        state.update({f"{_LM_HEAD}{name}.{key}": value for key, value in module.state_dict().items()})
    state[OUTPUT_EMBEDDINGS], state[_LM_HEAD + "bias"] = state[EMBEDDINGS], torch.zeros(vocab_size)
