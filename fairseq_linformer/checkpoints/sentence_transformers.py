"""How the features of an encoder become one vector: the modules of ``sentence-transformers``.

FOLDER/modules.json          the modules in order: the encoder, pooling, and possibly normalization
FOLDER/1_Pooling/config.json the pooling
FOLDER/sentence_bert_config.json
                             max_seq_length, in tokens
"""

from pathlib import Path
from typing import Any

from ..files import read_json, write_json
from ..huggingface import LinformerPreTrainedConfig
from .transformers_loading import find_hub_file

POOLINGS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
"""Poolings, and their key in ``1_Pooling/config.json``."""
MODULES = "modules.json"
Pooling = dict[str, Any]
"""``pooling``, one of ``POOLINGS``, and ``normalize``, whether vectors have length 1."""


def read_pooling(name: str) -> Pooling | None:
    """The pooling of a folder or of a model on the hub; None if it has none, or modules that are not pooled features.

    Args:
        name: as for ``find_hub_file``.
    """
    if (path := find_hub_file(name, MODULES)) is None:
        return None
    modules = read_json(path)
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        return None
    config = find_hub_file(name, f"{modules[1]['path']}/config.json")
    values = read_json(config) if config else {}
    chosen = [key for key, value in values.items() if key.startswith("pooling_mode_") and value is True]
    for mode, key in POOLINGS.items():
        if values.get("pooling_mode") == mode or chosen == [key]:
            return {"pooling": mode, "normalize": len(kinds) == 3}
    return None


def recorded_pooling(config: LinformerPreTrainedConfig) -> Pooling:
    """The pooling of the encoder that an exported model was made of; empty if it had none."""
    imported = (config.fairseq or {}).get("imported", {})
    pooling: Pooling = imported.get("pooling", {})
    return pooling


def write_modules(folder: Path, pooling: Pooling, width: int, n: int) -> None:
    """Make an exported folder one for ``SentenceTransformer(folder, trust_remote_code=True)``.

    Args:
        width: of the features.
        n: longest input in tokens.
    """
    kinds = ["Transformer", "Pooling", *["Normalize"] * pooling["normalize"]]
    paths = ["", "1_Pooling", "2_Normalize"]
    write_json(
        folder / MODULES,
        [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(zip(kinds, paths))
        ],
    )
    for path in paths[1 : len(kinds)]:
        (folder / path).mkdir()
    modes = {key: mode == pooling["pooling"] for mode, key in POOLINGS.items()}
    write_json(folder / paths[1] / "config.json", {"word_embedding_dimension": width, **modes})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": n, "do_lower_case": False})
