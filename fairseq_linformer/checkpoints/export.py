"""``fairseq-linformer export``: a checkpoint of fairseq as a folder for ``transformers``.

An exported folder has weights in safetensors, ``config.json`` with all that fairseq needs under ``fairseq``, the
model's code, tokenizer and model card. Weights survive a round trip bit for bit. An encoder whose masked LM head is
untrained is exported without it.
"""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from ..data.tokenizer_files import DICTIONARY, TOKENIZER_JSON
from ..files import new_folder, write_files
from ..huggingface import LinformerForSequenceClassification, LinformerPreTrainedConfig
from ..models.dictionaries import check_dictionary, read_labels
from ..models.options import ARCHITECTURES
from ..models.state_dicts import CLASSIFICATION_HEADS, choose_head, max_positions
from .exported_folder import LM_HEAD, choose_class, rename, upgrade_weights
from .files import (
    MODULES_FOLDER,
    Files,
    find_companions,
    find_labels,
    get_architecture,
    get_cfg_section,
    read_checkpoint,
    resolve_model,
)
from .identify import Kind, identify
from .model_card import write_card
from .provenance import NEW_LM_HEAD, collect_provenance, read_origins
from .sentence_transformers import ENCODER, describe_modules, find_length, set_length, set_pooling
from .to_linformer import from_authors
from .transformers_loading import WEIGHTS, hash_weights
from .transformers_tokenizer import find_tokenizer


def export_checkpoint(
    checkpoint,
    out,
    *,
    dictionary=None,
    tokenizer_files: Path | None = None,
    head: str | None = None,
    labels=None,
    tokenizer: bool = True,
    pooling: str | None = None,
    license: str | None = None,
) -> None:
    """Export a checkpoint of ``linformer_roberta`` to a folder for ``transformers``.

    Args:
        checkpoint: as for ``identify``: a fairseq checkpoint.
        out: folder to write, new or empty.
        dictionary, tokenizer_files: as for ``find_tokenizer``.
        head: classification head that becomes the classifier; required if there are several. The others are kept for
            the way back.
        labels: ``dict.txt`` of the labels; None for those of ``find_labels``, or, without them, the names
            LABEL_0, LABEL_1, ...
        tokenizer: False to export no tokenizer, which needs no dictionary.
        pooling: one of ``sentence_transformers.POOLINGS``, to write what ``sentence-transformers`` needs too; None for
            the modules of the imported encoder, unless there is a classification head.
        license: that of the model, for the model card; None for that of the checkpoint, else the imported encoder's.
    """
    model = identify(checkpoint)
    model.check_kind(Kind.FAIRSEQ)
    checkpoint = model.path
    data = from_authors(read_checkpoint(checkpoint))
    if (architecture := get_architecture(data)) not in ARCHITECTURES:
        raise ValueError(f"{checkpoint} must be a checkpoint of linformer_roberta, got architecture {architecture!r}")
    name = choose_head(data["model"], head, checkpoint)
    if labels is not None and name is None:
        raise ValueError(f"--labels has no effect, because {checkpoint} has no classification head")
    config = _build_config(data, checkpoint, name, labels)
    if license:
        config.fairseq = {**(config.fairseq or {}), "license": license}
    weights = rename(data["model"], name, to_transformers=True)
    if config.tie_word_embeddings:  # stored once
        weights.pop("lm_head.weight", None)
    if name is None and read_origins(data).get("imported", {}).get("lm_head") == NEW_LM_HEAD:
        weights = {key: value for key, value in weights.items() if not key.startswith(LM_HEAD)}
    config.architectures = [choose_class(weights).__name__]
    upgrade_weights(weights, config, checkpoint)
    if tokenizer:
        folder = find_companions(checkpoint, data)
        tokens, files = find_tokenizer(folder, config.max_positions, dictionary, tokenizer_files)
        check_dictionary(files[DICTIONARY], config.vocab_size, checkpoint)
    elif dictionary is not None or tokenizer_files is not None:
        unused = "--dictionary" if tokenizer_files is None else "--tokenizer"
        raise ValueError(f"{unused} has no effect with --no-tokenizer")
    modules = _find_modules(checkpoint, config, pooling)
    with new_folder(out) as folder:
        save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
        if scored := (config.fairseq or {}).get("finetuned"):
            scored["weights"] = hash_weights(str(folder))
        config.save_pretrained(folder)
        if tokenizer:
            tokens.save_pretrained(folder)
            for file, path in files.items():  # a fast tokenizer does not save what fairseq reads
                if file != TOKENIZER_JSON:
                    shutil.copyfile(path, folder / file)
        write_files(folder, modules)
        write_card(folder, config, vectors=describe_modules(modules))


def _find_modules(checkpoint, config: LinformerPreTrainedConfig, pooling: str | None) -> Files:
    """The encoder's modules of ``sentence-transformers``, or those of ``pooling``; a classifier has none by itself."""
    folder = Path(checkpoint).parent / MODULES_FOLDER
    modules = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    if pooling:
        modules = set_pooling(modules, pooling, config.embed_dim)
    elif not modules or config.architectures == [LinformerForSequenceClassification.__name__]:
        return {}
    length = find_length(modules, config.max_positions)
    return {**modules, ENCODER: set_length(modules.get(ENCODER, b"{}"), length)}


def _build_config(data: dict[str, Any], path, head: str | None, labels) -> LinformerPreTrainedConfig:
    """Build the configuration of the exported model, with or without a classification head."""
    model, state = get_cfg_section(data, "model"), data["model"]
    args, shape = resolve_model({**model, "max_positions": max_positions(state)}, state)
    config = LinformerPreTrainedConfig(
        **asdict(shape),
        tie_word_embeddings=not args.untie_weights_roberta,
        pooler_activation_fn=args.pooler_activation_fn,
        pooler_dropout=args.pooler_dropout,
        fairseq=collect_provenance(data, path),
        dtype="float32",  # what weights that fairseq saved in half precision are trained and evaluated in
    )
    if head is None:
        return config
    prefix = f"{CLASSIFICATION_HEADS}{head}."
    classes = state[prefix + "out_proj.weight"].size(0)
    config.classification_head_name = head
    config.classifier_inner_dim = state[prefix + "dense.weight"].size(0)
    config.num_labels = classes  # named LABEL_0, LABEL_1, ...
    if labels := labels or find_labels(path, data, classes):
        config.id2label = dict(enumerate(read_labels(labels, classes)))
        config.label2id = {label: i for i, label in config.id2label.items()}
    if get_cfg_section(data, "criterion").get("regression_target"):
        config.problem_type = "regression"
    elif classes > 1:
        config.problem_type = "single_label_classification"
    return config
