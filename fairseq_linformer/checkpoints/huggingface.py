"""Export of fairseq checkpoints to folders for ``transformers``, and import of such folders.

A folder has weights (safetensors), ``config.json``, tokenizer, model card and the model's code. It loads with
``trust_remote_code=True`` where neither fairseq nor this package is installed. Weights are copied bit by bit.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ..data.tokenizer_files import DICTIONARY, TOKENIZER_FLAGS, TOKENIZER_JSON, TokenizerFiles, find_tokenizer_files
from ..files import check_new_folder, new_folder, read_json
from ..huggingface import (
    LinformerForMaskedLM,
    LinformerForSequenceClassification,
    LinformerPreTrainedConfig,
    write_code,
)
from ..models.authors_plugin import is_authors_state_dict
from ..models.dictionaries import check_dictionary, read_labels, write_labels
from ..models.options import from_linformer_config
from ..models.shapes import CLASSIFICATION_HEADS, EMBEDDINGS, PADDING_IDX, choose_head, has_projections, max_positions
from .authors import from_authors
from .files import build_checkpoint, get_architecture, get_cfg_section, read_checkpoint, resolve_model
from .huggingface_state import (
    CLASSIFIER,
    ENCODER_PREFIX,
    find_mismatch,
    to_fairseq,
    to_transformers,
    upgrade_projections,
)
from .model_card import build_model_card
from .provenance import ORIGINS, collect_provenance, read_finetuning
from .transformers_loading import WEIGHTS, find_weights
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
) -> str | None:
    """Export a checkpoint of ``linformer_roberta`` to a folder for ``transformers``.

    Args:
        checkpoint: path of a fairseq checkpoint.
        out: folder to write, new or empty.
        dictionary, tokenizer_files: as for ``find_tokenizer``.
        head: classification head that becomes the classifier; required if there are several. The others are kept for
            ``from_huggingface``.
        labels: ``dict.txt`` of the labels; None for ``label/dict.txt`` next to the checkpoint, or, without it, the
            names LABEL_0, LABEL_1, ...
        tokenizer: False to export no tokenizer, which needs no dictionary.

    Returns:
        Why the exported tokenizer is the slow one; None if it is fast, or if none is exported.

    Raises:
        ValueError: a file or option is invalid, or the model cannot be exported. Nothing is written.
        OSError: the folder cannot be written.
    """
    check_new_folder(out)
    data = read_checkpoint(checkpoint)
    if not (has_projections(data["model"]) or is_authors_state_dict(data["model"])):
        raise ValueError(
            f"{checkpoint} must be a checkpoint of linformer_roberta, got architecture {get_architecture(data)!r} "
            "without projections E and F"
        )
    data = from_authors(data)
    name = choose_head(data["model"], head, checkpoint)
    if f"{CLASSIFICATION_HEADS}{name}.out_proj.weight_orig" in data["model"]:
        raise ValueError(f"head {name!r} cannot be exported: it was trained with spectral_norm_classification_head")
    if labels is None and (Path(checkpoint).parent / "label" / DICTIONARY).is_file():
        labels = Path(checkpoint).parent / "label" / DICTIONARY
    elif labels is not None and name is None:
        raise ValueError(f"labels must be unset, because {checkpoint} has no classification head, got {labels}")
    config = _build_config(data, checkpoint, name, labels)
    weights = to_transformers(
        upgrade_projections(data["model"], config.to_linformer_config()), name, config.tie_word_embeddings
    )
    if mismatch := _compare_with_model(weights, config):
        raise ValueError(f"weights and cfg of {checkpoint} do not match: {mismatch}")
    if tokenizer:
        tokens, files = find_tokenizer(checkpoint, config.max_positions, dictionary, tokenizer_files)
        check_dictionary(files[DICTIONARY], config.vocab_size, checkpoint)
    elif dictionary is not None or tokenizer_files is not None:
        unused = "--dictionary" if tokenizer_files is None else TOKENIZER_FLAGS[tokenizer_files.kind]
        raise ValueError(f"{unused} has no effect with --no-tokenizer")

    with new_folder(out) as folder:
        config.save_pretrained(folder)
        save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
        write_code(folder)
        if tokenizer:
            tokens.save_pretrained(folder)
            for file, path in files.items():  # a fast tokenizer does not save what fairseq reads
                if file != TOKENIZER_JSON:
                    shutil.copyfile(path, folder / file)
        names = [config.id2label[i] for i in range(config.num_labels)] if name else []
        reason = getattr(tokens, "why_slow", None) if tokenizer else None
        kind = None if not tokenizer else f"slow: {reason}" if reason else "fast"
        assert config.fairseq is not None  # set by this export
        text = build_model_card(config.fairseq, config.to_linformer_config(), name, names, kind)
        (folder / "README.md").write_text(text, encoding="utf-8")
    return reason


def from_huggingface(folder, out, *, dictionary=None) -> bool:
    """Convert an exported folder back to a fairseq checkpoint.

    ``out`` gets ``model.pt`` (weights and settings, no optimizer state), the dictionary and the tokenizer.
    ``LinformerRobertaModel.from_pretrained(out, "model.pt", out)``, ``fairseq-validate`` and ``--finetune-from-model``
    load it. No code in the folder is run.

    Args:
        folder: written by ``to_huggingface``, or later by ``save_pretrained`` or ``Trainer``.
        out: folder to write, new or empty.
        dictionary: fairseq's ``dict.txt``; None for that in the folder, if any. If the folder has none, the tokenizer
            next to this one is used.

    Returns:
        Whether ``out`` has a dictionary.

    Raises:
        ValueError: the folder or an option is invalid. Nothing is written.
        OSError: ``out`` cannot be written.
    """
    check_new_folder(out)
    folder = Path(folder)
    config, weights = read_exported(folder)
    if config.fairseq is None:
        raise ValueError(
            f"{folder / 'config.json'} has no 'fairseq'; only models exported from fairseq can be converted back"
        )
    state = to_fairseq(
        weights, config.classification_head_name, config.tie_word_embeddings, config.to_linformer_config()
    )
    if dictionary is None and (folder / DICTIONARY).is_file():
        dictionary = folder / DICTIONARY
    if dictionary is not None:
        check_dictionary(Path(dictionary), config.vocab_size, folder)

    checkpoint = _build_checkpoint(config, state)
    with new_folder(out) as target:
        torch.save(checkpoint, target / "model.pt")
        if dictionary is not None:
            found = find_tokenizer_files(folder if (folder / DICTIONARY).is_file() else Path(dictionary).parent)
            for path in found.paths if found else ():
                shutil.copyfile(path, target / path.name)
            _write_dictionaries(config, checkpoint["cfg"]["task"], dictionary, target)
    return dictionary is not None


def read_exported(folder: Path) -> tuple[LinformerPreTrainedConfig, dict[str, torch.Tensor]]:
    """Read configuration and weights of a folder for ``transformers``, of any version. No code in it is run.

    Raises:
        ValueError: the folder is not that of a Linformer, or is damaged.
    """
    config = _read_config(folder)
    if config.padding_idx != PADDING_IDX:
        raise ValueError(f"padding_idx of {folder} must be {PADDING_IDX}, as in fairseq, got {config.padding_idx}")
    weights = _read_weights(folder)
    if any(key.startswith("encoder.") for key in weights):
        raise ValueError(
            f"{folder} has an encoder without a head (LinformerModel); save it as LinformerForMaskedLM or "
            "LinformerForSequenceClassification"
        )
    weights = upgrade_projections(weights, config.to_linformer_config(), ENCODER_PREFIX)
    if mismatch := _compare_with_model(weights, config):
        raise ValueError(f"weights and config.json of {folder} do not match: {mismatch}")
    return config, weights


def _build_config(data: dict[str, Any], path, head: str | None, labels) -> LinformerPreTrainedConfig:
    """Build the configuration of the exported model, with or without a classification head."""
    model, state = get_cfg_section(data, "model"), data["model"]
    for option in ("quant_noise_pq", "quant_noise_scalar"):
        if model.get(option):
            raise ValueError(f"{option} of {path} must be 0 to export the model, got {model[option]}")
    # If the options lack n, the position embeddings have it.
    args, shape = resolve_model({**model, "max_positions": model.get("max_positions") or max_positions(state)}, state)
    config = LinformerPreTrainedConfig.from_linformer_config(
        shape,
        tie_word_embeddings=not args.untie_weights_roberta,
        pooler_activation_fn=args.pooler_activation_fn,
        pooler_dropout=args.pooler_dropout,
        fairseq={**collect_provenance(data), **read_finetuning(path)},
        dtype=str(state[EMBEDDINGS].dtype).removeprefix("torch."),
        architectures=["LinformerForMaskedLM"],
    )
    if head is None:
        return config
    prefix = f"{CLASSIFICATION_HEADS}{head}."
    classes = state[prefix + "out_proj.weight"].size(0)
    names = [f"LABEL_{i}" for i in range(classes)] if labels is None else read_labels(labels, classes)
    config.architectures = ["LinformerForSequenceClassification"]
    config.classification_head_name = head
    config.classifier_inner_dim = state[prefix + "dense.weight"].size(0)
    config.id2label = dict(enumerate(names))
    config.label2id = {label: i for i, label in enumerate(names)}
    if get_cfg_section(data, "criterion").get("regression_target"):
        config.problem_type = "regression"
    elif classes > 1:
        config.problem_type = "single_label_classification"
    return config


def _compare_with_model(weights: dict[str, torch.Tensor], config: LinformerPreTrainedConfig) -> str | None:
    """The first difference between the weights and those of a model with this configuration; None if they match."""
    has_head = any(key.startswith(CLASSIFIER) for key in weights)
    model_class = LinformerForSequenceClassification if has_head else LinformerForMaskedLM
    with torch.device("meta"):  # allocates nothing: sizes in config.json may exceed the memory
        expected = model_class(config).state_dict()
    if config.tie_word_embeddings:
        del expected["lm_head.weight"]
    actual = {key: value for key, value in weights.items() if not key.startswith(CLASSIFICATION_HEADS)}
    return find_mismatch(expected, actual)


def _read_config(folder: Path) -> LinformerPreTrainedConfig:
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder} has no config.json; expected a folder for transformers")
    try:
        values = read_json(path)
    except ValueError:
        raise ValueError(f"{path} is truncated, or is not JSON") from None
    kind = values.get("model_type") if isinstance(values, dict) else None
    if kind != LinformerPreTrainedConfig.model_type:
        raise ValueError(f"model_type in {path} must be {LinformerPreTrainedConfig.model_type!r}, got {kind!r}")
    config = LinformerPreTrainedConfig.from_dict(values)
    if config.fairseq is not None:
        _check_details(path, config.fairseq)
    return config


def _check_details(path: Path, details: Any) -> None:
    """Raise ValueError unless the details of fairseq have all that a checkpoint needs."""
    cfg = details.get("cfg") if isinstance(details, dict) else None
    needed: list[tuple[Any, str, Any]] = [
        *((details, name, dict) for name in ("cfg", "versions")),
        *((details, name, int | None) for name in ("num_updates", "epoch")),
        *((details, name, object) for name in ("val_loss", "best")),
        *((cfg, name, dict) for name in ("model", "task")),
    ]
    for values, name, kind in needed:
        if not isinstance(values, dict) or name not in values or not isinstance(values[name], kind):
            raise ValueError(
                f"'fairseq' in {path} must have {name!r} as to-huggingface writes it; export the model again"
            )


def _read_weights(folder: Path) -> dict[str, torch.Tensor]:
    weights = {}
    for path in find_weights(folder):
        try:
            weights.update(load_file(path))
        except (SafetensorError, OSError):
            raise ValueError(f"{path} is truncated, or is not in safetensors format") from None
    return weights


def _write_dictionaries(config: LinformerPreTrainedConfig, task: dict[str, Any], dictionary, folder: Path) -> None:
    """Write ``dict.txt``, and for a task with labels also those in the folders of its inputs and labels."""
    shutil.copyfile(dictionary, folder / DICTIONARY)
    if task.get("_name") != "sentence_prediction":
        return
    (folder / "input0").mkdir()
    shutil.copyfile(dictionary, folder / "input0" / DICTIONARY)
    if not task.get("regression_target"):
        labels = [config.id2label[i] for i in range(config.num_labels)]
        write_labels(folder / "label" / DICTIONARY, labels)


def _classification(config: LinformerPreTrainedConfig, cfg: dict[str, Any]) -> dict[str, Any]:
    """The sections ``task`` and ``criterion`` of a classifier, which ``Trainer`` may have trained on an export of a
    masked language model."""
    if cfg["task"].get("_name") == "sentence_prediction":
        return {"task": {**cfg["task"], "num_classes": config.num_labels}}
    is_regression = config.problem_type == "regression" or (config.problem_type is None and config.num_labels == 1)
    task = {"_name": "sentence_prediction", "data": cfg["task"].get("data"), "max_positions": config.max_positions}
    tokens = {"init_token": 0, "separator_token": 2}
    return {
        "task": {**task, **tokens, "num_classes": config.num_labels, "regression_target": is_regression},
        "criterion": {
            "_name": "sentence_prediction",
            "classification_head_name": config.classification_head_name,
            "regression_target": is_regression,
        },
    }


def _build_checkpoint(config: LinformerPreTrainedConfig, state: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Build a checkpoint as fairseq saves it, without optimizer state."""
    details = config.fairseq
    assert details is not None  # checked when the folder was read
    cfg: dict[str, Any] = dict(details["cfg"])
    # config.json may have been changed after the export, and takes precedence.
    cfg["model"] = {
        **cfg["model"],
        **from_linformer_config(config.to_linformer_config()),
        "pooler_activation_fn": config.pooler_activation_fn,
        "pooler_dropout": config.pooler_dropout,
        "untie_weights_roberta": not config.tie_word_embeddings,
    }
    if any(key.startswith(CLASSIFICATION_HEADS) for key in state):
        cfg |= _classification(config, cfg)
    provenance = dict(details["versions"])
    provenance |= {key: details[key] for key in ORIGINS if key in details}
    checkpoint = build_checkpoint(cfg, state, details["num_updates"] or 0, details["epoch"] or 1, provenance)
    checkpoint["extra_state"].update(val_loss=details["val_loss"], best=details["best"])
    return checkpoint
