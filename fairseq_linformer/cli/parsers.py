"""Shared parts of the commands: parsers, common options, and the errors of what a user typed."""

import argparse
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

from ..config import flag_of
from ..data.own_files import HELD_OUT_SHARE
from ..data.tasks import TASKS, TRUNCATIONS
from ..data.tokenizer_files import FILES_TEXT, find_tokenizer_files

PRETRAINING_YAML = "configs/pretrain/base.yaml"
TOKENIZER = "tokenizer.json, sentencepiece model, or a folder with one or with GPT-2's encoder.json and vocab.bpe"


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Appends defaults to help texts, wraps descriptions, and keeps the lines of examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.default and "default" not in str(action.help)
        return super()._get_help_string(action) if has_default else action.help

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("example") else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """A parser whose result has only the options that are given or have a default.

    Errors are one line, without the usage of up to 20 lines.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=HelpFormatter, allow_abbrev=False, argument_default=argparse.SUPPRESS, **options
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse also words after options: overrides, and TASK-OR-FILE; and with ``slurm`` the options of sbatch."""
        options, rest = super().parse_known_args(args, namespace)
        words = [word for word in rest if word == "-" or not word.startswith("-")]
        if "overrides" in options:  # argparse collects only those before the first option
            options.overrides = (*options.overrides, *words)
            rest = [word for word in rest if word not in words]
        elif words and "input" not in options and any(action.dest == "input" for action in self._actions):
            options.input = words[0]  # argparse 3.11 has taken none
            rest.remove(words[0])
        if "slurm" in options:
            options.sbatch_options, rest = [*getattr(options, "sbatch_options", []), *rest], []
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return options, rest

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}; see {self.prog} --help\n")


def add_command(commands: Any, name: str, text: str) -> Parser:
    """Add a command or a subcommand.

    Args:
        text: a sentence, what else there is to know, and in the last paragraph examples.
    """
    description, _, examples = text.rstrip().rpartition("\n\n")
    lines = [f"  {line.strip()}" for line in examples.splitlines()]
    epilog = "\n".join([f"example{'s' * (len(lines) > 1)}:", *lines])
    sentence = description.split(".")[0]
    help = f"{sentence[0].lower()}{sentence[1:]}"
    parser: Parser = commands.add_parser(name, help=help, description=description, epilog=epilog)
    return parser


def take(given: dict[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Remove the options that a function has as parameters, and return them."""
    return {name: given.pop(name) for name in signature(function).parameters if name in given}


def check_taken(given: dict[str, Any], where: str) -> None:
    """Raise ValueError if an option is left, which no function has taken."""
    for name in given:
        raise ValueError(f"{flag_of(name)} has no effect on {where}")


def check_task_or_file(name: str) -> None:
    """Raise ValueError unless this is a task, a file, a folder, or - for standard input."""
    if name not in (*TASKS, "-") and not Path(name).exists():
        raise ValueError(f"unknown task or file {name!r}; choose from {', '.join(TASKS)}, a file or a folder")


def positive(text: str) -> int:
    """Parse a number that is at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def usable_device(text: str) -> str:
    """Parse a device that PyTorch can use."""
    import torch

    try:
        torch.empty(0, device=text)
    except (RuntimeError, AssertionError):
        raise argparse.ArgumentTypeError(f"must be one that PyTorch can use, such as cpu, got {text!r}") from None
    return text


def tokenizer_files(text: str) -> Path:
    """Parse the path of a ``tokenizer.json``, of a sentencepiece model, or of a folder with either or with GPT-2's
    files."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{path} does not exist")
    found = find_tokenizer_files(path) if path.is_dir() else path
    if found is None:
        raise argparse.ArgumentTypeError(f"{path} has no tokenizer ({FILES_TEXT})")
    return found


SHARED: dict[str, dict[str, Any]] = {
    "--source": dict(metavar="hub|PATH", help="hub, or a folder with the official files (default: hub)"),
    "--valid": dict(metavar="FILE", help=f"validation file (default: {100 * HELD_OUT_SHARE:g} %% of the rows)"),
    "--text-column": dict(
        action="append", metavar="COLUMN", help="text; repeat for pairs (default: known by its name)"
    ),
    "--label-column": dict(metavar="COLUMN", help="label (default: likewise)"),
    "--regression": dict(
        action=argparse.BooleanOptionalAction,
        help="whether labels are scores (default: if all are numbers, some with a fraction)",
    ),
    "--head": dict(metavar="NAME", help="classification head (default: the only one)"),
    "--labels": dict(
        type=Path, metavar="FILE", help="dict.txt of the labels (default: that of CHECKPOINT or its data)"
    ),
    "--dictionary": dict(type=Path, metavar="FILE", help="fairseq's dict.txt (default: next to CHECKPOINT)"),
    "--device": dict(type=usable_device, help="PyTorch device: cpu, cuda, cuda:1, ... (default: cuda if available)"),
    "--truncation": dict(choices=TRUNCATIONS, help="part of an input longer than n to keep (default: head)"),
    "--runs": dict(default="runs", metavar="FOLDER", help="folder that contains the run folders"),
    "--tokenizer": dict(type=tokenizer_files, metavar="PATH", help=f"{TOKENIZER} (default: next to CHECKPOINT)"),
}
"""Options of several commands, with the arguments of ``add_argument``."""


def add_shared(parser: Any, *flags: str, **changes: Any) -> None:
    """Add options of ``SHARED``, with ``changes`` of their arguments."""
    for flag in flags:
        parser.add_argument(flag, **{**SHARED[flag], **changes})
