"""A command that must be refused."""

import os

import pytest

from fairseq_linformer.cli import main


def refused(capsys, gpt2_files, source, *options, task="sst-2", out=None) -> str:
    """The sentence that the command ends with; there is no output and nothing beside it."""
    folder = source.parent / "refused"
    folder.mkdir(exist_ok=True)
    with pytest.raises(SystemExit) as end:
        main(["prepare", task, str(out or folder / "out"), "--source", str(source), "--gpt2", str(gpt2_files), *map(str, options)])
    said = end.value.code
    assert isinstance(said, str) and said.startswith("fairseq-linformer: ") and "\n" not in said, capsys.readouterr().err
    assert not os.listdir(folder)
    return said
