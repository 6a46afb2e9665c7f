"""A folder of ``export --onnx`` is evaluated as the model that it was exported from."""

import json
import re
import shutil

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


from fairseq_linformer.checkpoints.export_onnx import export_onnx
from fairseq_linformer.checkpoints.transformers_tokenizer import find_tokenizer
from fairseq_linformer.evaluation.classifier import OnnxClassifier, TransformersClassifier

from ..checkpoints.onnx_models import build_model, run_card
from ..huggingface.test_tokenizer import complete_dictionary, small_gpt2


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A classifier for transformers, and its ONNX folder."""
    folder = tmp_path_factory.mktemp("onnx")
    files = complete_dictionary(small_gpt2(folder))
    tokenizer, _ = find_tokenizer(files, 16)
    model = build_model(vocab_size=len(tokenizer), max_positions=16, projected_dim=4)
    for saved in (model, tokenizer):
        saved.save_pretrained(folder / "model")
    export_onnx(folder / "model", folder / "onnx")
    return folder / "model", folder / "onnx"


@pytest.mark.slow
def test_same_rows_and_logits(folders):
    theirs, ours = TransformersClassifier(folders[0]), OnnxClassifier(folders[1])
    assert ours.names == theirs.names == ["LABEL_0", "LABEL_1"] and ours.max_positions == theirs.max_positions == 16
    for rows in ([("the cat",), ("the cat sat on the mat " * 9,)], [("a dog", "the cat sat " * 9), ("a", "b")]):
        expected, actual = theirs.encode(rows, truncated=True), ours.encode(rows, truncated=True)
        assert [row["input_ids"] for row in actual] == [row["input_ids"] for row in expected]
        assert max(len(row["input_ids"]) for row in actual) == 16
        assert (ours.logits(actual) - theirs.logits(expected)).abs().max() < 1e-4


@pytest.mark.slow
def test_card_runs_without_torch(folders, tmp_path):
    """The lines of the card, with ``tokenizers`` alone, predict what this package predicts."""
    classifier = OnnxClassifier(folders[1])
    texts = re.findall(r"encode_batch\((.*)\)", (folders[1] / "README.md").read_text())
    (rows,) = ([(text,) for text in json.loads(each)] for each in texts)
    logits = classifier.logits(classifier.encode(rows, truncated=True))
    assert run_card(folders[1], tmp_path) == str([f"LABEL_{i}" for i in logits.argmax(-1).tolist()])


@pytest.mark.slow
def test_bad_folders(folders, tmp_path):
    shutil.copytree(folders[1], tmp_path / "onnx")
    config = json.loads((tmp_path / "onnx/config.json").read_text())
    masked_lm = {**config, "architectures": ["LinformerForMaskedLM"]}
    (tmp_path / "onnx/config.json").write_text(json.dumps(masked_lm))
    with pytest.raises(ValueError, match="onnx must be an exported classifier"):
        OnnxClassifier(tmp_path / "onnx")
    (tmp_path / "onnx/config.json").write_text(json.dumps(config))
    for path in (tmp_path / "onnx").glob("*token*"):
        path.unlink()
    with pytest.raises(ValueError, match="transformers cannot load .*onnx"):  # no tokenizer
        OnnxClassifier(tmp_path / "onnx")
