"""Loads models of ``transformers``: safetensors only, never code from the model's folder."""

import os
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from ..config import LAYERS_LIMIT
from ..files import fingerprint, read_json, sha256

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
"""Weights of a model in one file, and the names of the files if they are in several."""
ATTENTIONS = (None, "eager", "sdpa", "flash_attention_2", "flex_attention")
"""Attentions of ``transformers`` itself; other names are kernels that it would download and run."""


def load_from_transformers(auto_class: Any, name: str, **options: Any) -> Any:
    """``auto_class.from_pretrained`` without remote code; ValueError with the reason if it fails."""
    with _explained(name):
        return auto_class.from_pretrained(name, trust_remote_code=False, **options)


def find_hub_file(name: str, file: str) -> Path | None:
    """A file of a folder or of a model on the hub, downloaded if it is not cached; None if the model has no such file,
    or it is not cached and ``HF_HUB_OFFLINE`` is set."""
    from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, is_offline_mode, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    if os.path.isdir(name):
        path = Path(name, file)
        return path if path.is_file() else None
    with _explained(name):
        try:
            return Path(hf_hub_download(name, file))
        except EntryNotFoundError as error:
            is_unknown = isinstance(error, LocalEntryNotFoundError) and not is_offline_mode()  # the hub is out of reach
            if is_unknown and try_to_load_from_cache(name, file) is not _CACHED_NO_EXIST:
                raise
            return None


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn what ``transformers`` raises for a model into a ValueError in one sentence."""
    try:
        yield
    except ImportError:
        raise
    except Exception as error:  # damaged files and the network raise many types
        reason = textwrap.shorten(str(error), 200, placeholder=" ...") or type(error).__name__
        which = name if os.path.isdir(name) else f"{name}, which is neither a file nor a folder here, from the hub"
        raise ValueError(f"transformers cannot load {which}: {reason}") from None


def load_config(name: str) -> Any:
    """The configuration of a model, also of a Linformer; ValueError if it would make ``transformers`` download code,
    or build a model for hours."""
    from transformers import AutoConfig
    from transformers.utils import find_adapter_config_file, logging

    from .. import huggingface  # noqa: F401  registers the Linformer with AutoConfig

    logging.set_verbosity_error()  # callers check missing weights themselves
    logging.disable_progress_bar()
    config = load_from_transformers(AutoConfig, name)
    attention = getattr(config, "_attn_implementation", None)
    if attention not in ATTENTIONS:
        allowed = ", ".join(filter(None, ATTENTIONS))
        raise ValueError(f"{name}: attn_implementation must be one of {allowed}, got {attention!r}")
    for key, problem in (("quantization_config", "be quantized"), ("transformers_weights", "name other weights")):
        if getattr(config, key, None):
            raise ValueError(f"{name} must not {problem}, but its config.json has {key}")
    if find_adapter_config_file(name):
        raise ValueError(f"{name} must not be an adapter; merge it into its model, with peft's merge_and_unload")
    layers = getattr(config, "num_hidden_layers", 1)
    if not isinstance(layers, int) or not 1 <= layers <= LAYERS_LIMIT:
        raise ValueError(f"{name}: num_hidden_layers must be between 1 and {LAYERS_LIMIT:,}, got {layers!r}")
    return config


def load_weights_from_transformers(auto_class: Any, name: str, **options: Any) -> Any:
    """``load_from_transformers`` for a class with weights, which must be safetensors."""
    load_config(name)
    find_weights(name)
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
    problems |= {key: "has another shape" for key, *_ in info["mismatched_keys"]}
    for key, problem in sorted(problems.items()):
        if not may_be_new(key):
            raise ValueError(f"the weights of {name} do not match its config.json: {key} {problem}")


def find_weights(name: str) -> list[Path]:
    """The safetensors files of a folder or of a model on the hub; ValueError if it has none, one is missing, or the
    index is damaged or names files elsewhere."""
    if path := find_hub_file(name, WEIGHTS):
        return [path]
    if index := find_hub_file(name, INDEX):
        try:
            shards = sorted(set(read_json(index)["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{index} is not an index of safetensors") from None
        for shard in shards:
            if not isinstance(shard, str) or os.path.basename(shard) != shard or not shard.endswith(".safetensors"):
                raise ValueError(f"{index} must name safetensors files next to it, got {shard!r}")
        paths = []
        for shard in shards:
            if (path := find_hub_file(name, shard)) is None:
                raise ValueError(f"{name} has no {shard}, which is in {INDEX}")
            paths.append(path)
        return paths
    offline = "" if os.path.isdir(name) else ", or it is not cached"
    raise ValueError(
        f"{name} has no {WEIGHTS}{offline}; a pickle can contain code, so if you trust it, convert it to safetensors "
        "with `AutoModel.from_pretrained(NAME).save_pretrained(FOLDER)`"
    )


def hash_weights(name: str) -> str:
    """SHA-256 of a checkpoint or of the safetensors file of a model, or of the checksums of several files; ValueError
    if it has none."""
    paths = [Path(name)] if os.path.isfile(name) else find_weights(name)
    return sha256(paths[0]) if len(paths) == 1 else fingerprint({path.name: sha256(path) for path in paths})


def drop_stale(known: dict[str, Any] | None, name: str) -> dict[str, Any]:
    """What an exported folder knows about its model, without scores and columns if ``Trainer`` has trained the weights
    since."""
    known = known or {}
    scored = known.get("finetuned")
    is_stale = scored and scored.get("weights") != hash_weights(name)
    return {key: value for key, value in known.items() if not (is_stale and key in ("finetuned", "columns"))}
