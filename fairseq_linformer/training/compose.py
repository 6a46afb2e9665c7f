"""Composes a YAML of ``fairseq-hydra-train`` as fairseq does. Nothing in it is executed."""

import logging
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.initialize import add_defaults, hydra_init
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from ..models.options import LinformerRobertaConfig
from ..resources import find_config

SECTIONS = {name: field.default for name, field in FairseqConfig.__dataclass_fields__.items()}
SECTIONS["model"] = LinformerRobertaConfig
"""The sections of fairseq's configuration, and what they have."""


def split_config(config) -> tuple[Path, list[str]]:
    """Split a path into the base YAML and, for a file in a folder of overrides next to it, the override's choice.
    ValueError if there is no such file."""
    path = find_config(config)
    if not path.is_file() or path.suffix != ".yaml":
        known = sorted(p.name for p in path.parent.glob("*.yaml")) or ["configs/pretrain/base.yaml"]
        raise ValueError(f"configuration {config} does not exist; choose from {', '.join(known)}")
    base = path.parent.parent / "base.yaml"
    if path.name != "base.yaml" and base.is_file():
        return base, [f"+{path.parent.name}={path.stem}"]
    return path, []


def compose_config(config, overrides: Sequence[str] = ()) -> DictConfig:
    """Compose a configuration; ValueError in one sentence if a file, a key or a value is invalid."""
    base, choice = split_config(config)
    for word in overrides:
        if "=" not in word and not word.startswith("~"):
            raise ValueError(f"an override must be KEY=VALUE or ~KEY, got {word}; commas separate values of an option")
        key = word.lstrip("+~").partition("=")[0]
        section = key.partition(".")[0].partition("/")[0]
        if section not in (*SECTIONS, "hydra") and not (base.parent / section).is_dir():
            sections = [name for name, options in SECTIONS.items() if hasattr(options, key)]
            hint = f" (did you mean {sections[0]}.{key}?)" if sections else ""
            raise ValueError(f"{section} in {word} is not a section of {base.name}{hint}")
    logging.getLogger("hydra").setLevel(logging.WARNING)
    _register_schema(base.stem)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(base.parent.absolute()), version_base="1.1"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # hydra warns about how fairseq registers its schema
            cfg = compose(base.stem, [*choice, *overrides])
        if cfg.model is None:
            raise ValueError("it has no model; set model._name")
        add_defaults(cfg)
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError, RecursionError, OSError) as error:
        cause = error.__cause__ if isinstance(error, HydraException) else None
        lines = [line.strip() for line in f"{error}\n{cause or ''}".splitlines() if line.strip()]
        raise ValueError(f"{config}: {'; '.join(lines[:2])[:500] or type(error).__name__}") from None
    return cfg


_register_schema = cache(hydra_init)  # a fifth of the time of a composition
