"""Composes a YAML of ``fairseq-hydra-train`` as fairseq does. Nothing in it is executed."""

import logging
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from fairseq.dataclass.initialize import add_defaults, hydra_init
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import MappingNode, Node, SafeLoader, YAMLError

from .. import models  # noqa: F401  registers the criterion, whose options a configuration may have
from ..resources import find_packaged_file

_MAX_VALUES = 100_000
"""Of a YAML file; fairseq has fewer than 1,000 options."""


def split_config(config) -> tuple[Path, list[str]]:
    """Split a path into the base YAML and, for a file in a folder of overrides next to it, the override's choice.

    Raises:
        ValueError: there is no such file.
    """
    path = find_packaged_file(config)
    if path.is_file() and path.suffix != ".yaml":
        raise ValueError(f"configuration {config} must end in .yaml")
    if not path.is_file():
        known = sorted(p.name for p in path.parent.glob("*.yaml")) or ["configs/pretrain/base.yaml"]
        raise ValueError(f"configuration {config} does not exist; choose from {', '.join(known)}")
    _check_yaml(path)
    base = path.parent.parent / "base.yaml"
    if path.name != "base.yaml" and base.is_file():
        _check_yaml(base)
        return base, [f"+{path.parent.name}={path.stem}"]
    return path, []


def _check_yaml(path: Path) -> None:
    """Check the content of a file that hydra will read: it copies every alias, and names no file in its errors.

    Raises:
        ValueError: the file is not YAML, or aliases expand to more than ``_MAX_VALUES`` values.
    """
    try:
        loader = SafeLoader(path.read_bytes())
        root = loader.get_single_node()
        values = _num_values(root, {}) if root else 0
        if root and values <= _MAX_VALUES:
            loader.construct_document(root)
    except (YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a configuration: {' '.join(str(error).split())[:300]}") from None
    if values > _MAX_VALUES:
        raise ValueError(f"{path} must have at most {_MAX_VALUES:,} values, got {values:,} with aliases expanded")


def _num_values(node: Node, known: dict[int, int]) -> int:
    """Number of values of a YAML node, with those of aliases at each place where they are used."""
    if id(node) not in known:
        known[id(node)] = 1  # of an alias of itself
        children = [each for pair in node.value for each in pair] if isinstance(node, MappingNode) else node.value
        known[id(node)] += sum(_num_values(each, known) for each in children if isinstance(each, Node))
    return known[id(node)]


def compose_config(config, overrides: Sequence[str] = ()) -> DictConfig:
    """Compose a configuration.

    Raises:
        ValueError: a file, a key or a value is invalid.
    """
    base, choice = split_config(config)
    logging.getLogger("hydra").setLevel(logging.WARNING)
    _register_schema(base.stem)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(base.parent.absolute()), version_base="1.1"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # hydra warns about how fairseq registers its schema
            cfg = compose(base.stem, [*choice, *overrides])
        if cfg.model is None:
            raise ValueError(f"{config} has no model; set model._name")
        add_defaults(cfg)
    except (HydraException, OmegaConfBaseException, YAMLError, UnicodeDecodeError, RecursionError, OSError) as error:
        cause = error.__cause__ if isinstance(error, HydraException) else None
        lines = [line.strip() for line in f"{error}\n{cause or ''}".splitlines() if line.strip()]
        name = f"{config} {' '.join(overrides)}".strip()[:200]
        raise ValueError(f"{name}: {'; '.join(lines[:2])[:500] or type(error).__name__}") from None
    return cfg


_register_schema = cache(hydra_init)  # a fifth of the time of a composition
