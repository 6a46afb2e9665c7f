"""Files that a stranger made: no code in them runs, and they neither escape their folder nor fill the memory."""

import pickle
import shutil
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from fairseq.optim import build_optimizer
from omegaconf import OmegaConf

from fairseq_linformer.analysis.spectrum_result import read_spectrum
from fairseq_linformer.cli import main
from fairseq_linformer.evaluation.encoded_rows import open_dataset
from fairseq_linformer.models import LinformerRobertaModel
from fairseq_linformer.models.fairseq_fixes import evaluate_literal, load_weights_only

from .cases import CASES
from .world import EXECUTED, Code

LOADING = ("finetune", "evaluate", "convert", "export", "linearize", "analyze spectrum")


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


@pytest.mark.parametrize("command", LOADING)
def test_every_command_that_loads_a_checkpoint_is_tried_with_code(command):
    assert any(case.command == command and "contains code" in case.message for case in CASES)


PLACES = {
    "model": lambda checkpoint, code: checkpoint["model"].update(x=code),
    "a weight": lambda checkpoint, code: checkpoint["model"].update({next(iter(checkpoint["model"])): code}),
    "cfg": lambda checkpoint, code: checkpoint.update(cfg=code),
    "an option": lambda checkpoint, code: checkpoint["cfg"]["model"].update(projected_dim=code),
    "args": lambda checkpoint, code: checkpoint.update(args=code),
    "optimizer": lambda checkpoint, code: checkpoint.update(last_optimizer_state={"state": [code]}),
    "extra_state": lambda checkpoint, code: checkpoint["extra_state"].update(metrics=code),
    "provenance": lambda checkpoint, code: checkpoint.update(provenance={"imported": code}),
}


@pytest.mark.parametrize("new_format", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_code_anywhere_in_a_checkpoint(place, new_format, world, here):
    checkpoint = torch.load(world / "mlm/model.pt", weights_only=True)
    PLACES[place](checkpoint, Code())
    torch.save(checkpoint, here / "x.pt", _use_new_zipfile_serialization=new_format)
    with pytest.raises(ValueError, match=r"x.pt contains code \((\w+\.)?open\)"):
        load_weights_only(here / "x.pt")


@pytest.mark.parametrize("protocol", range(6))
def test_plain_pickles(protocol, here):
    (here / "x.pt").write_bytes(pickle.dumps({"model": Code()}, protocol))
    with pytest.raises(ValueError, match="x.pt contains code|x.pt is truncated, or is not"):
        load_weights_only(here / "x.pt")


@pytest.mark.slow
def test_hub_interface(world, here):
    shutil.copy(world / "bad/code.pt", here / "model.pt")
    with pytest.raises(ValueError, match="model.pt contains code"):
        LinformerRobertaModel.from_pretrained(str(here), "model.pt", str(world / "data"))


@pytest.mark.parametrize("name", ["spectrum.npz", "state.npz"])
def test_numpy_files_with_objects(name, world, here):
    (here / "out").mkdir()
    np.savez(here / "out" / name, array=np.array([Code()], dtype=object))
    if name == "spectrum.npz":
        (here / "out/spectrum.json").write_text("{}")
        with pytest.raises(ValueError, match="spectrum"):
            read_spectrum(here / "out")
        return
    with pytest.raises(SystemExit, match="state.npz"):
        words = ["spectrum", str(world / "mlm/model.pt"), "--source", str(world / "text.txt"), "--out", "out"]
        main(["analyze", *words, "--num-sentences", "1"])


EXPRESSIONS = [
    "__import__('pathlib').Path('executed').touch()",
    "open('executed', 'w')",
    "[open('executed', 'w') for _ in (1,)]",
    "(lambda: open('executed', 'w'))()",
    "'a' * 10 ** 10",
    "[0] * 100000 * 100000",
    "(0.9).__class__",
    'f\'{open("executed", "w")}\'',
    "(" * 10_000 + ")" * 10_000,
    "",
]


@pytest.mark.parametrize("text", EXPRESSIONS, ids=range(len(EXPRESSIONS)))
def test_options_that_fairseq_evaluates(text, here):
    with pytest.raises(ValueError, match="must be numbers"):
        evaluate_literal(text)
    with pytest.raises(ValueError, match="must be numbers"):
        cfg = OmegaConf.create({"_name": "adam", "adam_betas": text, "lr": [0.1], "tpu": False})
        build_optimizer(cfg, [torch.nn.Parameter(torch.zeros(1))])


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


HOSTILE_INDICES = {
    "length": lambda index: index[:18] + (1 << 62).to_bytes(8, "little") + index[26:],
    "type": lambda index: index[:17] + b"\xff" + index[18:],
    "version": lambda index: index[:9] + b"\xff" * 8 + index[17:],
}


@pytest.mark.parametrize("name", HOSTILE_INDICES)
def test_indices_of_data(name, world, here):
    for suffix in ("idx", "bin"):
        shutil.copy(world / f"data/valid.{suffix}", here)
    index = (here / "valid.idx").read_bytes()
    (here / "valid.idx").write_bytes(HOSTILE_INDICES[name](index))
    with pytest.raises((ValueError, AssertionError)):
        open_dataset(here / "valid")


def test_hostile_names_are_only_names(world, here, capsys):
    """Of a checkpoint's folder, a file of rows and the predictions."""
    hostile = "-x; $(touch executed) `touch executed` 'é\"\n.."
    shutil.copytree(world / "cls", here / hostile)
    shutil.copy(world / "rows.tsv", here / f"{hostile}.tsv")
    words = [f"./{hostile}/model.pt", f"./{hostile}.tsv", "--predictions", f"./{hostile}-out.tsv", "--device", "cpu"]
    main(["evaluate", *words])
    assert "accuracy" in capsys.readouterr().out and (here / f"{hostile}-out.tsv").read_text()
