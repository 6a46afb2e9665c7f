"""Files that a stranger made: no code in them runs, and they neither escape their folder nor fill the memory."""

import pickle
import shutil
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch

from fairseq_linformer.analysis.loading import load_model
from fairseq_linformer.analysis.spectrum import measure_spectrum
from fairseq_linformer.models import LinformerRobertaModel
from fairseq_linformer.models.fairseq_fixes import evaluate_literal, load_weights_only

from .world import EXECUTED, Code


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, in which nothing may be executed."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not (tmp_path / EXECUTED).exists()


def test_the_code_would_run(here):
    """Without protection, so that the other tests mean something."""
    pickle.loads(pickle.dumps(Code()))
    (here / EXECUTED).unlink()


@pytest.mark.parametrize("new_format", [True, False])
def test_code_in_a_checkpoint(new_format, world, here):
    checkpoint = {**torch.load(world / "mlm/model.pt", weights_only=True), "cfg": Code()}
    torch.save(checkpoint, here / "x.pt", _use_new_zipfile_serialization=new_format)
    with pytest.raises(ValueError, match=r"x.pt contains code \((\w+\.)?open\)"):
        load_weights_only(here / "x.pt")


def test_a_checkpoint_larger_than_the_memory_is_not_damaged(world, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 320 bytes.")

    monkeypatch.setattr(torch, "load", fail)
    with pytest.raises(ValueError, match="model.pt does not fit into the memory, or is damaged: .*can't allocate"):
        load_weights_only(world / "mlm/model.pt")


@pytest.mark.parametrize("protocol", (0, 2, 5))
def test_plain_pickles(protocol, here):
    (here / "x.pt").write_bytes(pickle.dumps({"model": Code()}, protocol))
    with pytest.raises(ValueError, match="x.pt contains code|x.pt is truncated, or is not"):
        load_weights_only(here / "x.pt")


@pytest.mark.slow
def test_hub_interface(world, here):
    shutil.copy(world / "bad/code.pt", here / "model.pt")
    with pytest.raises(ValueError, match="model.pt contains code"):
        LinformerRobertaModel.from_pretrained(str(here), "model.pt", str(world / "data"))


def test_numpy_files_with_objects(world, here):
    np.savez(here / "state-0.npz", sums=np.array([Code()], dtype=object), done=1)
    model = load_model(str(world / "mlm/model.pt"))
    with pytest.raises(ValueError, match="allow_pickle"):
        measure_spectrum(model, [], 1, 8, "text.txt", here / "state-0.npz")


EXPRESSIONS = [
    "__import__('pathlib').Path('executed').touch()",
    "open('executed', 'w')",
    "'a' * 10 ** 10",
    "(0.9).__class__",
    "(" * 10_000 + ")" * 10_000,
    "",
]


@pytest.mark.parametrize("text", EXPRESSIONS, ids=range(len(EXPRESSIONS)))
def test_options_that_fairseq_evaluates(text, here):
    with pytest.raises(ValueError, match="must be numbers"):
        evaluate_literal(text)


@pytest.mark.parametrize("module", ["fairseq.optim.adam", "fairseq.options", "fairseq.models.wav2vec.wav2vec2"])
def test_fairseqs_modules_have_no_eval(module):
    """fairseq evaluates options of these, also those in a checkpoint."""
    import sys

    assert sys.modules[module].eval is evaluate_literal


def test_a_compressed_checkpoint_is_rejected_before_it_is_read(here):
    with zipfile.ZipFile(here / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", b"\0" * (1 << 26))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"bomb.pt must not be compressed"):
        load_weights_only(here / "bomb.pt")
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()
    content = bytearray((here / "bomb.pt").read_bytes())
    content[content.rindex(b"PK\x01\x02") + 6] = 99  # a version that zipfile does not know, and PyTorch does not read
    (here / "bomb.pt").write_bytes(content)
    with pytest.raises(ValueError, match=r"bomb.pt is truncated, or is not a file of torch.save"):
        load_weights_only(here / "bomb.pt")
