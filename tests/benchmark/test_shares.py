"""A stopwatch around fairseq's training loop: each moment counts once, in the part that it belongs to."""

import time

import pytest
from fairseq.criterions.masked_lm import MaskedLmLoss

from fairseq_linformer.benchmark import shares
from fairseq_linformer.benchmark.cells import Provenance, measure
from fairseq_linformer.benchmark.shares import Shares
from fairseq_linformer.benchmark.stopwatch import PARTS, Stopwatch, seconds_of_updates
from fairseq_linformer.reproduce.benchmark_report import text
from fairseq_linformer.reproduce.benchmarks import entries

TINY = dict(k=8, updates=3, rounds=1, layers=1, embed_dim=64, heads=4, vocabulary=100)


def test_a_part_within_another_is_taken_out_of_it(monkeypatch):
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
    assert [(u["data"], u["criterion"], u["forward"], u["whole"]) for u in watch.updates] == [(5, 2, 6, 13.5), (7, 2, 6, 15.5)]
    left = Stopwatch()
    for _ in left.batches(lambda: [1, 2])():
        wait(2)
        break
    assert [u["whole"] for u in left.updates] == [2] and left._begun is None


@pytest.mark.slow
def test_a_known_sleep_in_the_criterion_appears_there(tmp_path, monkeypatch):
    """fairseq's own loop in this process; what timers stand around is nearly all of an update, and no more than it."""
    def slow(self, *args, forward=MaskedLmLoss.forward, **kwargs):
        time.sleep(0.2)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(MaskedLmLoss, "forward", slow)
    cell = Shares(32, 2, ("roberta",), **TINY)
    cell.write_data(tmp_path)
    updates = seconds_of_updates(cell.arguments("roberta", str(tmp_path)))
    assert len(updates) == 3
    for update in updates:
        assert sum(update[part] for part in PARTS) <= update["whole"] and update["criterion"] >= 0.2
        assert all(update[part] > 0 for part in PARTS)
    # A machine with other work may hold up any part of an update, but not the same part of each.
    least = {part: min(update[part] for update in updates) for part in PARTS}
    assert least["criterion"] < 0.3 and all(least[part] < 0.2 for part in PARTS if part != "criterion")
    assert any(sum(update[part] for part in PARTS) > 0.9 * update["whole"] - 0.05 for update in updates)


@pytest.mark.slow
def test_shares_of_every_model(tmp_path):
    """In processes of their own, because two of them have the same name; they are all of an update together."""
    measure([Shares(32, 2, ("ours", "authors"), **TINY)], tmp_path, Provenance("abc", "command"))
    (entry,) = entries(tmp_path)
    for name in ("ours", "authors"):
        found = [entry.measured[f"n=32: {part} of {name}"] for part in (*PARTS, shares.REST)]
        assert sum(m.value for m in found) == pytest.approx(1, abs=1e-3) and all(0 < m.value < 1 and m.repetitions == 2 for m in found)
    assert entry.identifier == "benchmark-shares-cpu-fp32-l1-d64-k8" and "| | ours | authors |" in text([entry]) and "| backward | " in text([entry])
