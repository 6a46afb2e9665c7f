"""Folders that ``export`` wrote, read as checkpoints of fairseq."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ..data.manifest import MANIFEST
from ..data.tokenizer import TokenizerJson
from ..data.tokenizer_files import DICTIONARY, TOKENIZER_FILES
from ..data.tokenizer_json import SYMBOLS, read_settings
from ..huggingface import (
    LinformerForMaskedLM,
    LinformerForSequenceClassification,
    LinformerModel,
    LinformerPreTrainedConfig,
    LinformerPreTrainedModel,
)
from ..models.dictionaries import check_dictionary
from ..models.options import from_linformer_config
from ..models.state_dicts import (
    CLASSIFICATION_HEADS,
    EMBEDDINGS,
    ENCODER,
    OUTPUT_BIAS,
    OUTPUT_EMBEDDINGS,
    PADDING_IDX,
    head_names,
    upgrade_projections,
)
from .files import LABELS, Files, build_checkpoint, put_modules, read_companions
from .from_transformers import add_lm_head
from .provenance import NEW_LM_HEAD, read_origins
from .sentence_transformers import read_modules
from .transformers_loading import drop_stale, find_hub_file, find_weights

CLASSIFIER, LM_HEAD = "classifier.", "lm_head."
"""Prefixes of the heads in ``transformers``."""

State = dict[str, Tensor]


def read_exported_checkpoint(
    name: str, config: LinformerPreTrainedConfig, dictionary=None
) -> tuple[dict[str, Any], Files]:
    """Read an exported folder as a fairseq checkpoint without optimizer state, and the files that belong next to it.

    Args:
        name: folder that ``export`` wrote, or later ``save_pretrained`` or ``Trainer``; or name on the hub.
        config: from ``load_config``.
        dictionary: fairseq's ``dict.txt``; None for that in the folder, if any.
    """
    weights = read_exported_weights(name, config)
    # Files of the hub come into one folder.
    own, *_, path = (find_hub_file(name, file) for file in (DICTIONARY, *TOKENIZER_FILES))
    folder = own.parent if own else Path(name)
    cfg = (config.fairseq or {}).get("cfg") or {}
    if not all(isinstance(cfg.get(section), dict) for section in ("model", "task")):
        raise ValueError(
            f"'fairseq' in {name}/config.json has no configuration; only models exported from fairseq can be "
            "converted back"
        )
    state = rename(weights, config.classification_head_name, to_transformers=False)
    origins = read_origins({"provenance": config.fairseq})
    imported, is_classifier = origins.get("imported") or {}, bool(head_names(state))
    if OUTPUT_BIAS not in state:
        add_lm_head(state)
        origins["imported"] = {**imported, "lm_head": NEW_LM_HEAD}
    elif imported.get("lm_head") == NEW_LM_HEAD and not is_classifier:  # ``Trainer`` has trained it
        origins["imported"] = {**imported, "lm_head": "imported"}
    if used := dictionary or own:
        check_dictionary(Path(used), config.vocab_size, folder)
    cfg, files = _restore_cfg(config, cfg, is_classifier), read_companions(folder, dictionary)
    if path and DICTIONARY not in files:
        files |= _take_tokenizer(path, state)
    elif path and read_settings(path.read_bytes(), path)[1].get(SYMBOLS[-1]) != config.vocab_size - 1:
        raise ValueError(
            f"{path} has tokens after <mask>, which dict.txt cannot have; it is read if there is no dict.txt"
        )
    if config.tie_word_embeddings:
        state[OUTPUT_EMBEDDINGS] = state[EMBEDDINGS]
    files |= put_modules(read_modules(name))
    task = cfg["task"]
    if task.get("_name") == "sentence_prediction":  # the task reads dictionaries of its inputs and labels
        if DICTIONARY in files:
            files[f"input0/{DICTIONARY}"] = files[DICTIONARY]
        if not task.get("regression_target"):
            labels = (config.id2label[i] for i in range(config.num_labels))
            files[LABELS] = "".join(f"{label} 1\n" for label in labels).encode()
        if columns := drop_stale(config.fairseq, name).get("columns"):
            files[MANIFEST] = json.dumps({"source": columns}).encode()
    return build_checkpoint(cfg, state, origins), files


def _take_tokenizer(path: Path, state: State) -> Files:
    """The tokenizer of an exported folder without ``dict.txt``, and its dictionary, where <mask> also follows tokens
    that were added later; ``state`` gets embeddings in this order."""
    tokenizer = TokenizerJson(path)
    if (size := len(tokenizer.order)) > (vocab_size := len(state[EMBEDDINGS])):
        raise ValueError(f"{path} must have one token per embedding of the model ({vocab_size:,}), got {size:,} tokens")
    if spare := vocab_size - size:
        print(f"{path}: {spare:,} embeddings have no token and are left out", file=sys.stderr)
    for key in state.keys() & {EMBEDDINGS, OUTPUT_EMBEDDINGS, OUTPUT_BIAS}:
        state[key] = state[key][tokenizer.order]
    return {DICTIONARY: "".join(f"{line}\n" for line in tokenizer.dictionary).encode(), **tokenizer.model_files}


def rename(state: State, head: str | None, to_transformers: bool) -> State:
    """A state dict with the prefixes of ``transformers``, or those of fairseq; names of other heads stay as they are.

    Args:
        head: the classification head of fairseq that is the classifier; None without heads.
    """
    prefixes = {
        ENCODER: "linformer.encoder.",
        f"encoder.{LM_HEAD}": LM_HEAD,
        f"{CLASSIFICATION_HEADS}{head}.": CLASSIFIER,
    }
    if not to_transformers:
        prefixes = {new: old for old, new in prefixes.items()}
    renamed = {}
    for key, value in state.items():
        old = next(filter(key.startswith, prefixes), "")
        renamed[prefixes.get(old, "") + key.removeprefix(old)] = value
    return renamed


def read_exported_weights(name: str, config: LinformerPreTrainedConfig) -> State:
    """Read the weights of an exported folder, of any version. No code in it is run."""
    if config.padding_idx != PADDING_IDX:
        raise ValueError(f"padding_idx of {name} must be {PADDING_IDX}, as in fairseq, got {config.padding_idx}")
    weights: State = {}
    for path in find_weights(name):
        try:
            weights |= load_file(path)
        except SafetensorError:
            raise ValueError(f"{path} is truncated, or is not in safetensors format") from None
    if any(key.startswith(("score.", "qa_outputs.")) for key in weights):
        raise ValueError(f"{name} has a head that fairseq lacks; save its encoder, model.base_model, instead")
    if any(key.startswith("encoder.") for key in weights):  # saved by LinformerModel
        weights = {f"linformer.{key}": value for key, value in weights.items()}
    upgrade_weights(weights, config, name)
    return weights


def choose_class(weights: State) -> type[LinformerPreTrainedModel]:
    """The class of the model with these weights of an exported folder."""
    if any(key.startswith(CLASSIFIER) for key in weights):
        return LinformerForSequenceClassification
    return LinformerForMaskedLM if any(key.startswith(LM_HEAD) for key in weights) else LinformerModel


def upgrade_weights(weights: State, config: LinformerPreTrainedConfig, source) -> None:
    """Bring weights of any version into the form of this one, in place; ValueError if they do not match the
    configuration."""
    upgrade_projections(weights)
    model_class = choose_class(weights)
    with torch.device("meta"):  # allocates nothing: sizes in config.json may exceed the memory
        model = model_class(config)
    expected = model.state_dict(prefix="linformer." if model_class is LinformerModel else "")
    if config.tie_word_embeddings:
        expected.pop("lm_head.weight", None)
    actual = {key: value for key, value in weights.items() if not key.startswith(CLASSIFICATION_HEADS)}
    for key in sorted({*expected, *actual}):
        wanted, found = (tuple(state[key].shape) if key in state else "none" for state in (expected, actual))
        if wanted != found:
            raise ValueError(
                f"weights and configuration of {source} do not match: {key} must have shape {wanted}, got {found}"
            )


def _restore_cfg(config: LinformerPreTrainedConfig, exported: dict[str, Any], is_classifier: bool) -> dict[str, Any]:
    """The sections of ``cfg``. ``config.json`` may have been changed since the export, and takes precedence.

    ``Trainer`` may have trained a classifier on an export of a masked language model, or of another classifier.
    """
    model = {
        **exported["model"],
        **from_linformer_config(config.to_linformer_config()),
        "pooler_activation_fn": config.pooler_activation_fn,
        "pooler_dropout": config.pooler_dropout,
        "untie_weights_roberta": not config.tie_word_embeddings,
    }
    if not is_classifier:
        return {**exported, "model": model}
    if config.problem_type == "multi_label_classification":
        raise ValueError("problem_type in config.json must not be multi_label_classification, which fairseq lacks")
    is_regression = config.problem_type == "regression" or (config.problem_type is None and config.num_labels == 1)
    if is_regression and config.num_labels > 1:
        raise ValueError(
            f"a regression in config.json must have one label, since fairseq's has, got {config.num_labels}"
        )
    task, criterion = exported["task"], exported.get("criterion") or {}
    if task.get("_name") != "sentence_prediction":
        task = {"data": task.get("data"), "max_positions": config.max_positions, "init_token": 0, "separator_token": 2}
        criterion = {"classification_head_name": config.classification_head_name}
    both = {"_name": "sentence_prediction", "regression_target": is_regression}
    return {
        **exported,
        "model": model,
        "task": {**task, **both, "num_classes": config.num_labels},
        "criterion": {**criterion, **both},
    }
