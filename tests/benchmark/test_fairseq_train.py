"""The stopwatch in fairseq's training loop: each moment counts once, in its own part."""

import pytest
from fairseq.criterions.masked_lm import MaskedLmLoss
from fairseq.distributed import utils as distributed_utils
from fairseq.models.roberta import RobertaModel

from fairseq_linformer.benchmark.cells import Provenance, measure_cells
from fairseq_linformer.benchmark.fairseq_train import PARTS, REST, Stopwatch, time_updates, train
from fairseq_linformer.benchmark.train_process import SharesCell
from fairseq_linformer.reproduction.cells import read_all, rows_of

TINY = dict(k=8, updates=3, rounds=1, layers=1, embed_dim=64, heads=4, vocabulary=100)


def test_nested_parts_are_subtracted(monkeypatch):
    watch, clock = Stopwatch(), [0.0]
    monkeypatch.setattr(Stopwatch, "_now", lambda self: clock[0])

    def wait(seconds):
        clock[0] += seconds

    forward = watch.part("forward", lambda: wait(3))
    criterion = watch.part("criterion", lambda: (wait(1), forward(), forward(), wait(1)))
    forward()  # before the first update: counts nowhere
    for _ in watch.batches(lambda: (wait(seconds) or seconds for seconds in (5, 7)))():
        criterion()
        wait(0.5)
    assert [(u["data"], u["criterion"], u["forward"], u["whole"]) for u in watch.updates] == [
        (5, 2, 6, 13.5),
        (7, 2, 6, 15.5),
    ]
    interrupted = Stopwatch()
    for _ in interrupted.batches(lambda: [1, 2])():
        wait(2)
        break
    assert [u["whole"] for u in interrupted.updates] == [2] and interrupted._start is None


@pytest.mark.slow
def test_known_times_are_assigned_to_their_parts(tmp_path, monkeypatch):
    """fairseq's own loop in this process, with a clock that advances in the criterion, in the model, and a little at
    each reading."""
    now = [0.0]

    def read():
        now[0] += 1e-6
        return now[0]

    def slower(forward, seconds):
        def slow(self, *args, **kwargs):
            now[0] += seconds
            return forward(self, *args, **kwargs)

        return slow

    monkeypatch.setattr(Stopwatch, "_now", staticmethod(read))
    for owner, seconds in ((MaskedLmLoss, 2.0), (RobertaModel, 3.0)):
        monkeypatch.setattr(owner, "forward", slower(owner.forward, seconds))
    cell = SharesCell(32, 2, ("roberta",), **TINY)
    cell.prepare_data(tmp_path)
    updates = time_updates(cell.arguments("roberta", str(tmp_path)))
    assert len(updates) == 3
    for update in updates:
        expected = {**dict.fromkeys(PARTS, 0.0), "criterion": 2.0, "forward": 3.0, "whole": 5.0}
        assert update == pytest.approx(expected, abs=1e-3) and all(update[part] > 0 for part in PARTS)


def test_bf16_does_not_imply_a_tpu(monkeypatch):
    """Also without this plugin."""
    started = []
    monkeypatch.setattr(distributed_utils, "call_main", lambda cfg, main: started.append(cfg.common))
    train(SharesCell(32, 2, ("roberta",), device="cuda", dtype="bf16", **TINY).arguments("roberta", "data"))
    assert started[0].bf16 and not started[0].tpu


@pytest.mark.slow
def test_shares_add_up_for_each_model(tmp_path):
    """Shares add up to an update. Each model trains in its own process, because two have the same name."""
    measure_cells([SharesCell(32, 2, ("authors", "ours"), **TINY)], tmp_path, Provenance("abc", "command"))
    rows = rows_of(read_all(tmp_path))
    for name in ("ours", "authors"):
        shares = [rows.find("share", n=32, part=part, model=name) for part in (*PARTS, REST)]
        assert sum(m.value for m in shares) == pytest.approx(1, abs=1e-3) and all(
            0 < m.value < 1 and m.repetitions == 2 for m in shares
        )
