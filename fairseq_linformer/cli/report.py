"""``fairseq-linformer report``: the pages of the results."""

import argparse
from pathlib import Path

from .parsers import add_command, add_results


def add_parser(commands) -> None:
    """Add ``report``."""
    parser = add_command(
        commands,
        "report",
        "write README.md and charts of a folder of results: the paper's numbers next to ours",
        "report",
    )
    add_results(parser)
    parser.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> str:
    from ..files import check_can_be_written
    from ..reproduction.page import write

    folder = Path(options.results)
    if not folder.is_dir():
        raise ValueError(f"--results must be an existing folder, got {folder}")
    check_can_be_written(folder)
    return "\n".join(map(str, write(folder)))
