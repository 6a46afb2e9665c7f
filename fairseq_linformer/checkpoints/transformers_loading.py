"""Loads models of ``transformers``: safetensors only, never code from the model's folder."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from ..config import LAYERS_LIMIT
from ..files import read_json

WEIGHTS = "model.safetensors"
ATTENTIONS = (None, "eager", "sdpa", "flash_attention_2", "flex_attention")
"""Attentions of ``transformers`` itself; other names are kernels that it would download and run."""


def load_from_transformers(auto_class: Any, name: str, **options: Any) -> Any:
    """``auto_class.from_pretrained`` without remote code; ValueError with the reason if it fails in any way."""
    with _explained(name):
        return auto_class.from_pretrained(name, trust_remote_code=False, **options)


def find_hub_file(name: str, file: str) -> Path | None:
    """A file of a folder or of a model on the hub, downloaded if it is not cached; None if the model has no such file,
    or it is not cached and the hub cannot be reached."""
    from transformers.utils import cached_file

    with _explained(name):
        path = cached_file(name, file, _raise_exceptions_for_missing_entries=False)
    return None if path is None else Path(path)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn what ``transformers`` raises for a model into a ValueError in one sentence."""
    if not os.path.isdir(name):
        folder, slash, _ = name.partition("/")
        if os.path.isabs(name) or name.startswith(".") or name.count("/") > 1 or (slash and os.path.isdir(folder)):
            raise ValueError(f"{name} is not a folder, nor a name on the hub")
    try:
        yield
    except ImportError:
        raise
    except BaseException as error:  # damaged files and the network raise many types
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # that of tokenizers, in Rust
            raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        which = name if os.path.isdir(name) else f"{name}, which is neither a file nor a folder here, from the hub"
        raise ValueError(f"transformers cannot load {which}: {reason}") from None


def check_config(name: str, config: Any) -> None:
    """Reject what a stranger's configuration could make ``transformers`` download, or build for hours."""
    attention = getattr(config, "_attn_implementation", None)
    if attention not in ATTENTIONS:
        allowed = ", ".join(filter(None, ATTENTIONS))
        raise ValueError(f"{name}: attn_implementation must be one of {allowed}, got {attention!r}")
    if getattr(config, "quantization_config", None):
        raise ValueError(f"{name} must not be quantized, but its config.json has quantization_config")
    layers = getattr(config, "num_hidden_layers", 1)
    if not isinstance(layers, int) or not 1 <= layers <= LAYERS_LIMIT:
        raise ValueError(f"{name}: num_hidden_layers must be between 1 and {LAYERS_LIMIT:,}, got {layers!r}")
    for number, label in config.id2label.items():
        if not isinstance(label, str):
            raise ValueError(f"{name}: id2label must have strings, got {label!r} for {number}")


def load_weights_from_transformers(auto_class: Any, name: str, **options: Any) -> Any:
    """``load_from_transformers`` for a class with weights, which must be safetensors in the folder."""
    from transformers import AutoConfig

    check_config(name, load_from_transformers(AutoConfig, name))
    if os.path.isdir(name):
        find_weights(Path(name))
    return load_from_transformers(auto_class, name, use_safetensors=True, **options)


def find_max_positions(model: nn.Module) -> int | None:
    """n of a model of ``transformers``; None if it has no limit.

    The position embeddings of RoBERTa and others start with unused rows, up to and including the padding row.
    """
    for name, embedding in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(embedding, nn.Embedding):
            return embedding.num_embeddings - (0 if embedding.padding_idx is None else embedding.padding_idx + 1)
    configured: int = getattr(model.config, "max_position_embeddings", None) or 0
    return configured if configured > 0 else None  # XLNet has -1


def check_loaded_weights(name: str, info: dict[str, Any], may_be_new: Callable[[str], bool]) -> None:
    """Check that a model was loaded with all of its weights; ``transformers`` initializes the others at random.

    Args:
        info: what ``output_loading_info`` returns.
        may_be_new: whether a weight may be initialized.
    """
    problems = dict.fromkeys(info["missing_keys"], "is missing")
    for key in info["mismatched_keys"]:
        problems[key[0] if isinstance(key, tuple) else key] = "has another shape"
    for key, problem in sorted(problems.items()):
        if not may_be_new(key):
            raise ValueError(f"the weights of {name} do not match its config.json: {key} {problem}")


def find_weights(folder: Path) -> list[Path]:
    """The safetensors files of a folder; ValueError if one is missing."""
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
