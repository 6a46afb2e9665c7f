"""The modules of ``sentence-transformers``, which make one vector of an encoder's features.

modules.json                        their types in order: the encoder, pooling, and possibly others
sentence_bert_config.json           options of the encoder: max_seq_length in tokens, do_lower_case
config_sentence_transformers.json   prompts and similarity
1_Pooling/config.json, ...          options and weights of each module

An exported folder has these files, and next to a fairseq checkpoint they are in ``files.MODULES_FOLDER``.
"""

import json
import re
from typing import Any, NamedTuple

from ..files import read_json
from .files import Files
from .transformers_loading import WEIGHTS, find_hub_file

MODULES, ENCODER, PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
POOLINGS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
"""Poolings that a graph computes, and their key in ``1_Pooling/config.json``."""
WITHOUT_WEIGHTS, WITH_WEIGHTS = ("Pooling", "Normalize", "Dropout"), ("Dense", "LayerNorm")
"""Modules that need the encoder's last features only."""


class Pooling(NamedTuple):
    """How a graph makes a vector of features: one of ``POOLINGS``, and whether it gets length 1."""

    mode: str
    normalize: bool = False

    def __str__(self) -> str:
        return f"{self.mode}, normalized" if self.normalize else self.mode


def read_modules(name: str) -> Files:
    """Read the modules of a folder, or of a model on the hub; empty if it has none.

    ``max_seq_length``, which newer versions store as the tokenizer's limit, is set.

    Raises:
        ValueError: a module needs more than the encoder's last features, or its weights are not safetensors.
    """
    if (path := find_hub_file(name, MODULES)) is None:
        return {}
    names = [MODULES, ENCODER, PROMPTS]
    for i, (kind, folder) in enumerate(_list_modules(read_json(path))):
        if i == 0 and kind == "Transformer":
            continue
        if i == 0 or kind not in WITHOUT_WEIGHTS + WITH_WEIGHTS or not re.fullmatch(r"\w[\w.-]*", folder):
            known = ", ".join(WITHOUT_WEIGHTS + WITH_WEIGHTS)
            raise ValueError(f"{MODULES} of {name} must have a Transformer, and after it only {known}, got {kind}")
        names += [f"{folder}/config.json", f"{folder}/{WEIGHTS}"]
        if kind in WITH_WEIGHTS and not find_hub_file(name, names[-1]):
            raise ValueError(
                f"{name} has no {names[-1]}; `SentenceTransformer(NAME).save_pretrained(FOLDER)` writes safetensors"
            )
    files = {file: found.read_bytes() for file in names if (found := find_hub_file(name, file))}
    options = _read(files, ENCODER)
    tokenizer = find_hub_file(name, "tokenizer_config.json")
    if tokenizer and not options.get("max_seq_length"):
        options["max_seq_length"] = read_json(tokenizer).get("model_max_length")
    return {**files, ENCODER: _to_json(options)}


def needs_lower_case(files: Files) -> bool:
    """Whether texts are in lower case before they are split into tokens."""
    return bool(_read(files, ENCODER).get("do_lower_case"))


def find_length(files: Files, n: int) -> int:
    """The tokens to which inputs of an encoder of n positions are truncated."""
    return min(_read(files, ENCODER).get("max_seq_length") or n, n)


def set_length(options: bytes, length: int) -> bytes:
    """The content of ``ENCODER`` for inputs of at most so many tokens."""
    return _to_json({**json.loads(options), "max_seq_length": length})


def set_pooling(files: Files, mode: str, width: int) -> Files:
    """The files with another pooling of features of this width; ValueError if modules with weights follow it."""
    kinds = [kind for kind, _ in _list_modules(_read(files, MODULES))]
    if others := [kind for kind in kinds if kind in WITH_WEIGHTS]:
        raise ValueError(f"--pooling must be unset, since the encoder's own vectors are those of its {others[0]}")
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate((("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")))
        if kind != "Normalize" or kind in kinds
    ]
    modes = {key: each == mode for each, key in POOLINGS.items()}
    return {
        **{name: files[name] for name in (ENCODER, PROMPTS) if name in files},
        MODULES: _to_json(modules),
        "1_Pooling/config.json": _to_json({"word_embedding_dimension": width, **modes}),
    }


def find_pooling(files: Files) -> Pooling | None:
    """The pooling, and normalization, that are all of the modules; None if there are others, or none."""
    modules = {kind: path for kind, path in _list_modules(_read(files, MODULES)) if kind != "Dropout"}
    if [*modules] not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        return None
    values = _read(files, f"{modules['Pooling']}/config.json")
    chosen = [key for key, value in values.items() if key.startswith("pooling_mode_") and value is True]
    for mode, key in POOLINGS.items():
        if values.get("include_prompt", True) and (values.get("pooling_mode") in (mode, [mode]) or chosen == [key]):
            return Pooling(mode, "Normalize" in modules)
    return None


def describe_modules(files: Files) -> str | None:
    """The modules after the encoder, for the model card; None without modules."""
    pooling = find_pooling(files)
    kinds = [kind for kind, _ in _list_modules(_read(files, MODULES))][1:]
    return str(pooling) if pooling else ", ".join(kinds) or None


def _read(files: Files, name: str) -> Any:
    return json.loads(files.get(name, b"{}"))


def _list_modules(modules: Any) -> list[tuple[str, str]]:
    """The type and folder of each module; a type that is not of ``sentence-transformers`` has a full name."""
    return [(re.sub(r"^sentence_transformers\.(.*\.)?", "", module["type"]), module["path"]) for module in modules]


def _to_json(content: Any) -> bytes:
    return json.dumps(content, indent=2).encode()
