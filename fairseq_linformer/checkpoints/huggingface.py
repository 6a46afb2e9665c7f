"""A checkpoint of fairseq as a folder that ``transformers`` loads, and back.

The folder has weights (safetensors), ``config.json``, tokenizer, model card and the code of the model, so that it works
with ``trust_remote_code=True`` where neither fairseq nor this package is installed. Both ways weights are copied bit by
bit.
"""

import shutil
from pathlib import Path
from typing import Any, Dict, Optional

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ..files import check_new_folder, new_folder, read_json
from ..huggingface import (
    LinformerForMaskedLM, LinformerForSequenceClassification, LinformerPreTrainedConfig, LinformerTokenizer, write_code,
)  # fmt: skip
from ..models.authors import is_authors
from ..models.options import from_linformer_config
from ..models.shapes import CLASSIFICATION_HEADS, EMBEDDINGS, max_positions, projections
from .authors import from_authors
from .files import architecture, node, read_checkpoint, resolved
from .huggingface_state import CLASSIFIER, choose_head, difference, to_fairseq, to_transformers
from .provenance import card, collect
from .tokenizer_files import DICTIONARY, check_size, find_tokenizer, read_labels, write_label_dictionary

WEIGHTS = "model.safetensors"


def to_huggingface(
    checkpoint,
    out,
    *,
    dictionary=None,
    sentencepiece=None,
    gpt2_encoder=None,
    gpt2_vocab=None,
    head: Optional[str] = None,
    labels=None,
    tokenizer: bool = True,
) -> None:
    """Write ``out``, a folder for ``transformers``, from a checkpoint of ``linformer_roberta``.

    Args:
        checkpoint: the checkpoint, a file of fairseq's.
        out: the folder to write; new or empty.
        dictionary, sentencepiece, gpt2_encoder, gpt2_vocab: as of ``find_tokenizer``.
        head: which classification head becomes the classifier; needed if there are several. The others lie in the
            folder for the way back.
        labels: the ``dict.txt`` of the labels; None for ``label/dict.txt`` beside the checkpoint if there is one, else
            they are called LABEL_0 and so on.
        tokenizer: False to write none; then no dictionary is needed.

    Raises:
        ValueError: the checkpoint, a file beside it or an option is not what it should be, or the model cannot be
            exported; one sentence. Nothing is written then.
        OSError: the folder cannot be written.
    """
    check_new_folder(out)
    data = read_checkpoint(checkpoint)
    if not (projections(data["model"]) or is_authors(data["model"])):
        raise ValueError(
            f"{checkpoint} is of architecture {architecture(data)!r} and has no projections E and F; it must be "
            "linformer_roberta"
        )
    data = from_authors(data)
    name = choose_head(data["model"], head)
    if labels is None and (Path(checkpoint).parent / "label" / DICTIONARY).is_file():
        labels = Path(checkpoint).parent / "label" / DICTIONARY
    elif labels is not None and name is None:
        raise ValueError(f"labels is {labels}; {checkpoint} has no classification head")
    config = _config(data, checkpoint, name, labels)
    weights = to_transformers(data["model"], name, config.tie_word_embeddings)
    if problem := _problem(weights, config):
        raise ValueError(f"the weights do not fit the cfg of the checkpoint: {problem}")
    files = dict(sentencepiece=sentencepiece, gpt2_encoder=gpt2_encoder, gpt2_vocab=gpt2_vocab)
    if tokenizer:
        tokens = find_tokenizer(checkpoint, config.max_positions, dictionary, **files)
        check_size(tokens.files["vocab_file"], config.vocab_size)
    elif given := [key for key, value in {"dictionary": dictionary, **files}.items() if value is not None]:
        raise ValueError(f"{given[0]} is given with --no-tokenizer; leave one of them out")

    with new_folder(out) as folder:
        config.save_pretrained(folder)
        save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
        write_code(folder)
        if tokenizer:
            tokens.save_pretrained(folder)
        names = [config.id2label[i] for i in range(config.num_labels)] if name else []
        text = card(config.fairseq, config.shape(), name, names, tokenizer)
        (folder / "README.md").write_text(text, encoding="utf-8")


def from_huggingface(folder, out, *, dictionary=None) -> None:
    """Write ``out``, a folder with a checkpoint for fairseq, from a folder of ``transformers``.

    It has ``model.pt``, with weights and settings but no optimizer's state, the dictionary and the files of the
    tokenizer. ``LinformerRobertaModel.from_pretrained(out, "model.pt", out)``, ``fairseq-validate`` and
    ``--finetune-from-model`` load it. No code of the folder is run.

    Args:
        folder: what ``to_huggingface`` wrote, or ``save_pretrained`` or ``Trainer`` afterwards.
        out: the folder to write; new or empty.
        dictionary: fairseq's ``dict.txt``; None for the one in the folder, if there is one.

    Raises:
        ValueError: the folder or an option is not what it should be; one sentence. Nothing is written then.
        OSError: ``out`` cannot be written.
    """
    check_new_folder(out)
    folder = Path(folder)
    config, weights = _read_config(folder), _read_weights(folder)
    if problem := _problem(weights, config):
        raise ValueError(f"{folder}: {problem}")
    state = to_fairseq(weights, config.classification_head_name, config.tie_word_embeddings, config.attention_heads)
    if dictionary is None and (folder / DICTIONARY).is_file():
        dictionary = folder / DICTIONARY
    if dictionary is not None:
        if not Path(dictionary).is_file():
            raise ValueError(f"{dictionary} is not a file; it must be fairseq's {DICTIONARY}")
        check_size(dictionary, config.vocab_size)

    with new_folder(out) as target:
        torch.save(_checkpoint(config, state), target / "model.pt")
        for name in set(LinformerTokenizer.vocab_files_names.values()) - {DICTIONARY}:
            if (folder / name).is_file():
                shutil.copyfile(folder / name, target / name)
        if dictionary is not None:
            _write_dictionaries(config, dictionary, target)


def _config(data: Dict[str, Any], path, head: Optional[str], labels) -> LinformerPreTrainedConfig:
    """The configuration of the exported model, with a classification head or without."""
    model, state = node(data, "model"), data["model"]
    for option in ("quant_noise_pq", "quant_noise_scalar"):
        if model.get(option):
            raise ValueError(f"{path} was trained with {option} {model[option]}, which cannot be exported; only 0 can")
    # A checkpoint that does not say n has it in its position embeddings.
    args, shape = resolved({**model, "max_positions": model.get("max_positions") or max_positions(state)}, state)
    config = LinformerPreTrainedConfig.of_shape(
        shape,
        tie_word_embeddings=not args.untie_weights_roberta,
        pooler_activation_fn=args.pooler_activation_fn,
        pooler_dropout=args.pooler_dropout,
        fairseq=collect(data),
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
    if node(data, "criterion").get("regression_target"):
        config.problem_type = "regression"
    elif classes > 1:
        config.problem_type = "single_label_classification"
    return config


def _problem(weights: Dict[str, torch.Tensor], config: LinformerPreTrainedConfig) -> Optional[str]:
    """Why these weights are not a whole model of this configuration; None if they are."""
    has_head = any(key.startswith(CLASSIFIER) for key in weights)
    model_class = LinformerForSequenceClassification if has_head else LinformerForMaskedLM
    expected = model_class(config).state_dict()
    if config.tie_word_embeddings:
        del expected["lm_head.weight"]
    own = {key: value for key, value in weights.items() if not key.startswith(CLASSIFICATION_HEADS)}
    return difference(expected, own)


def _read_config(folder: Path) -> LinformerPreTrainedConfig:
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder} has no config.json; it must be a folder of transformers")
    try:
        values = read_json(path)
    except ValueError:
        raise ValueError(f"{path} is not JSON; it may be cut short") from None
    kind = values.get("model_type") if isinstance(values, dict) else None
    if kind != LinformerPreTrainedConfig.model_type:
        raise ValueError(f"{path} is of model_type {kind!r}; it must be {LinformerPreTrainedConfig.model_type!r}")
    config = LinformerPreTrainedConfig.from_dict(values)
    if config.fairseq is None:
        raise ValueError(f"{path} has no 'fairseq'; only a model that comes from fairseq goes back to it")
    return config


def _read_weights(folder: Path) -> Dict[str, torch.Tensor]:
    index = folder / f"{WEIGHTS}.index.json"
    names = sorted(set(read_json(index)["weight_map"].values())) if index.is_file() else [WEIGHTS]
    weights = {}
    for name in names:
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{folder} has no {name}; weights are read from safetensors only")
        try:
            weights.update(load_file(path))
        except (SafetensorError, OSError):
            raise ValueError(f"{path} cannot be read as safetensors: it is cut short, or something else") from None
    return weights


def _write_dictionaries(config: LinformerPreTrainedConfig, dictionary, folder: Path) -> None:
    """``dict.txt``, and for a task with several dictionaries its folders of them."""
    shutil.copyfile(dictionary, folder / DICTIONARY)
    task = config.fairseq["cfg"]["task"]
    if task.get("_name") != "sentence_prediction":
        return
    (folder / "input0").mkdir()
    shutil.copyfile(dictionary, folder / "input0" / DICTIONARY)
    if not task.get("regression_target"):
        labels = [config.id2label[i] for i in range(config.num_labels)]
        write_label_dictionary(folder / "label" / DICTIONARY, labels)


def _checkpoint(config: LinformerPreTrainedConfig, state: Dict[str, torch.Tensor]) -> Dict[str, Any]:
    """A checkpoint as fairseq saves it, without an optimizer's state."""
    details = config.fairseq
    # The hub interface puts into these parts what it is given for them.
    cfg = dict.fromkeys(("_name", "bpe", "tokenizer"))
    cfg.update(details["cfg"])
    # What was changed in transformers since, in training or by hand, counts.
    cfg["model"] = {
        **cfg["model"],
        **from_linformer_config(config.shape()),
        "pooler_activation_fn": config.pooler_activation_fn,
        "pooler_dropout": config.pooler_dropout,
        "untie_weights_roberta": not config.tie_word_embeddings,
    }
    if "num_classes" in cfg["task"] and any(key.startswith(CLASSIFICATION_HEADS) for key in state):
        cfg["task"] = {**cfg["task"], "num_classes": config.num_labels}
    return {
        "args": None,
        "cfg": cfg,
        "model": state,
        "criterion": None,
        "optimizer_history": [{"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {},
                               "num_updates": details["num_updates"] or 0}],
        "task_state": {},
        "extra_state": {"val_loss": details["val_loss"], "best": details["best"],
                        "train_iterator": {"epoch": details["epoch"] or 1}},
        "provenance": details["versions"],
    }  # fmt: skip
