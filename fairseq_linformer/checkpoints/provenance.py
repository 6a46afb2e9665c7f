"""Where the weights of a checkpoint come from, its scores, and the settings that fairseq needs to load it."""

import json
import os
from pathlib import Path
from typing import Any

from ..data.manifest import read_manifest
from ..files import read_json
from .files import get_architecture, get_cfg_section
from .identify import RESULT

NEW_LM_HEAD = "new, untrained"
"""``lm_head`` in ``imported`` of a checkpoint converted from an encoder without masked LM head."""
ORIGINS = ("imported", "distilled", "license")
"""Entries of a checkpoint's ``provenance``: the source with license and SHA-256, the report of ``linearize``, and the
license that an export was given."""


def read_origins(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Where the weights come from: those of ``ORIGINS`` that are known."""
    provenance = checkpoint.get("provenance") or {}
    return {key: provenance[key] for key in ORIGINS if key in provenance}


def finetuned_origins(model: dict[str, Any]) -> dict[str, Any]:
    """``read_origins`` of the checkpoint that was finetuned, by ``model`` in the result."""
    return {} if model["from_scratch"] else read_origins({"provenance": model["pretraining"]})


def collect_provenance(checkpoint: dict[str, Any], path) -> dict[str, Any]:
    """What an exported model records, as JSON values; paths are reduced to their last part.

    Args:
        path: that of the checkpoint; ``finetune`` may have scored it.

    Returns:
        ``cfg``, the sections that fairseq needs to load the model; origins; and, if any, ``finetuned``, the result of
        ``finetune``, and ``columns`` of the user's own files that it was finetuned on.
    """
    sections = {name: get_cfg_section(checkpoint, name) for name in ("model", "task", "criterion")}
    sections["model"]["_name"] = get_architecture(checkpoint)
    cfg = json.loads(json.dumps(sections, default=str))
    for name in ("task", "criterion"):
        cfg[name] = {key: os.path.basename(v) if isinstance(v, str) else v for key, v in cfg[name].items()}
    content = {"cfg": cfg, **read_origins(checkpoint), **_read_finetuning(path)}
    source = read_manifest(Path(path).parent).get("source", {})
    if "label_column" in source:
        content["columns"] = {key: source[key] for key in ("text_columns", "label_column")}
    return content


def _read_finetuning(checkpoint) -> dict[str, Any]:
    """``finetuned``, and the origins of the checkpoint that was finetuned; empty if ``finetune`` did not score it."""
    path = Path(checkpoint).absolute().parent.parent / RESULT
    if not path.is_file() or not path.with_name("config.yaml").is_file():  # not a run folder
        return {}
    result = read_json(path)
    if path.parent / result["checkpoint"] != Path(checkpoint).absolute():
        return {}
    finetuned = {key: result[key] for key in ("task", "splits", "data", "commit")}
    return {"finetuned": finetuned, **finetuned_origins(result["model"])}
