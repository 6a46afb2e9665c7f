"""The error for non-finite gradients, and the log of a skipped update, name the update and its data."""

import logging
import random
import re
from functools import partial
from types import SimpleNamespace

import fairseq_cli.train
import pytest
import torch
from fairseq.criterions.masked_lm import MaskedLmLoss

from fairseq_linformer.models import fairseq_fixes, non_finite

from ..fairseq_commands import load, train
from ..fault_seeds import SEEDS

NAN, INF = float("nan"), float("inf")


def random_moments(last):
    """A moment from 1 to ``last`` and a value for each seed."""
    generators = map(random.Random, SEEDS)
    return [(choose.randint(1, last), choose.choice((NAN, INF, -INF))) for choose in generators]


@pytest.fixture
def spoil(monkeypatch):
    """Make the loss of some micro-batches non-finite; returns the sample IDs of all micro-batches."""
    read, forward = [], MaskedLmLoss.forward

    def spoil(value, micro_batches):
        def spoiled(criterion, model, sample, reduce=True):
            if criterion.training:
                read.append(sample["id"].tolist())
            loss, size, output = forward(criterion, model, sample, reduce)
            return (loss * value if len(read) in micro_batches else loss), size, output

        monkeypatch.setattr(MaskedLmLoss, "forward", spoiled)
        return read

    return spoil


@pytest.mark.slow
@pytest.mark.parametrize("bad, value", [(3, NAN), (10, INF), *random_moments(15)])
def test_error_names_update_epoch_iterations_and_samples(bad, value, spoil, mlm_data, tmp_path):
    """It ends fairseq-train without a traceback. An update has two micro-batches, and the last of an epoch one."""
    epoch, i = (bad - 1) // 5 + 1, (bad - 1) % 5 + 1
    first = i - (i % 2 == 0)
    update = 3 * (epoch - 1) + (first + 1) // 2
    read = spoil(value, [bad])
    with pytest.raises(SystemExit) as end:
        options = ["--batch-size", 48, "--update-freq", 2, "--max-epoch", 3, "--no-epoch-checkpoints"]
        train(mlm_data, tmp_path, *options, updates=50)
    data = f"epoch {epoch}, iterations {first} to {min(first + 1, 5)}: "
    problem = f"non-finite loss in {i} (samples {', '.join(map(str, read[bad - 1]))})"
    assert end.value.code == f"fairseq-train: update {update}: gradients are Nan/Inf; {data}{problem}"
    if epoch > 1:  # nothing of the rejected update is in it
        assert load(tmp_path)["optimizer_history"][-1]["num_updates"] == 3 * (epoch - 1)


@pytest.mark.slow
def test_log_names_each_update_that_fp16_skips(spoil, mlm_data, tmp_path, monkeypatch, caplog):
    # All that fairseq needs of a GPU. A CPU has no index.
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    monkeypatch.setattr(fairseq_fixes, "check_half_precision", lambda common: None)
    read = spoil(float("inf"), [2, 4, 5])
    options = ["--fp16", "--fp16-init-scale", 4, "--fp16-scale-tolerance", 0, "--min-loss-scale", 0.5]
    with caplog.at_level(logging.WARNING), pytest.raises(SystemExit) as end:
        train(mlm_data, tmp_path, *options, "--no-save", updates=9)
    skipped = [record.getMessage() for record in caplog.records if record.name == non_finite.__name__]
    expected = [(2, 2), (3, 4)]
    assert skipped == [
        f"update {update} is skipped; epoch 1, iterations {i} to {i}: non-finite loss in {i} "
        f"(samples {', '.join(map(str, read[i - 1]))})"
        for update, i in expected
    ]
    assert re.match(r"fairseq-train: update 3: Minimum loss scale reached .*iterations 5 to 5", end.value.code)


def losses_in_validation(monkeypatch, spoil):
    """Replace losses of validation; ``spoil`` takes the number of the validation batch, from 1."""
    forward, ids = MaskedLmLoss.forward, []

    def spoiled(criterion, model, sample, reduce=True):
        loss, size, output = forward(criterion, model, sample, reduce)
        if criterion.training:
            return loss, size, output
        ids.append(sample["id"].tolist())
        loss, size = spoil(len(ids), loss, size)
        return loss, size, {**output, "loss": loss, "sample_size": size}

    monkeypatch.setattr(MaskedLmLoss, "forward", spoiled)
    return ids


VALIDATE = ["--validate-interval-updates", 1, "--save-interval-updates", 1, "--batch-size-valid", 8]
BATCHES = 2  # of each validation


def validated(mlm_data, folder, caplog, updates, *options):
    """Train with a validation after each update; returns the warnings and the update of the best checkpoint."""
    with caplog.at_level(logging.WARNING):
        train(mlm_data, folder, *VALIDATE, *options, updates=updates, validation=True)
    warned = [record.getMessage() for record in caplog.records if record.name == non_finite.__name__]
    best = folder / "checkpoint_best.pt"
    return warned, load(folder, best.name)["optimizer_history"][-1]["num_updates"] if best.exists() else None


@pytest.mark.slow
@pytest.mark.parametrize("update, value", [(1, NAN), (2, -INF), *random_moments(3)])
def test_warning_names_update_subset_and_samples(update, value, mlm_data, tmp_path, monkeypatch, caplog):
    """Neither the validation with the non-finite loss nor a worse one after it replaces the best checkpoint."""

    def spoil(number, loss, size):
        validation, batch = divmod(number - 1, BATCHES)
        bad = validation == update - 1 and batch >= 1
        return loss * 0 + (value if bad else 1 + validation) * size, size

    ids = losses_in_validation(monkeypatch, spoil)
    warned, best = validated(mlm_data, tmp_path, caplog, 3)
    assert len(ids) == 3 * BATCHES
    samples = ", ".join(map(str, ids[(update - 1) * BATCHES + 1]))
    assert warned == [
        f"update {update}: non-finite validation loss in valid (samples {samples}); no best checkpoint is chosen"
    ]
    assert best == (2 if update == 1 else 1)


@pytest.mark.slow
def test_finite_metric_of_a_non_finite_loss_selects_no_best_checkpoint(mlm_data, tmp_path, monkeypatch, caplog):
    losses_in_validation(
        monkeypatch, lambda number, loss, size: (loss * float("nan") if number > BATCHES else loss, size)
    )
    metric = ["--best-checkpoint-metric", "num_updates", "--maximize-best-checkpoint-metric"]
    warned, best = validated(mlm_data, tmp_path, caplog, 2, *metric)
    assert len(warned) == 1 and best == 1


@pytest.mark.slow
def test_patience_ignores_a_first_non_finite_loss(mlm_data, tmp_path, monkeypatch, caplog):
    """Each later validation is better than the one before, except the last two."""
    loss_of = [float("nan"), float("inf"), 5, 4, 3, float("nan"), 4, 1]
    losses_in_validation(
        monkeypatch, lambda number, loss, size: (loss * 0 + loss_of[(number - 1) // BATCHES] * size, size)
    )
    monkeypatch.setattr(fairseq_cli.train, "should_stop_early", partial(fairseq_cli.train.should_stop_early))
    _, best = validated(mlm_data, tmp_path, caplog, len(loss_of), "--patience", 2)
    assert best == 5 and load(tmp_path)["optimizer_history"][-1]["num_updates"] == 7


@pytest.mark.slow
def test_batch_without_masked_tokens_is_no_fault(mlm_data, tmp_path, monkeypatch, caplog):
    losses_in_validation(monkeypatch, lambda number, loss, size: (loss * 0, size * 0) if number == 2 else (loss, size))
    assert validated(mlm_data, tmp_path, caplog, 1) == ([], 1)


def test_data_of_finite_losses_and_dummy_batches():
    trainer = SimpleNamespace(linformer_epoch_itr=SimpleNamespace(epoch=4, iterations_in_epoch=9))
    samples = [{"id": torch.arange(100)}, {}]
    text = non_finite.describe_data(trainer, samples, [torch.tensor(1.0), torch.tensor(float("nan"))])
    assert text.startswith("epoch 4, iterations 8 to 9: finite loss (samples 0, 1, ")
    assert text.endswith(" 63 and 36 more)")
    text = non_finite.describe_data(trainer, [{"net_input": 1}, None], [])
    assert text == "epoch 4, iterations 8 to 9: finite loss"
