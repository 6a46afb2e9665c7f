"""A folder of ``export --onnx`` is evaluated as the model that it was exported from."""

import json
import re

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


from fairseq_linformer.checkpoints.onnx_export import to_onnx
from fairseq_linformer.checkpoints.transformers_tokenizer import find_tokenizer
from fairseq_linformer.cli import main
from fairseq_linformer.evaluation.onnx_classifier import OnnxClassifier
from fairseq_linformer.evaluation.transformers_classifier import TransformersClassifier

from ..checkpoints.onnx_models import build_masked_lm, build_model, run_card
from ..huggingface.test_tokenizer import complete_dictionary, small_gpt2


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A classifier for transformers, and its ONNX folder."""
    folder = tmp_path_factory.mktemp("onnx")
    files = complete_dictionary(small_gpt2(folder))
    tokenizer, _ = find_tokenizer(files / "model.pt", 16)
    model = build_model(vocab_size=len(tokenizer), max_positions=16, projected_dim=4)
    for saved in (model, tokenizer):
        saved.save_pretrained(folder / "model")
    to_onnx(folder / "model", folder / "onnx")
    return folder / "model", folder / "onnx"


@pytest.mark.slow
def test_same_rows_and_logits(folders):
    theirs, ours = TransformersClassifier(folders[0]), OnnxClassifier(folders[1])
    assert ours.names == theirs.names == ["LABEL_0", "LABEL_1"] and ours.max_positions == theirs.max_positions == 16
    for rows in ([("the cat",), ("the cat sat on the mat " * 9,)], [("a dog", "the cat sat " * 9), ("a", "b")]):
        expected, actual = theirs.encode(rows), ours.encode(rows)
        assert [row["input_ids"] for row in actual] == [row["input_ids"] for row in expected]
        assert (ours.logits(actual) - theirs.logits(expected)).abs().max() < 1e-4


@pytest.mark.slow
def test_card_runs_without_torch(folders, tmp_path):
    """The lines of the card, with ``tokenizers`` alone, predict what this package predicts."""
    classifier = OnnxClassifier(folders[1])
    texts = re.findall(r"encode_batch\((.*)\)", (folders[1] / "README.md").read_text())
    (rows,) = ([(text,) for text in json.loads(each)] for each in texts)
    logits = classifier.logits(classifier.encode(rows))
    assert run_card(folders[1], tmp_path) == str([f"LABEL_{i}" for i in logits.argmax(-1).tolist()])


def test_command(folders, tmp_path, capsys):
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in ("the cat", "a dog ran"))
    )
    for folder in folders:
        main(
            [
                "evaluate",
                str(folder),
                str(tmp_path / "rows.jsonl"),
                "--predictions",
                str(tmp_path / f"{folder.name}.tsv"),
            ]
        )
    assert "2 rows" in capsys.readouterr().out
    ours, theirs = ((tmp_path / f"{folder.name}.tsv").read_text().splitlines() for folder in folders)
    assert [line.split("\t")[0] for line in ours] == [line.split("\t")[0] for line in theirs] and len(ours) == 3


@pytest.mark.parametrize(
    "options, named",
    [
        (["--head", "x"], "--head does not apply to the ONNX folder"),
        (["--max-positions", "8"], "--max-positions does not apply"),
        (["--device", "cuda"], "--device must be cpu"),
    ],
)
def test_options_that_do_not_apply(options, named, folders, tmp_path, capsys):
    (tmp_path / "rows.txt").write_text("the cat\n")
    with pytest.raises(SystemExit, match=named):
        main(["evaluate", str(folders[1]), str(tmp_path / "rows.txt"), *options])


@pytest.mark.slow
def test_bad_folders(folders, tmp_path):
    build_masked_lm().save_pretrained(tmp_path / "model")
    to_onnx(tmp_path / "model", tmp_path / "onnx")
    with pytest.raises(ValueError, match="onnx has no classification head"):
        OnnxClassifier(tmp_path / "onnx")
    config = json.loads((tmp_path / "onnx" / "config.json").read_text())
    config["architectures"] = ["LinformerForSequenceClassification"]
    (tmp_path / "onnx" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"onnx has no tokenizer\.json"):
        OnnxClassifier(tmp_path / "onnx")
    config["onnx"]["max_positions"] = 4
    (tmp_path / "onnx" / "config.json").write_text(json.dumps(config))
    (tmp_path / "onnx" / "tokenizer.json").write_bytes((folders[1] / "tokenizer.json").read_bytes())
    with pytest.raises(ValueError, match="onnx must have at least 5 positions, got 4"):
        OnnxClassifier(tmp_path / "onnx")
    config["onnx"]["max_positions"] = 16
    (tmp_path / "onnx" / "config.json").write_text(json.dumps(config))
    (tmp_path / "onnx" / "tokenizer.json").write_text('{"model": ')
    with pytest.raises(ValueError, match=r"tokenizers cannot load .*tokenizer\.json"):
        OnnxClassifier(tmp_path / "onnx")
    del config["id2label"]
    (tmp_path / "onnx" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        OnnxClassifier(tmp_path / "onnx")
    (tmp_path / "onnx" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="config.json has no 'onnx'"):
        OnnxClassifier(tmp_path / "onnx")
