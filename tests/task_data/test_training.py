"""fairseq reads what was written: the rows as the model sees them, and training on them."""

import logging
import re

import pytest
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from omegaconf import OmegaConf

from fairseq_linformer.cli import main

from .. import stock
from . import files

N = 20


def prepared(name, gpt2_files, tmp_path, capsys):
    """The folder, and the options that the command prints for it."""
    source = files.write_tsv(name, tmp_path / name)
    main(["prepare", name, str(tmp_path / "out"), "--source", str(source), "--gpt2", str(gpt2_files), "--max-positions", str(N)])
    command = capsys.readouterr().out.splitlines()[-1].split()
    assert command[:2] == ["fairseq-train", str(tmp_path / "out")]
    return tmp_path / "out", command[2:]


@pytest.mark.parametrize("name", ["qqp", "sst-2", "sts-b"])
def test_what_the_model_sees(name, gpt2, gpt2_files, tmp_path, capsys):
    folder, _ = prepared(name, gpt2_files, tmp_path, capsys)
    config = OmegaConf.structured(SentencePredictionConfig)
    classes, regression = (1, True) if name == "sts-b" else (2, False)
    for key, value in dict(data=str(folder), num_classes=classes, regression_target=regression, init_token=0, separator_token=2,
                           max_positions=N, no_shuffle=True, seed=1, classification_head_name="x").items():  # fmt: skip
        OmegaConf.update(config, key, value)
    data = SentencePredictionTask.setup_task(config).load_dataset("train")
    pair = name != "sst-2"
    for i, row in enumerate(files.ROWS["train"]):
        texts = [gpt2.encode([text.strip()])[0].tolist() for text in row[: 1 + pair]]
        expected = [0, *texts[0], *([2, *texts[1]] if pair else [])]
        seen = data[i]["net_input.src_tokens"].tolist()
        assert seen[0] == 0 and seen[-1] == 2 and len(seen) == min(len(expected), N)
        if len(expected) <= N:
            assert seen == expected
        if pair:
            assert any(seen[place : place + 2] == [2, 2] for place in range(N))
        assert data[i]["target"] == (pytest.approx([[0.2], [0.76]][row[2]]) if regression else row[2])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qnli", "mnli", "sts-b"])
def test_training(name, gpt2_files, tmp_path, capsys, caplog):
    folder, options = prepared(name, gpt2_files, tmp_path, capsys)
    caplog.set_level(logging.INFO)
    stock.command(
        "train", folder, *options, "--user-dir", stock.PLUGIN, *stock.TINY, "--batch-size", 2, "--optimizer", "adam", "--lr", "0.001",
        "--lr-scheduler", "fixed", "--cpu", "--num-workers", 0, "--max-epoch", 2, "--save-dir", tmp_path / "save", "--log-format", "json",
        *(["--best-checkpoint-metric", "loss"] if name == "sts-b" else ["--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"]),
    )  # fmt: skip
    assert (tmp_path / "save" / "checkpoint_best.pt").exists()
    assert re.search('"valid1_accuracy"' if name == "mnli" else '"valid_loss"', caplog.text)
