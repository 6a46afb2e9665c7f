"""Every command rejects every case of the table in at most three lines, and changes nothing."""

import re
import shlex
from importlib.util import find_spec

import pytest

from fairseq_linformer.cli import main

from .cases import CASES, Case
from .world import EXECUTED, snapshot

HAS_ONNX = find_spec("onnxscript") is not None


@pytest.fixture
def before(world, monkeypatch):
    """What is in the world, which is the current folder."""
    monkeypatch.chdir(world)
    before = snapshot(world)
    monkeypatch.delenv("PYTHON", raising=False)
    yield before
    for name in sorted(snapshot(world).keys() - before.keys(), reverse=True):  # one failure is not to cause others
        path = world / name
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def run(words: list[str], capsys) -> tuple[int, str]:
    """Exit status and standard error of a command, as a shell shows them; nothing is printed on standard output."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(words)
    output = capsys.readouterr()
    assert not output.out, output.out
    if isinstance(end.value.code, str):
        return 1, f"{output.err}{end.value.code}\n"
    return end.value.code, output.err


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words)
def test_rejected(case: Case, world, before, capsys):
    if "--onnx" in case.words and not HAS_ONNX:
        pytest.skip("needs onnx")
    status, error = run(shlex.split(case.words), capsys)
    assert status in (1, 2)
    assert len(error.splitlines()) <= 3 and "Traceback" not in error, error
    last = error.splitlines()[-1]
    assert last.startswith("fairseq-linformer") and re.search(case.message, last), error
    after = snapshot(world)
    assert EXECUTED not in after and after == before
