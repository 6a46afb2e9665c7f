"""Two processes over gloo, as stock fairseq starts them on CPU, against one process."""

import logging
import multiprocessing
import re
import shutil
from pathlib import Path

import pytest
import torch

from ..fairseq_commands import CLASSIFY, PLUGIN, TINY, TRAIN, command, free_port, last_number, load, train

OPTIONS = "--projection-lr-scale 0.25 --dropout 0 --attention-dropout 0 --curriculum 99 --lr 0.001".split()


def process(rank, port, log, backend, arguments):
    """In a copy of this process, which has imported all that takes time."""
    torch.set_num_threads(1)
    logging.basicConfig(filename=log, level=logging.INFO, force=True)
    group = ["--distributed-backend", "gloo", "--ddp-backend", backend, "--distributed-no-spawn"]
    group += ["--distributed-init-method", f"tcp://127.0.0.1:{port}", "--distributed-world-size", 2]
    command("train", *arguments, *group, "--distributed-rank", rank)


def run(data, save_dir, *options, updates, backend="legacy_ddp", words=(*TRAIN, *TINY, *OPTIONS)):
    """Two processes, to the end. Returns the log of each."""
    port = free_port()
    arguments = [data, "--user-dir", PLUGIN, *words, *options]
    arguments += ["--save-dir", save_dir, "--max-update", updates, "--data-buffer-size", 0]
    logs = [save_dir.with_name(f"{save_dir.name}-{updates}-{rank}.log") for rank in (0, 1)]
    ranks = [
        multiprocessing.get_context("fork").Process(target=process, args=(rank, port, log, backend, arguments))
        for rank, log in enumerate(logs)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(300)
    said = [log.read_text() for log in logs]
    assert [rank.exitcode for rank in ranks] == [0, 0], "\n".join(text[-3000:] for text in said)
    # fairseq ends with status 0 where nothing was distributed, too.
    assert all(re.search(f"initialized host .* as rank {i}", text) for i, text in enumerate(said)), said
    return said


@pytest.mark.slow
def test_two_processes_equal_one_with_twice_the_batch(mlm_data, tmp_path):
    # One process first: what it imports is there in its copies.
    train(mlm_data, tmp_path / "one", *OPTIONS, "--sharing", "layerwise", "--batch-size", 8, updates=5)
    # Stopped and resumed on the way: the first process sends its checkpoint to the second.
    for updates in (3, 5):
        run(mlm_data, tmp_path / "two", "--sharing", "layerwise", "--batch-size", 4, updates=updates)

    two, one = load(tmp_path / "two")["model"], load(tmp_path / "one")["model"]
    for key in one:
        torch.testing.assert_close(two[key], one[key], rtol=0, atol=1e-5, msg=lambda m: f"{key}: {m}")
    assert max(one[key].abs().max() for key in one if key.endswith("E.delta")) > 1e-4  # it starts as zero


@pytest.mark.slow
def test_another_number_of_processes_goes_on_where_the_first_were(mlm_data, tmp_path):
    """In the middle of an epoch, which fairseq counts in batches of each process."""
    run(mlm_data, tmp_path / "run", "--batch-size", 4, updates=3)
    train(mlm_data, tmp_path / "run", *OPTIONS, "--batch-size", 4, "--update-freq", 2, updates=6)
    run(mlm_data, tmp_path / "run", "--batch-size", 4, updates=9)

    train(mlm_data, tmp_path / "whole", *OPTIONS, "--batch-size", 4, "--update-freq", 2, updates=9)
    resumed, whole = load(tmp_path / "run"), load(tmp_path / "whole")
    assert whole["extra_state"]["train_iterator"]["epoch"] == 1
    for key in whole["model"]:
        torch.testing.assert_close(
            resumed["model"][key], whole["model"][key], rtol=0, atol=1e-5, msg=lambda m: f"{key}: {m}"
        )


@pytest.mark.slow
def test_two_processes_validate_a_regression(class_data, tmp_path):
    """Their predictions are joined, not added."""
    data = Path(shutil.copytree(class_data, tmp_path / "data"))
    for split, count in (("train", 120), ("valid", 40)):
        (data / f"label/{split}.label").write_text("".join(f"{i % 7}\n" for i in range(count)))
    words = [*CLASSIFY, *TINY, "--num-classes", 1, "--regression-target", "--report-pearson-and-spearman"]
    words += ["--log-format", "json", "--shorten-method", "truncate"]
    said, _ = run(data, tmp_path / "run", updates=2, words=words)
    assert -100 <= last_number(said, "valid_pearson") <= 100
