"""The only way in which models of ``transformers`` are loaded: safetensors, without code of the model's folder."""

import os
from pathlib import Path
from typing import Any

from ..files import read_json

WEIGHTS = "model.safetensors"


def load_from_transformers(auto_class: Any, name: str, **options: Any) -> Any:
    """``auto_class.from_pretrained`` without remote code; ValueError with the reason if it fails in any way."""
    if not os.path.isdir(name) and (os.path.isabs(name) or name.startswith(".") or name.count("/") > 1):
        raise ValueError(f"{name} is not a folder, nor a name on the hub")
    try:
        return auto_class.from_pretrained(name, trust_remote_code=False, **options)
    except ImportError:
        raise
    except Exception as error:  # damaged files and the network raise many types
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"transformers cannot load {name}: {reason}") from None


def load_weights_from_transformers(auto_class: Any, name: str, **options: Any) -> Any:
    """``load_from_transformers`` for a class with weights, which must be safetensors.

    Raises:
        ValueError: a folder has its weights as a pickle, has none, or its index names files outside the folder; or as
            ``load_from_transformers``.
    """
    if os.path.isdir(name):
        find_weights(Path(name))
    return load_from_transformers(auto_class, name, use_safetensors=True, **options)


def find_weights(folder: Path) -> list[Path]:
    """The safetensors files of a folder.

    Raises:
        ValueError: there are none, only a pickle, or the index is damaged or names files elsewhere.
    """
    index = folder / f"{WEIGHTS}.index.json"
    names = [WEIGHTS] if (folder / WEIGHTS).is_file() or not index.is_file() else read_weight_files(index)
    if missing := [name for name in names if not (folder / name).is_file()]:
        if (folder / "pytorch_model.bin").is_file():
            raise ValueError(describe_pickle(str(folder)))
        raise ValueError(f"{folder} has no {missing[0]}; only safetensors are supported")
    return [folder / name for name in names]


def read_weight_files(index: Path) -> list[str]:
    """The files of a ``model.safetensors.index.json``; ValueError if it is damaged or names files elsewhere."""
    try:
        names = sorted(set(read_json(index)["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{index} is not an index of safetensors") from None
    for name in names:
        if not isinstance(name, str) or os.path.basename(name) != name or not name.endswith(".safetensors"):
            raise ValueError(f"{index} must name safetensors files next to it, got {name!r}")
    return names


def describe_pickle(name: str) -> str:
    """The error of a model whose weights are a pickle."""
    return (
        f"{name} has its weights as a pickle, which can contain code; if you trust it, convert it to safetensors "
        "with `AutoModel.from_pretrained(NAME).save_pretrained(FOLDER)`"
    )
