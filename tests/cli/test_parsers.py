"""Help texts are complete, and overrides may stand anywhere."""

import argparse

import pytest

from fairseq_linformer.benchmark.models import BUILDERS
from fairseq_linformer.benchmark.rows import MODELS
from fairseq_linformer.cli import build_parser


def walk(parser: argparse.ArgumentParser, words=()):
    """Every command and subcommand: its words and its parser."""
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                yield from walk(sub, (*words, name))


COMMANDS = list(walk(build_parser()))


@pytest.mark.parametrize(
    "words, parser", COMMANDS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_help(words, parser):
    """A command has a description, examples of itself, and a phrase for every option."""
    assert parser.epilog and parser.epilog.startswith("example") and parser.format_help()
    if not words:
        return
    assert parser.description[0].isupper()
    for line in parser.epilog.splitlines()[1:]:
        assert line.split()[:2] == ["fairseq-linformer", words[0]], line
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
            continue
        assert (action.help and len(action.help.split()) > 1) or action.dest in ("seed",), (words, action.dest)
        assert not action.help.startswith(("of ", "for ", "(", "in ")) or action.dest in ("tasks",), (
            words,
            action.help,
        )


def test_every_model_of_benchmark_can_be_built():
    assert set(MODELS) == set(BUILDERS)


def test_overrides_and_options_of_sbatch_may_stand_anywhere():
    options = build_parser().parse_args("submit +run=tiny --nodes 2 ~a --time=3 b=1 --runs here".split())
    assert options.overrides == ("+run=tiny", "~a", "b=1") and options.sbatch_options == ["--time=3"]
    assert (options.nodes, options.runs) == (2, "here")
    options = build_parser().parse_args("plan --gpus 2 bad.yaml +run=tiny".split())
    assert options.overrides == ("bad.yaml", "+run=tiny")
