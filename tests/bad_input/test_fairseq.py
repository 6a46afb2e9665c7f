"""fairseq's own programs with the plugin: a traceback that ends with one sentence, and no checkpoint."""

import re
import shlex

import pytest

from .. import fairseq_commands
from ..fairseq_commands import PLUGIN, TINY, TRAIN
from .world import EXECUTED, snapshot

pytestmark = pytest.mark.slow

FLAGS = """
--projected-dim 17 -> projected_dim must be between 1 and max_positions \\(16\\), got 17
--encoder-attention-heads 3 -> encoder_attention_heads must divide encoder_embed_dim \\(16\\), got 3
--max-positions 8 -> max_positions must .*\\(16; tokens_per_sample\\), got 8
--adam-betas "__import__('pathlib').Path('executed').touch()" -> options must be numbers.*__import__
--finetune-from-model bad/code.pt -> code.pt contains code \\(.*open\\)
--finetune-from-model bad/environment.pt -> environment.pt must not have interpolations, got '\\$\\{oc.env:HOME\\}'
--finetune-from-model mlm/model.pt --sharing layerwise -> sharing headwise, this model has layerwise
--restore-file bad/code.pt -> code.pt contains code
--fp16 -> --fp16 needs a GPU; on a CPU use --amp
"""
YAML = """
model.projected_dim=999 -> projected_dim must be between 1 and max_positions \\(64\\), got 999
optimizer.adam_betas=abc -> options must be numbers.*'abc'
task.data=nowhere -> nowhere/dict.txt
"""


def cases(lines: str):
    return [pytest.param(*line.rpartition(" -> ")[::2], id=line) for line in lines.strip().splitlines()]


def chain(error: BaseException | None) -> str:
    """The messages that the traceback of an error shows, up to one that is raised ``from`` another."""
    return f"{error}\n{chain(None if error.__suppress_context__ else error.__context__)}" if error else ""


@pytest.fixture
def rejected(world, monkeypatch, tmp_path, capfd):
    """A function that runs a program in the world, which must write nothing, and returns its error."""
    monkeypatch.chdir(world)

    def run(command, *words) -> str:
        before = snapshot(world)
        try:
            command(*words)
        except SystemExit as end:
            assert end.code == 1
            error, _, hint = capfd.readouterr().err.splitlines()[-3:]  # hydra prints the traceback
            assert "HYDRA_FULL_ERROR" in hint
        except Exception as raised:
            error = chain(raised)
        else:
            pytest.fail("it was accepted")
        assert snapshot(world) == before and EXECUTED not in before and not list(tmp_path.rglob("checkpoint*.pt"))
        return error

    return run


@pytest.mark.parametrize("words, message", cases(FLAGS))
def test_flags(words, message, rejected, tmp_path):
    options = [*TRAIN, *TINY, "--save-dir", tmp_path, "--max-update", 1, *shlex.split(words)]
    assert re.search(message, rejected(fairseq_commands.command, "train", "data", "--user-dir", PLUGIN, *options))


@pytest.mark.parametrize("words, message", cases(YAML))
def test_yaml(words, message, rejected, world, tmp_path):
    arguments = (world / "data", tmp_path, "+run=tiny", words)
    assert re.search(message, rejected(fairseq_commands.hydra_train, *arguments))
