"""``fairseq-linformer convert``: any model that this package reads, to a folder for fairseq.

OUT/model.pt   the checkpoint, with dictionary and tokenizer next to it if the input has them
"""

from pathlib import Path
from typing import Any

from ..files import check_can_be_written, check_new_folder, new_folder
from ..models.state_dicts import max_positions, upgrade_names
from .files import (
    Files,
    find_companions,
    is_exported,
    is_fairseq_checkpoint,
    read_checkpoint,
    read_companions,
    reject_onnx_folder,
    write_model,
)
from .to_linformer import from_authors, is_linformer, resize, to_linformer


def convert(source, out, *, dictionary=None, **options: Any) -> tuple[dict[str, Any], int]:
    """Convert a model to a folder for fairseq; returns the new checkpoint and the n of the source.

    Args:
        source: see ``read_source``.
        out: folder to write, new or empty.
        dictionary: see ``read_source``.
        options: see ``change_model``.
    """
    check_can_be_written(out)
    check_new_folder(out)
    original, files = read_source(source, dictionary)
    checkpoint = change_model(original, **options)
    if checkpoint is original and is_fairseq_checkpoint(source):
        raise ValueError(f"{source} would stay as it is; set --max-positions")
    with new_folder(out) as folder:
        write_model(folder, checkpoint, files)
    return checkpoint, max_positions(upgrade_names(original["model"]))


def read_source(source, dictionary=None) -> tuple[dict[str, Any], Files]:
    """Read a model as a checkpoint of fairseq, with the files that belong next to it.

    Args:
        source: fairseq checkpoint of RoBERTa, a Linformer or the authors' code; folder that ``to_huggingface`` wrote;
            or folder or hub name of an encoder of ``transformers``.
        dictionary: ``dict.txt`` with the tokenizer next to it; None for those in the folder of ``source``.
    """
    if is_fairseq_checkpoint(source):
        checkpoint = read_checkpoint(source)
        return checkpoint, read_companions(find_companions(source, checkpoint), dictionary)
    reject_onnx_folder(source)
    if is_exported(source):
        from .huggingface import read_exported_checkpoint  # imports transformers, which takes seconds

        return read_exported_checkpoint(Path(source), dictionary)
    if dictionary is not None:
        raise ValueError(f"--dictionary has no effect on {source}, which has its own")
    from .from_transformers import read_transformers

    return read_transformers(str(source))


def change_model(checkpoint: dict[str, Any], arch: str | None = None, **options: Any) -> dict[str, Any]:
    """Convert RoBERTa to a Linformer, or resize a Linformer or, with ``arch="roberta"``, a RoBERTa.

    Args:
        options: as for ``to_linformer``; for a Linformer or a RoBERTa only ``max_positions``.
    """
    checkpoint = from_authors(checkpoint)
    if is_linformer(checkpoint):
        kind = "a Linformer"
        options |= {"arch": arch} if arch else {}
    elif arch == "roberta":
        kind = "--arch roberta"
    else:
        return to_linformer(checkpoint, **options)
    n = options.pop("max_positions", None)
    if options:
        raise ValueError(f"--{next(iter(options)).replace('_', '-')} has no effect with {kind}")
    return checkpoint if n is None else resize(checkpoint, n)
