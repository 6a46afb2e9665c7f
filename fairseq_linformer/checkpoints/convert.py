"""``fairseq-linformer convert``: any model that this package reads, to a folder for fairseq.

OUT/model.pt   the checkpoint, with dictionary and tokenizer next to it if the input has them
"""

from typing import Any

from ..files import check_can_be_written, check_new_folder, new_folder
from ..models.state_dicts import max_positions, upgrade_names
from .files import MODULES_FOLDER, Files, find_companions, read_checkpoint, read_companions, write_model
from .identify import Kind, ModelPath, identify
from .sentence_transformers import ENCODER, set_length
from .to_linformer import from_authors, is_linformer, resize, to_linformer


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
    n, old_n = (max_positions(upgrade_names(each["model"])) for each in (checkpoint, original))
    if n > old_n and (name := f"{MODULES_FOLDER}/{ENCODER}") in files:
        files[name] = set_length(files[name], n, is_longer=True)
    with new_folder(out) as folder:
        write_model(folder, checkpoint, files)
    return checkpoint, old_n


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
