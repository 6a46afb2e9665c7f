"""Checkpoints are data. fairseq and this package load them weights-only, and reject by name those with code.

Weights-only loading alone does not protect: fairseq evaluates some options as Python (``--adam-betas``, the shapes of
convolutions), OmegaConf replaces ``${oc.env:NAME}`` by the environment, and a compressed file can unpack to any size.
"""

import ast
import pickle
import pickletools
import re
import sys
import zipfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from functools import wraps
from typing import Any

import torch
from fairseq import checkpoint_utils
from omegaconf import DictConfig, ListConfig, OmegaConf

_UNSUPPORTED = re.compile(r"[Uu]nsupported (?:global: GLOBAL|GLOBAL|class) (\S+)")
_DATA = ("torch.", "collections.", "argparse.", "omegaconf.", "numpy.", "_codecs.", "builtins.", "__builtin__.")
"""Prefixes of globals that pickles without code may name."""


def load_weights_only(path, mmap: bool = False) -> Any:
    """Load a file of ``torch.save`` on the CPU, without running code in it.

    Args:
        mmap: do not read the tensors, which stay in the file.

    Raises:
        ValueError: it contains code, is compressed or truncated, or is not such a file.
        OSError: it cannot be read.
    """
    check_uncompressed(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap and zipfile.is_zipfile(path))
    except (PermissionError, IsADirectoryError, FileNotFoundError):
        raise
    except Exception as error:  # torch raises many types of errors on files that are not pickles
        raise explain_failure(path, error) from None


def check_uncompressed(path) -> None:
    """Raise ValueError if entries of the zip archive are compressed: torch.save stores them as they are."""
    try:
        with zipfile.ZipFile(path) as archive:
            packed = next((entry for entry in archive.infolist() if entry.compress_type != zipfile.ZIP_STORED), None)
    except FileNotFoundError:
        raise
    except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError, OSError):  # torch reports it
        return
    if packed is not None:
        raise ValueError(f"{path} must not be compressed, as torch.save writes it, got the entry {packed.filename!r}")


def explain_failure(path, error: Exception, expected: str = "a PyTorch checkpoint") -> ValueError:
    """The error of a file that cannot be loaded: it contains code, or is truncated or of another format."""
    found = _UNSUPPORTED.search(str(error))
    if code := found[1] if found else _find_code(path):
        return ValueError(f"{path} contains code ({code}); a checkpoint may contain only weights and settings")
    return ValueError(f"{path} is truncated, or is not {expected}")


def _find_code(path) -> str | None:
    """The first global name of a pickle that data would not have; None if there is none, or it is no pickle."""
    strings: list[str] = []
    try:
        with open(path, "rb") as file:
            for operation, argument, _ in pickletools.genops(file):
                if operation.name in ("GLOBAL", "INST"):
                    strings = [str(argument).replace(" ", ".")]
                elif operation.name != "STACK_GLOBAL":
                    strings += [argument] if isinstance(argument, str) else []
                    continue
                name = ".".join(strings[-2:])
                if not name.startswith(_DATA) or name.endswith((".eval", ".exec", ".open", ".getattr", ".print")):
                    return name
    except (ValueError, OverflowError, MemoryError, pickle.UnpicklingError):
        pass
    return None


def check_settings(path, checkpoint: Mapping[str, Any]) -> None:
    """Raise ValueError if a setting of a checkpoint has an interpolation, which can read environment variables."""
    for key in ("cfg", "args"):
        for value in _strings(checkpoint.get(key)):
            if "${" in value:
                raise ValueError(f"the settings of {path} must not have interpolations, got {value[:100]!r}")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, DictConfig | ListConfig):
        value = OmegaConf.to_container(value)
    if isinstance(value, str):
        yield value
    elif isinstance(value, Namespace):
        yield from _strings(vars(value))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)


def patch_checkpoint_loading() -> None:
    """Let fairseq's loader give the errors of ``load_weights_only`` and ``check_settings``."""
    load = checkpoint_utils.load_checkpoint_to_cpu

    @wraps(load)
    def load_checkpoint_to_cpu(path: str, *args: Any, **kwargs: Any) -> Any:
        check_uncompressed(path)
        try:
            state = load(path, *args, **kwargs)
        except OSError:
            raise
        except Exception as error:
            raise explain_failure(path, error, "a fairseq checkpoint") from None
        check_settings(path, state)
        return state

    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu


def evaluate_literal(text: str, *_: Any) -> Any:
    """Evaluate an option as fairseq does with ``eval``: literals, and sums and products of them.

    >>> evaluate_literal("(0.9, 0.98)"), evaluate_literal("[(512, 10, 5)] + [(512, 3, 2)] * 2")
    ((0.9, 0.98), [(512, 10, 5), (512, 3, 2), (512, 3, 2)])

    Raises:
        ValueError: it is anything else.
    """
    try:
        return _evaluate(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, ValueError, MemoryError, RecursionError, AttributeError):
        raise ValueError(f"options must be numbers, strings, tuples or lists, got {str(text)[:100]!r}") from None


def _evaluate(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _evaluate(node.left) + _evaluate(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _evaluate(node.left), _evaluate(node.right)
        if any(isinstance(each, int) and abs(each) > 10_000 for each in (left, right)):
            raise ValueError
        return left * right
    return ast.literal_eval(node)


def patch_eval() -> None:
    """Replace ``eval`` in all modules of fairseq, which call it on options, by ``evaluate_literal``."""
    for name, module in list(sys.modules.items()):
        if name.startswith("fairseq."):
            vars(module)["eval"] = evaluate_literal
