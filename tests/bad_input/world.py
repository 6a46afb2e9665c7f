"""A folder with one good file of every kind, and damaged, foreign and hostile ones, which the cases name."""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch

from ..checkpoints.encoders import save_encoder

EXECUTED = "executed"
"""File that hostile code would create in the world."""


class Code:
    """What a pickle runs when it is loaded."""

    def __reduce__(self):
        return open, (EXECUTED, "w")


@pytest.fixture(scope="session")
def world(masked_lm, classifier, pieces, glue, masked_lm_folder, classifier_folder, tmp_path_factory):
    """The folder; every test leaves it as it is.

    Good: ``mlm/model.pt``, ``cls/model.pt``, ``rob/model.pt`` (RoBERTa), ``hf`` and ``hf-cls`` (exported), ``bert``
    (transformers), ``data`` (for both tasks), ``glue`` (SST-2), ``text.txt``, ``rows.tsv``, ``spm.model``, ``results``.
    """
    world = tmp_path_factory.mktemp("world")
    for name, source in (("mlm", masked_lm), ("cls", classifier)):
        (world / name).mkdir()
        shutil.copy(source / "checkpoint_last.pt", world / name / "model.pt")
        for file in ("dict.txt", "sentencepiece.bpe.model"):
            shutil.copy(pieces / file, world / name)
    shutil.copytree(pieces / "label", world / "cls/label")
    shutil.copytree(pieces, world / "data")
    shutil.copytree(glue, world / "glue")
    shutil.copytree(masked_lm_folder, world / "hf")
    shutil.copytree(classifier_folder, world / "hf-cls")
    shutil.copy(pieces / "sentencepiece.bpe.model", world / "spm.model")
    shutil.copy(pieces / "text.txt", world)
    (world / "rows.tsv").write_text("sentence\tlabel\nthe cat sat\tanimal: cat\na dog ran\tdog\n")
    (world / "results").mkdir()
    save_encoder(world / "bert", "bert", True)
    _write_roberta(world)
    _write_damaged(world, world / "bad")
    return world


def _write_roberta(world: Path) -> None:
    from fairseq_linformer.checkpoints.convert import convert

    convert(str(world / "bert"), world / "rob", arch="roberta")


def _write_damaged(world: Path, bad: Path) -> None:
    bad.mkdir()
    checkpoint = torch.load(world / "mlm/model.pt", weights_only=True)
    whole = (world / "mlm/model.pt").read_bytes()
    (bad / "half.pt").write_bytes(whole[: len(whole) // 2])
    (bad / "text.pt").write_text("a text")
    torch.save([1, 2], bad / "list.pt")
    torch.save({"model": checkpoint["model"]}, bad / "no-cfg.pt")
    torch.save({**checkpoint, "extra_state": Code()}, bad / "code.pt")
    task = {**checkpoint["cfg"]["task"], "data": "${oc.env:HOME}"}
    torch.save({**checkpoint, "cfg": {**checkpoint["cfg"], "task": task}}, bad / "environment.pt")
    (bad / "dict.txt").write_text("a 1\nb 1\n")
    (bad / "latin1.txt").write_bytes(b"caf\xe9 1\n" * 24)
    (bad / "empty.txt").write_text("")
    (bad / "empty.csv").write_text("text,label\n")
    (bad / "folder").mkdir()
    (bad / "full").mkdir()
    (bad / "full/thesis.tex").write_text("mine")
    (bad / "wrong.tsv").write_text("sentence\tlabel\na cat\tbird\n")
    (bad / "deep.jsonl").write_text("[" * 100_000 + "\n")
    (bad / "list.jsonl").write_text("[1, 2]\n")
    (bad / "config.yaml").write_text("model: [1, 2\n")
    (bad / "class.yaml").write_text("model: !!python/object/apply:os.system ['touch executed']\n")
    (bad / "names.yaml").write_text("modle:\n  _name: linformer_roberta\n")
    (bad / "grid/lr1e-05-batch32-seed1/checkpoints").mkdir(parents=True)
    shutil.copy(world / "cls/model.pt", bad / "grid/lr1e-05-batch32-seed1/checkpoints/checkpoint_last.pt")
    _write_data(world, bad)
    _write_transformers(world, bad)
    (bad / "a:b").mkdir()


def _write_data(world: Path, bad: Path) -> None:
    for name in ("no-dict", "no-train", "swapped"):
        shutil.copytree(world / "data", bad / name)
    first, second, *others = (world / "data/dict.txt").read_text().splitlines(keepends=True)
    (bad / "swapped/dict.txt").write_text("".join([second, first, *others]))
    (bad / "bare").mkdir()
    alone = torch.load(world / "mlm/model.pt", weights_only=True)
    alone["cfg"]["task"]["data"] = "nowhere"
    torch.save(alone, bad / "bare/model.pt")
    (bad / "no-dict/dict.txt").unlink()
    (bad / "no-train/train.idx").unlink()


def _write_transformers(world: Path, bad: Path) -> None:
    for name in ("hf-pickle", "hf-shards"):
        shutil.copytree(world / "hf-cls", bad / name)
    (bad / "hf-pickle/model.safetensors").unlink()
    (bad / "hf-pickle/pytorch_model.bin").write_bytes(pickle.dumps({"weight": Code()}))
    config = json.loads((world / "hf-cls/config.json").read_text())
    for name, changed in (
        ("hf-code", {"model_type": "unknown-type"}),
        ("hf-attention", {"attn_implementation": "some/kernel"}),
        ("hf-weights", {"transformers_weights": "other.safetensors.index.json"}),
        ("hf-adapter", {}),
        ("hf-quantized", {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}),
    ):
        shutil.copytree(world / "hf-cls", bad / name)
        (bad / name / "config.json").write_text(json.dumps({**config, **changed}))
        for path in (bad / name).glob("*.py"):
            path.write_text(f"open({EXECUTED!r}, 'w')\n")
    (bad / "hf-adapter/adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "elsewhere"}))
    (bad / "onnx/onnx").mkdir(parents=True)
    for name in ("config.json", "onnx/model.onnx"):
        (bad / "onnx" / name).touch()
    (bad / "bert-deep").mkdir()
    (bad / "bert-deep/config.json").write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 10**7}))
    (bad / "hf-shards/model.safetensors").rename(bad / "outside.safetensors")
    index = {"metadata": {}, "weight_map": {"x": "../outside.safetensors"}}
    (bad / "hf-shards/model.safetensors.index.json").write_text(json.dumps(index))


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Everything in a folder; size and time of the last change of its files."""
    found = {}
    for parent, folders, files in os.walk(folder):  # hundreds of tests do this; Path.rglob takes twice as long
        for name in folders:
            found[os.path.relpath(os.path.join(parent, name), folder)] = (0, 0)
        for name in files:
            path = os.path.join(parent, name)
            stat = os.lstat(path)
            found[os.path.relpath(path, folder)] = (stat.st_size, stat.st_mtime_ns)
    return found
