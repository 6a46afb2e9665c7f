"""fairseq with the plugin: training, resuming, validation and finetuning, with flags and YAML."""

import logging

import pytest

from ..fairseq_commands import CLASSIFY, PLUGIN, TINY, command, last_number, load, same_bits, train

pytestmark = pytest.mark.slow


# 30 updates of TINY with layerwise sharing at seed 7, every fifth, in bits. A change here is
# a change of the model, its start, the order of random numbers, or of what fairseq does.
GOLDEN = [5.5235, 5.7889, 5.4181, 5.4119, 5.138, 5.2049]


def test_loss_curve_is_reproduced(mlm_data, tmp_path):
    options = "--sharing layerwise --projection-lr-scale 0.0625 --lr 0.03 --no-save"
    losses = train(mlm_data, tmp_path, *options.split(), updates=30)
    assert losses[::5] == pytest.approx(GOLDEN, abs=2e-3)


@pytest.mark.parametrize("sharing, workers, stops", [("none", 0, [4]), ("key-value", 2, [7, 9])])
def test_resuming_is_bit_identical(mlm_data, tmp_path, sharing, workers, stops):
    """Stopped in the middle of an epoch of 7 updates, at its end, and in the next one, with dropout."""
    options = ["--sharing", sharing, "--projection-lr-scale", "0.25", "--batch-size", "32", "--num-workers", workers]
    train(mlm_data, tmp_path / "whole", *options, updates=10)
    assert load(tmp_path / "whole")["extra_state"]["train_iterator"]["epoch"] == 2
    for stop in stops:
        train(mlm_data, tmp_path / f"{stop}", *options, updates=stop)
        train(mlm_data, tmp_path / f"{stop}", *options, updates=10)
        assert same_bits(tmp_path / f"{stop}", tmp_path / "whole")


def test_finetuning_of_pretrained_weights_beats_the_majority(mlm_data, class_data, tmp_path, caplog):
    train(mlm_data, tmp_path / "pretrained", updates=3)
    options = "--log-format json --dropout 0 --attention-dropout 0 --no-epoch-checkpoints "
    options += "--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric"
    finetune = ["train", class_data, "--user-dir", PLUGIN, *TINY, *CLASSIFY, *options.split()]
    finetune += ["--finetune-from-model", tmp_path / "pretrained" / "checkpoint_last.pt"]
    with caplog.at_level(logging.INFO):
        command(*finetune, "--save-dir", tmp_path / "finetuned", "--lr", 0.005, "--max-epoch", 15)
    assert last_number(caplog.text, "valid_best_accuracy") >= 90  # half of the sentences have odd words
