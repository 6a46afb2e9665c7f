"""fairseq reads prepared data: model inputs equal the rows, and training runs."""

import logging
import re

import pytest
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from omegaconf import OmegaConf

from fairseq_linformer.cli import main

from .. import fairseq_commands
from . import task_files as files

N = 20


def prepare(name, gpt2, tmp_path, capsys):
    """Run ``prepare``; the folder, and the printed options for ``fairseq-train``."""
    source, out = files.write_tsv(name, tmp_path / name), str(tmp_path / "out")
    main(["prepare", name, out, "--source", str(source), "--tokenizer", str(gpt2), "--max-positions", str(N)])
    command = capsys.readouterr().out.splitlines()[-1].split()
    assert command[:2] == ["fairseq-train", out]
    return tmp_path / "out", command[2:]


@pytest.mark.parametrize("name", ["qqp", "sst-2", "sts-b"])
def test_model_input_equals_the_rows(name, bpe, gpt2, tmp_path, capsys):
    folder, _ = prepare(name, gpt2, tmp_path, capsys)
    classes = {"num_classes": 1 if name == "sts-b" else 2, "regression_target": name == "sts-b"}
    tokens = {"init_token": 0, "separator_token": 2, "max_positions": N}
    options = {"data": str(folder), "no_shuffle": True, "seed": 1, "classification_head_name": "x"}
    config = OmegaConf.structured(SentencePredictionConfig(**classes, **tokens, **options))
    data = SentencePredictionTask.setup_task(config).load_dataset("train")
    pair = name != "sst-2"
    for i, row in enumerate(files.ROWS["train"]):
        texts = [bpe.encode([text.strip()])[0].tolist() for text in row[: 1 + pair]]
        expected = [0, *texts[0], *([2, *texts[1]] if pair else [])]
        tokens = data[i]["net_input.src_tokens"].tolist()
        assert tokens[0] == 0 and tokens[-1] == 2 and len(tokens) == min(len(expected), N)
        if len(expected) <= N:
            assert tokens == expected
        if pair:
            assert any(tokens[position : position + 2] == [2, 2] for position in range(N))
        assert data[i]["target"] == (pytest.approx([[0.2], [0.76]][row[2]]) if name == "sts-b" else row[2])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnli", "sts-b"])
def test_fairseq_trains_on_the_output(name, gpt2, tmp_path, capsys, caplog):
    folder, options = prepare(name, gpt2, tmp_path, capsys)
    caplog.set_level(logging.INFO)
    words = "--batch-size 2 --optimizer adam --lr 0.001 --lr-scheduler fixed --cpu --num-workers 0 --max-epoch 2"
    metric = "loss" if name == "sts-b" else "accuracy --maximize-best-checkpoint-metric"
    words += f" --save-dir {tmp_path / 'save'} --log-format json --best-checkpoint-metric {metric}"
    plugin = ("--user-dir", fairseq_commands.PLUGIN)
    fairseq_commands.command("train", folder, *options, *plugin, *fairseq_commands.TINY, *words.split())
    assert (tmp_path / "save" / "checkpoint_best.pt").exists()
    assert re.search('"valid1_accuracy"' if name == "mnli" else '"valid_loss"', caplog.text)
