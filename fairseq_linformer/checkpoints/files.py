"""Reading checkpoints as data, and writing folders that are there whole or not at all."""

import os
import pickle
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator

import torch


def read_checkpoint(path) -> Dict[str, Any]:
    """A checkpoint of ``linformer_roberta`` as fairseq saves it: ``model``, ``cfg``, ...

    It is read as weights only: code in it is not run.

    Args:
        path: the file.

    Raises:
        ValueError: it is not a file, is cut short, carries code, or holds no model of this
            kind; one sentence.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path} is not a file; a checkpoint of fairseq is wanted")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, KeyError, ValueError) as error:
        if code := re.search(r"Unsupported (?:global: GLOBAL|class|operand) (\S+)", str(error)):
            sentence = f"{path} carries code ({code[1]}); a checkpoint may hold weights and settings only"
            raise ValueError(sentence) from None
        raise ValueError(f"{path} cannot be read as a checkpoint: it is cut short, or not a file of PyTorch") from None
    check_model(checkpoint, path)
    return checkpoint


def check_model(checkpoint: Any, path) -> None:
    """Refuse what is no checkpoint of ``linformer_roberta``.

    Raises:
        ValueError: with the reason.
    """
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("model"), dict):
        raise ValueError(f"{path} has no model in it; a checkpoint of fairseq is wanted")
    cfg = checkpoint.get("cfg")
    if not isinstance(cfg, dict) or not {"model", "task"} <= cfg.keys():
        raise ValueError(f"{path} has no cfg (older than fairseq 0.12); resave it with fairseq 0.12 first")
    from ..models import ARCHITECTURES  # not before it is needed: this imports fairseq

    name = architecture(checkpoint)
    if name not in ARCHITECTURES:
        raise ValueError(f"{path} is a model of architecture {name!r}; it must be one of {', '.join(ARCHITECTURES)}")


def node(checkpoint: Dict[str, Any], name: str) -> Dict[str, Any]:
    """A copy of a part of the ``cfg``; empty if there is none. fairseq keeps some as a Namespace."""
    value = checkpoint["cfg"].get(name)
    return dict(value if isinstance(value, dict) else vars(value) if value is not None else {})


def architecture(checkpoint: Dict[str, Any]) -> Any:
    """Which architecture a checkpoint says that it is."""
    model = node(checkpoint, "model")
    return model.get("_name") or model.get("arch")


@contextmanager
def new_folder(path) -> Iterator[Path]:
    """A folder beside ``path`` to write into, which is renamed to ``path`` at the end.

    If the block raises, nothing is left. The folders above are made if they are missing.

    Raises:
        ValueError: ``path`` exists and is not an empty folder.
        OSError: it cannot be written.
    """
    path = Path(path).absolute()
    check_new(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.mkdir()
    try:
        yield beside
        os.replace(beside, path)  # takes the place of an empty folder
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def check_new(path) -> None:
    """Refuse a folder to write that has something in it.

    Raises:
        ValueError: ``path`` exists and is not an empty folder.
    """
    if os.path.isdir(path):
        if os.listdir(path):
            raise ValueError(f"{path} has files in it; a new or an empty folder is wanted, nothing is overwritten")
    elif os.path.lexists(path):
        raise ValueError(f"{path} is not a folder; a new or an empty folder is wanted, nothing is overwritten")
