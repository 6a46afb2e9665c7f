"""``fairseq-linformer convert``: any model that this package reads, to a folder for fairseq.

OUT/model.pt   the checkpoint, with dictionary and tokenizer next to it if the input has them
"""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..config import flag_of
from ..data.tokenizer_files import DICTIONARY
from ..files import check_can_be_written, check_new_folder, new_folder
from ..models.options import ARCHITECTURES, COMPARED, LinformerRobertaConfig
from ..models.state_dicts import has_projections, max_positions
from .files import (
    MODULES_FOLDER,
    Files,
    find_companions,
    get_architecture,
    get_cfg_section,
    read_checkpoint,
    read_companions,
    write_model,
)
from .identify import MODEL, Kind, ModelPath, identify
from .provenance import NEW_LM_HEAD, read_origins
from .sentence_transformers import ENCODER, set_length
from .to_linformer import from_authors, resize, to_linformer


def convert(source, out, *, dictionary=None, **options: Any) -> tuple[dict[str, Any], int]:
    """Convert a model to a folder for fairseq; returns the new checkpoint and the n of the source.

    Args:
        source: as for ``identify``: any model but an ONNX folder.
        out: folder to write, new or empty.
        dictionary: see ``read_model``.
        options: see ``change_model``.
    """
    check_can_be_written(out)
    check_new_folder(out)
    model = identify(source)
    original, files = read_model(model, dictionary)
    checkpoint = change_model(original, **options)
    if checkpoint is original and model.kind is Kind.FAIRSEQ:
        raise ValueError(f"{source} would stay as it is; set --max-positions")
    with new_folder(out) as folder:
        write_model(folder, checkpoint, lengthen(files, original, checkpoint))
    return checkpoint, max_positions(original["model"])


def lengthen(files: Files, original: dict[str, Any], checkpoint: dict[str, Any]) -> Files:
    """The files next to a checkpoint that may have more positions than the original: its encoder reads them all."""
    old_n, n = (max_positions(each["model"]) for each in (original, checkpoint))
    name = f"{MODULES_FOLDER}/{ENCODER}"
    return {**files, name: set_length(files[name], n)} if n > old_n and name in files else files


def read_model(model: ModelPath, dictionary=None) -> tuple[dict[str, Any], Files]:
    """Read a model as a checkpoint of fairseq, with the files that belong next to it.

    Args:
        model: fairseq checkpoint of RoBERTa, a Linformer or the authors' code; or encoder of ``transformers`` or
            exported Linformer.
        dictionary: ``dict.txt`` with the tokenizer next to it; None for those in the folder of the model.
    """
    model.check_kind(Kind.FAIRSEQ, Kind.TRANSFORMERS)
    if model.kind is Kind.FAIRSEQ:
        checkpoint = read_checkpoint(model.path)
        return checkpoint, read_companions(find_companions(model.path, checkpoint), dictionary)
    # Not at the top: transformers takes seconds to import.
    from ..huggingface import LinformerPreTrainedConfig
    from .exported_folder import read_exported_checkpoint
    from .from_transformers import read_transformers
    from .transformers_loading import load_config

    config = load_config(model.path)
    if isinstance(config, LinformerPreTrainedConfig):
        return read_exported_checkpoint(model.path, config, dictionary)
    if dictionary is not None:
        raise ValueError(f"--dictionary has no effect on {model.path}, which has its own")
    return read_transformers(model.path, config)


def change_model(checkpoint: dict[str, Any], arch: str | None = None, **options: Any) -> dict[str, Any]:
    """Convert RoBERTa to a Linformer, or resize a Linformer or, with ``arch="roberta"``, a RoBERTa.

    Args:
        options: as for ``to_linformer``; for a Linformer or a RoBERTa only ``max_positions``.
    """
    checkpoint = from_authors(checkpoint)
    if has_projections(checkpoint["model"]):
        kind = "a Linformer"
        options |= {"arch": arch} if arch else {}
    elif arch == "roberta":
        kind = "--arch roberta"
    else:
        return to_linformer(checkpoint, **options)
    n = options.pop("max_positions", None)
    if options:
        raise ValueError(f"{flag_of(next(iter(options)))} has no effect with {kind}")
    return checkpoint if n is None else resize(checkpoint, n)


def describe(checkpoint: dict[str, Any], old_n: int, folder: Path) -> Iterator[str]:
    """Lines on what ``convert`` wrote to a folder, from a model of ``old_n`` positions."""
    model = get_cfg_section(checkpoint, "model")
    n = model["max_positions"]
    sizes = {"n": n, "k": model.get("projected_dim"), "local window": model.get("local_window")}
    yield f"{folder / MODEL}: " + ", ".join(f"{name} = {value}" for name, value in sizes.items() if value is not None)
    if n > old_n:
        yield f"positions {old_n + 1} to {n} start as copies of positions 1 to {old_n}; train them"
    if not (folder / DICTIONARY).is_file():
        yield "without dict.txt and tokenizer, since INPUT has no dict.txt; --dictionary FILE adds both"
    if read_origins(checkpoint).get("imported", {}).get("lm_head") == NEW_LM_HEAD:
        yield "the encoder has no masked LM head; that of the checkpoint is new and untrained"
    arch = get_architecture(checkpoint)
    implied = {field.name: field.default for field in fields(LinformerRobertaConfig)} | ARCHITECTURES.get(arch, {})
    options = [f"--arch {arch}"]
    for name in COMPARED:
        value, default = model.get(name), implied.get(name)
        if value not in (None, False, getattr(default, "value", default)):
            options.append(flag_of(name) + f" {value}" * (value is not True))
    yield f"fairseq-train: {' '.join(options)}"
