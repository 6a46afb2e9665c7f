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


def test_model_input_equals_the_rows(bpe, gpt2, tmp_path, capsys):
    folder, _ = prepare("sts-b", gpt2, tmp_path, capsys)
    options = {"data": str(folder), "no_shuffle": True, "seed": 1, "classification_head_name": "x", "num_classes": 1}
    options |= {"regression_target": True, "init_token": 0, "separator_token": 2, "max_positions": N}
    task = SentencePredictionTask.setup_task(OmegaConf.structured(SentencePredictionConfig(**options)))
    data = task.load_dataset("train")
    for i, (*texts, score) in enumerate(files.ROWS["train"]):
        first, second = (bpe.encode([text.strip()])[0].tolist() for text in texts)
        expected, tokens = [0, *first, 2, *second], data[i]["net_input.src_tokens"].tolist()
        assert tokens[0] == 0 and tokens[-1] == 2 and len(tokens) == min(len(expected), N)
        assert tokens == expected or len(expected) > N
        assert any(tokens[position : position + 2] == [2, 2] for position in range(N))
        assert data[i]["target"] == pytest.approx([[0.2], [0.76]][score])


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
