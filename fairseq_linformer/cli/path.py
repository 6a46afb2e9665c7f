"""``fairseq-linformer path``: folders of the package, for fairseq's own commands."""

import argparse

from ..resources import FOLDERS
from .parsers import add_command


def add_parser(commands) -> None:
    """Add ``path``."""
    parser = add_command(
        commands,
        "path",
        "print the folder of the plugin, configurations or scripts",
        """path plugin
        path configs""",
        description="The commands of fairseq take them as --user-dir and --config-dir.",
    )
    parser.add_argument("folder", choices=FOLDERS, help="plugin for --user-dir, configs for --config-dir, or scripts")
    parser.set_defaults(run=_print_path)


def _print_path(options: argparse.Namespace) -> str:
    return str(FOLDERS[options.folder])
