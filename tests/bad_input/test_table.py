"""The table covers all commands, and is the one in the documentation."""

from pathlib import Path

from fairseq_linformer.data.tasks import TASKS

from ..cli.test_parsers import COMMANDS
from .cases import CASES
from .table import build_table

PAGE = Path(__file__).parents[2] / "docs/robustness.md"


def test_every_command_is_in_the_table():
    commands = {" ".join(words) for words, parser in COMMANDS if not parser._subparsers}
    tasks = {f"prepare {task}" for task in TASKS if task != "sst-2"}  # they share options and code
    assert commands - tasks <= {case.command for case in CASES} and len(CASES) >= 150


def test_cases_are_different():
    assert len({case.words for case in CASES}) == len(CASES)


def test_the_page_has_the_current_table():
    assert build_table() in PAGE.read_text(encoding="utf-8")
