"""Options have one meaning in all commands, and help texts are complete."""

import argparse
import re
from collections import defaultdict
from inspect import signature

import pytest

from fairseq_linformer import __version__
from fairseq_linformer.benchmark.models import BUILDERS
from fairseq_linformer.benchmark.rows import MODELS
from fairseq_linformer.cli import build_parser, main
from fairseq_linformer.evaluation import predict
from fairseq_linformer.evaluation.perplexity import compute_perplexity


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
    assert parser.epilog and parser.epilog.startswith("example")
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


# Options of several types, with the reason.
DIFFERENT = {"--source": "text comes from several, a task from one"}


def test_options_have_the_same_type_in_all_commands():
    kinds = defaultdict(dict)
    for words, parser in COMMANDS:
        for action in parser._actions:
            for flag in action.option_strings:
                kind = type(action).__name__, getattr(action.type, "__name__", action.type), action.metavar
                kinds[flag].setdefault(kind, words)
    different = {flag: found for flag, found in kinds.items() if len({kind[0] for kind in found}) > 1}
    assert not different.keys() - DIFFERENT.keys(), different


def test_help_of_evaluate_has_the_defaults_of_batches():
    parser = next(parser for words, parser in COMMANDS if words == ("evaluate",))
    text = parser._option_string_actions["--max-tokens"].help
    for_perplexity = signature(compute_perplexity).parameters["max_tokens"].default
    assert f"(default: {predict.MAX_TOKENS}, for perplexity {for_perplexity})" in text


def test_every_model_of_benchmark_can_be_built():
    assert set(MODELS) == set(BUILDERS)


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out == f"fairseq-linformer {__version__}\n"


@pytest.mark.parametrize(
    "words, problem",
    [
        (["finetune", "sst-2", "x.pt", "--max-epochs", "3"], "unrecognized arguments: --max-epochs"),
        (["prepare", "sst2", "out", "--tokenizer", "x"], "invalid choice: 'sst2' .choose from .*sst-2"),
    ],
)
def test_a_misspelled_word_is_named_in_one_line(words, problem, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    expected = rf"fairseq-linformer.*: error: .*{problem}.*; see fairseq-linformer.* --help\n"
    assert re.fullmatch(expected, capsys.readouterr().err)


def test_overrides_and_options_of_sbatch_may_stand_anywhere():
    options = build_parser().parse_args("submit +run=tiny --nodes 2 ~a --time=3 b=1 --runs here".split())
    assert options.overrides == ("+run=tiny", "~a", "b=1") and options.sbatch_options == ["--time=3"]
    assert (options.nodes, options.runs) == (2, "here")
    options = build_parser().parse_args("plan --gpus 2 bad.yaml +run=tiny".split())
    assert options.overrides == ("bad.yaml", "+run=tiny")
