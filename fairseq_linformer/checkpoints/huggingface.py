"""Export of fairseq checkpoints to folders for ``transformers``, and back.

An exported folder has weights in safetensors, ``config.json`` with all that fairseq needs under ``fairseq``, the
model's code, tokenizer and model card. Weights survive a round trip bit for bit. An encoder whose masked LM head is
untrained is exported without it.
"""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ..data.tokenizer_files import DICTIONARY, TOKENIZER_JSON, TokenizerFiles
from ..files import new_folder
from ..huggingface import (
    LinformerForMaskedLM,
    LinformerForSequenceClassification,
    LinformerModel,
    LinformerPreTrainedConfig,
    LinformerPreTrainedModel,
)
from ..models.dictionaries import check_dictionary, read_labels
from ..models.distillation import NEW_LM_HEAD
from ..models.options import ARCHITECTURES, from_linformer_config
from ..models.state_dicts import (
    CLASSIFICATION_HEADS,
    EMBEDDINGS,
    OUTPUT_BIAS,
    PADDING_IDX,
    choose_head,
    max_positions,
    upgrade_projections,
)
from .files import (
    Files,
    build_checkpoint,
    find_companions,
    find_labels,
    get_architecture,
    get_cfg_section,
    is_exported,
    read_checkpoint,
    read_companions,
    resolve_model,
)
from .huggingface_state import CLASSIFIER, LM_HEAD, State, to_fairseq, to_transformers
from .model_card import write_card
from .provenance import collect_provenance, read_origins
from .sentence_transformers import recorded_pooling, write_modules
from .to_linformer import from_authors
from .transformers_encoder import add_lm_head
from .transformers_loading import WEIGHTS, find_weights, load_from_transformers
from .transformers_tokenizer import find_tokenizer


def to_huggingface(
    checkpoint,
    out,
    *,
    dictionary=None,
    tokenizer_files: TokenizerFiles | None = None,
    head: str | None = None,
    labels=None,
    tokenizer: bool = True,
    pooling: str | None = None,
) -> None:
    """Export a checkpoint of ``linformer_roberta`` to a folder for ``transformers``.

    Args:
        checkpoint: path of a fairseq checkpoint.
        out: folder to write, new or empty.
        dictionary, tokenizer_files: as for ``find_tokenizer``.
        head: classification head that becomes the classifier; required if there are several. The others are kept for
            the way back.
        labels: ``dict.txt`` of the labels; None for those of ``find_labels``, or, without them, the names
            LABEL_0, LABEL_1, ...
        tokenizer: False to export no tokenizer, which needs no dictionary.
        pooling: one of ``sentence_transformers.POOLINGS``, to write what ``sentence-transformers`` needs too; None for
            that of the imported encoder, unless there is a classification head.
    """
    data = from_authors(read_checkpoint(checkpoint))
    if (architecture := get_architecture(data)) not in ARCHITECTURES:
        raise ValueError(f"{checkpoint} must be a checkpoint of linformer_roberta, got architecture {architecture!r}")
    name = choose_head(data["model"], head, checkpoint)
    if labels is not None and name is None:
        raise ValueError(f"--labels has no effect, because {checkpoint} has no classification head")
    config = _build_config(data, checkpoint, name, labels)
    weights = to_transformers(data["model"], name, config.tie_word_embeddings)
    if name is None and read_origins(data).get("imported", {}).get("lm_head") == NEW_LM_HEAD:
        weights = {key: value for key, value in weights.items() if not key.startswith(LM_HEAD)}
    config.architectures = [choose_class(weights).__name__]
    weights = _upgrade_weights(weights, config, checkpoint)
    if tokenizer:
        folder = find_companions(checkpoint, data)
        tokens, files = find_tokenizer(folder, config.max_positions, dictionary, tokenizer_files)
        check_dictionary(files[DICTIONARY], config.vocab_size, checkpoint)
    elif dictionary is not None or tokenizer_files is not None:
        unused = "--dictionary" if tokenizer_files is None else "--tokenizer"
        raise ValueError(f"{unused} has no effect with --no-tokenizer")

    with new_folder(out) as folder:
        config.save_pretrained(folder)
        save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
        if tokenizer:
            tokens.save_pretrained(folder)
            for file, path in files.items():  # a fast tokenizer does not save what fairseq reads
                if file != TOKENIZER_JSON:
                    shutil.copyfile(path, folder / file)
        recorded = recorded_pooling(config)
        if pooling is None and name is None:
            pooling = recorded.get("pooling")
        if pooling:
            chosen = {"pooling": pooling, "normalize": recorded.get("normalize", False)}
            write_modules(folder, chosen, config.embed_dim, config.max_positions)
        write_card(folder, config, pooling=pooling)


def read_exported_checkpoint(folder: Path, dictionary=None) -> tuple[dict[str, Any], Files]:
    """Read an exported folder as a fairseq checkpoint without optimizer state, and the files that belong next to it.

    Args:
        folder: written by ``to_huggingface``, or later by ``save_pretrained`` or ``Trainer``.
        dictionary: fairseq's ``dict.txt``; None for that in the folder, if any.
    """
    config, weights = read_exported(folder)
    cfg = (config.fairseq or {}).get("cfg") or {}
    if not all(isinstance(cfg.get(section), dict) for section in ("model", "task")):
        raise ValueError(
            f"'fairseq' in {folder / 'config.json'} has no configuration; only models exported from fairseq can be "
            "converted back"
        )
    state = to_fairseq(weights, config.classification_head_name, config.tie_word_embeddings)
    _update_lm_head(config, state)
    if dictionary or (folder / DICTIONARY).is_file():
        check_dictionary(Path(dictionary or folder / DICTIONARY), config.vocab_size, folder)
    checkpoint, files = _restore_checkpoint(config, state, cfg), read_companions(folder, dictionary)
    task = checkpoint["cfg"]["task"]
    if files and task.get("_name") == "sentence_prediction":  # the task reads dictionaries of its inputs and labels
        files[f"input0/{DICTIONARY}"] = files[DICTIONARY]
        if not task.get("regression_target"):
            labels = (config.id2label[i] for i in range(config.num_labels))
            files[f"label/{DICTIONARY}"] = "".join(f"{label} 1\n" for label in labels).encode()
    return checkpoint, files


def read_exported(folder: Path) -> tuple[LinformerPreTrainedConfig, State]:
    """Read configuration and weights of a folder for ``transformers``, of any version. No code in it is run."""
    if not is_exported(folder):
        raise ValueError(f"{folder} must be a folder that `export` wrote, whose model_type is 'linformer'")
    config = load_from_transformers(LinformerPreTrainedConfig, str(folder))
    if config.padding_idx != PADDING_IDX:
        raise ValueError(f"padding_idx of {folder} must be {PADDING_IDX}, as in fairseq, got {config.padding_idx}")
    weights = _read_weights(folder)
    if any(key.startswith(("score.", "qa_outputs.")) for key in weights):
        raise ValueError(f"{folder} has a head that fairseq lacks; save its encoder, model.base_model, instead")
    if any(key.startswith("encoder.") for key in weights):  # saved by LinformerModel
        weights = {f"linformer.{key}": value for key, value in weights.items()}
    return config, _upgrade_weights(weights, config, folder)


def _build_config(data: dict[str, Any], path, head: str | None, labels) -> LinformerPreTrainedConfig:
    """Build the configuration of the exported model, with or without a classification head."""
    model, state = get_cfg_section(data, "model"), data["model"]
    for option in ("quant_noise_pq", "quant_noise_scalar"):
        if model.get(option):
            raise ValueError(f"{option} of {path} must be 0 to export the model, got {model[option]}")
    # If the options lack n, the position embeddings have it.
    args, shape = resolve_model({**model, "max_positions": model.get("max_positions") or max_positions(state)}, state)
    config = LinformerPreTrainedConfig(
        **asdict(shape),
        tie_word_embeddings=not args.untie_weights_roberta,
        pooler_activation_fn=args.pooler_activation_fn,
        pooler_dropout=args.pooler_dropout,
        fairseq=collect_provenance(data, path),
        dtype=str(state[EMBEDDINGS].dtype).removeprefix("torch."),
    )
    if head is None:
        return config
    prefix = f"{CLASSIFICATION_HEADS}{head}."
    if f"{prefix}out_proj.weight_orig" in state:
        raise ValueError(f"head {head!r} cannot be exported: it was trained with spectral_norm_classification_head")
    classes = state[prefix + "out_proj.weight"].size(0)
    labels = labels or find_labels(path, data, classes)
    names = [f"LABEL_{i}" for i in range(classes)] if labels is None else read_labels(labels, classes)
    config.classification_head_name = head
    config.classifier_inner_dim = state[prefix + "dense.weight"].size(0)
    config.id2label = dict(enumerate(names))
    config.label2id = {label: i for i, label in enumerate(names)}
    if get_cfg_section(data, "criterion").get("regression_target"):
        config.problem_type = "regression"
    elif classes > 1:
        config.problem_type = "single_label_classification"
    return config


def choose_class(weights: State) -> type[LinformerPreTrainedModel]:
    """The class of the model with these weights of an exported folder."""
    if any(key.startswith(CLASSIFIER) for key in weights):
        return LinformerForSequenceClassification
    return LinformerForMaskedLM if any(key.startswith(LM_HEAD) for key in weights) else LinformerModel


def _update_lm_head(config: LinformerPreTrainedConfig, state: State) -> None:
    """Give a checkpoint without a masked LM head a new one, and record it, or that ``Trainer`` has trained one."""
    details = config.fairseq or {}
    imported = details.get("imported") or {}
    is_new = OUTPUT_BIAS not in state
    if is_new:
        add_lm_head(state)
    has_head = any(key.startswith(CLASSIFICATION_HEADS) for key in state)
    if is_new or (not has_head and imported.get("lm_head") == NEW_LM_HEAD):
        imported = {**imported, "lm_head": NEW_LM_HEAD if is_new else "imported"}
        config.fairseq = {**details, "imported": imported}


def _upgrade_weights(weights: State, config: LinformerPreTrainedConfig, source) -> State:
    """Weights of any version as this one stores them; ValueError if they do not match the configuration."""
    weights = dict(weights)
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
    return weights


def _read_weights(folder: Path) -> State:
    weights = {}
    for path in find_weights(folder):
        try:
            weights.update(load_file(path))
        except (SafetensorError, OSError):
            raise ValueError(f"{path} is truncated, or is not in safetensors format") from None
    return weights


def _restore_checkpoint(config: LinformerPreTrainedConfig, state: State, exported: dict[str, Any]) -> dict[str, Any]:
    """Build a checkpoint as fairseq saves it, without optimizer state.

    Args:
        exported: sections of ``cfg`` at the export. ``config.json`` may have been changed since, and takes precedence.
    """
    cfg = dict(exported)
    cfg["model"] = {
        **cfg["model"],
        **from_linformer_config(config.to_linformer_config()),
        "pooler_activation_fn": config.pooler_activation_fn,
        "pooler_dropout": config.pooler_dropout,
        "untie_weights_roberta": not config.tie_word_embeddings,
    }
    if any(key.startswith(CLASSIFICATION_HEADS) for key in state):
        cfg |= _classification(config, cfg["task"])
    return build_checkpoint(cfg, state, read_origins({"provenance": config.fairseq}))


def _classification(config: LinformerPreTrainedConfig, task: dict[str, Any]) -> dict[str, Any]:
    """The sections ``task`` and ``criterion`` of a classifier, which ``Trainer`` may have trained on an export of a
    masked language model."""
    if task.get("_name") == "sentence_prediction":
        return {"task": {**task, "num_classes": config.num_labels}}
    is_regression = config.problem_type == "regression" or (config.problem_type is None and config.num_labels == 1)
    new = {"_name": "sentence_prediction", "data": task.get("data"), "max_positions": config.max_positions}
    tokens = {"init_token": 0, "separator_token": 2}
    return {
        "task": {**new, **tokens, "num_classes": config.num_labels, "regression_target": is_regression},
        "criterion": {
            "_name": "sentence_prediction",
            "classification_head_name": config.classification_head_name,
            "regression_target": is_regression,
        },
    }
