"""Shared parts of the commands' parsers: help format and common options."""

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from ..data.own_files import HELD_OUT_SHARE
from ..data.tasks import TASKS, TRUNCATIONS
from ..data.tokenizer_files import TokenizerFiles, open_tokenizer_files

HEADINGS = {"prepare": "to train and use models", "analyze": "to study them, and for fairseq's own commands"}
"""Headings of the list of commands, each above the first command of its group."""


def flag_of(name: str) -> str:
    """
    >>> flag_of("max_positions")
    '--max-positions'
    """
    return f"--{name.replace('_', '-')}"


def explicit_options(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Those of ``names`` that the user set; the others are None."""
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def check_options(options: argparse.Namespace, table: Mapping[str, Sequence[str]], kind: str, name: str) -> None:
    """Raise ValueError if an option is set that applies to another kind of input or model only.

    Args:
        table: the options that apply to each kind.
        kind, name: of what the user gave.
    """
    for option in explicit_options(options, sorted({option for known in table.values() for option in known})):
        if option not in table[kind]:
            others = ", ".join(other for other, known in table.items() if option in known)
            raise ValueError(f"{flag_of(option)} applies to {others}, not to {name}, which is {kind}")


def suggest(word: str, known: Iterable[str]) -> str:
    """
    >>> suggest("sst2", ["sst-2", "qnli"]), suggest("nothing", ["sst-2", "qnli"])
    (' (did you mean sst-2?)', '')
    """
    close = get_close_matches(word, known, 1, cutoff=0.7)
    return f" (did you mean {close[0]}?)" if close else ""


def check_task_or_file(name: str) -> None:
    """Raise ValueError unless this is a task, a file, a folder, or - for standard input."""
    if name not in (*TASKS, "-") and not Path(name).exists():
        if Path(name).suffix or "/" in name:
            raise ValueError(f"{name} does not exist; expected a task, a file or a folder")
        known = f"choose from {', '.join(TASKS)}, a file or a folder"
        raise ValueError(f"unknown task or file {name!r}{suggest(name.lower(), TASKS)}; {known}")


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Appends defaults to help texts, wraps descriptions, keeps the lines of examples, and groups the commands."""

    def _format_action(self, action: argparse.Action) -> str:
        heading = HEADINGS.get(action.dest)
        return f"\n  {heading}:\n" * bool(heading) + super()._format_action(action)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_flag = isinstance(action.default, bool)
        if is_flag or action.default in (None, [], "") or "default" in (action.help or ""):
            return action.help
        return super()._get_help_string(action)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example"):
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage of up to 20 lines, and name the option or choice that was
    probably meant."""

    def error(self, message: str) -> NoReturn:
        known = [
            *self._option_string_actions,
            *(str(word) for action in self._actions for word in action.choices or ()),
        ]
        unknown = [word for word in re.findall(r"--[\w-]+|(?<=choice: ')[^']+", message) if word not in known]
        hint = suggest(unknown[0], known) if unknown else ""
        self.exit(2, f"{self.prog}: error: {message}{hint}; see {self.prog} --help\n")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Reject empty values: ``Path("")`` is the current folder.

        Only ``--name=`` may be empty: the name is then derived, whatever the variable NAME has.
        """
        if (
            "" in arg_strings
            and "--name" not in action.option_strings
            and action.nargs not in (argparse.PARSER, argparse.REMAINDER)
        ):
            raise argparse.ArgumentError(action, "must not be empty")
        return super()._get_values(action, arg_strings)


def add_command(commands: Any, name: str, help: str, examples: str, **options: Any) -> argparse.ArgumentParser:
    """Add a command or a subcommand.

    Args:
        help: a phrase, which also becomes the first sentence of the description.
        examples: command lines without the program's name, one per line.
        options: arguments of ``ArgumentParser``; ``description`` is appended to the first sentence.
    """
    lines = "\n".join(f"  fairseq-linformer {line.strip()}" for line in examples.strip().splitlines())
    description = f"{help[0].upper()}{help[1:]}. {options.pop('description', '')}".strip()
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=f"example{'s' if lines.count(chr(10)) else ''}:\n{lines}",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
        **options,
    )
    parser.set_defaults(parser=parser)
    return parser


def add_subcommands(parser: argparse.ArgumentParser, dest: str) -> Any:
    """Add subcommands, one of which is required."""
    return parser.add_subparsers(dest=dest, required=True, metavar=dest.upper())


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


def tokenizer_files(options: argparse.Namespace) -> TokenizerFiles | None:
    """The tokenizer of ``--tokenizer``; None if it is not set."""
    return open_tokenizer_files(options.tokenizer) if options.tokenizer else None


PRETRAINING_YAML = "configs/pretrain/base.yaml"
TOKENIZER = "tokenizer.json, sentencepiece model, or a folder with one or with GPT-2's encoder.json and vocab.bpe"
SHARED: dict[str, dict[str, Any]] = {
    "--source": {"metavar": "hub|PATH", "help": "hub, or a folder with the official files (default: hub)"},
    "--valid": {
        "metavar": "FILE",
        "help": f"validation file (default: {100 * HELD_OUT_SHARE:g} %% of the rows, by the hash of their text)",
    },
    "--text-column": {
        "action": "append",
        "metavar": "COLUMN",
        "help": "text; repeat for pairs (default: as in finetuning, or recognized by name)",
    },
    "--label-column": {"metavar": "COLUMN", "help": "label (default: likewise)"},
    "--regression": {
        "action": argparse.BooleanOptionalAction,
        "default": None,
        "help": "whether labels are scores (default: if all are numbers, some with a fraction)",
    },
    "--head": {"metavar": "NAME", "help": "classification head (default: the only one)"},
    "--labels": {
        "type": Path,
        "metavar": "FILE",
        "help": "dict.txt of the labels (default: label/dict.txt next to CHECKPOINT, or in its data)",
    },
    "--dictionary": {"type": Path, "metavar": "FILE", "help": "fairseq's dict.txt (default: next to CHECKPOINT)"},
    "--device": {"type": usable_device, "help": "PyTorch device: cpu, cuda, cuda:1, ... (default: cuda if available)"},
    "--truncation": {"choices": TRUNCATIONS, "help": "part of an input longer than n to keep (default: head)"},
    "--runs": {"default": "runs", "metavar": "FOLDER", "help": "folder that contains the run folders"},
    "--tokenizer": {"metavar": "PATH", "help": f"{TOKENIZER} (default: next to CHECKPOINT)"},
}
"""Options of several commands, with the arguments of ``add_argument``."""


def add_shared(parser: Any, *flags: str, **changes: Any) -> None:
    """Add options of ``SHARED``, with ``changes`` of their arguments."""
    for flag in flags:
        parser.add_argument(flag, **{**SHARED[flag], **changes})
