"""What a command's CHECKPOINT is; which kinds each command takes is in ``bad_input/cases.py``."""

import json

import pytest

from fairseq_linformer.checkpoints.identify import Kind, identify


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def test_a_run_folder_means_its_scored_else_best_else_last_checkpoint(tmp_path):
    checkpoints = tmp_path / "checkpoints"
    for name in ("checkpoint_last.pt", "checkpoint_best.pt"):
        touch(checkpoints, name)
        expected = (Kind.FAIRSEQ, str(checkpoints / name))
        assert identify(tmp_path) == identify(checkpoints) == identify(checkpoints / name) == expected
    (tmp_path / "result.json").write_text(json.dumps({"checkpoint": "checkpoints/checkpoint_last.pt"}))
    assert identify(tmp_path) == (Kind.FAIRSEQ, str(checkpoints / "checkpoint_last.pt"))
    (tmp_path / "result.json").write_text('{"checkpoint": ')
    with pytest.raises(ValueError, match="result.json is not JSON"):
        identify(tmp_path)


def test_a_folder_that_convert_wrote_means_its_model(tmp_path):
    touch(tmp_path, "model.pt", "dict.txt", "tokenizer.json")
    assert identify(tmp_path) == (Kind.FAIRSEQ, str(tmp_path / "model.pt"))


@pytest.mark.parametrize(
    "files, kind",
    [
        (["model.safetensors"], Kind.TRANSFORMERS),
        (["onnx/model.onnx"], Kind.ONNX),
        (["onnx/model_quantized.onnx"], Kind.ONNX),
        (["onnx/model.onnx", "model.safetensors"], Kind.TRANSFORMERS),
        (["onnx/model.onnx", "model-00001-of-00002.safetensors"], Kind.TRANSFORMERS),
    ],
)
def test_a_graph_with_weights_is_a_model_of_transformers(files, kind, tmp_path):
    assert identify(touch(tmp_path, "config.json", *files)) == (kind, str(tmp_path))


def test_names_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("bert-base-uncased", "google-bert/bert-base-uncased"):
        assert identify(name) == (Kind.TRANSFORMERS, name)
    (tmp_path / "runs").mkdir()
    for name in ("runs/nowhere", "./nowhere", "a/b/c", str(tmp_path / "nowhere")):
        with pytest.raises(ValueError, match="is not a folder, nor a name on the hub"):
            identify(name)
