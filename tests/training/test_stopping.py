"""The end of a stopped job: no process exits before the others have heard."""

import logging
from types import SimpleNamespace

import pytest
import torch

from fairseq_linformer.training import stopping


class FakeProcessGroup:
    """``torch.distributed`` that remembers its calls; ``wait`` raises ``error``, if set."""

    ReduceOp = torch.distributed.ReduceOp

    def __init__(self, error=None, ranks=2):
        self.calls, self.error, self.ranks = [], error, ranks

    def is_initialized(self):
        return self.ranks > 1

    def all_reduce(self, tensor, op):
        self.calls.append("all_reduce")

    def broadcast(self, tensor, source):
        self.calls.append("broadcast")

    def barrier(self, async_op):
        assert async_op

        def wait(timeout):
            self.calls.append(timeout.total_seconds())
            if self.error:
                raise self.error

        return SimpleNamespace(wait=wait)


def stop(group, folder, monkeypatch):
    """Stop after an update; returns the exit status."""
    monkeypatch.setattr(stopping, "dist", group)
    monkeypatch.setattr(stopping.train, "train", None)
    monkeypatch.setattr(stopping.train, "validate_and_save", lambda *_: ([None], False))
    monkeypatch.setattr(stopping.checkpoint_utils, "save_checkpoint", lambda *_: group.calls.append("save"))
    request = stopping.StopRequest()
    request.received = True
    stopping.stop_after_update(request, folder)
    trainer = SimpleNamespace(device=torch.device("cpu"), get_num_updates=lambda: 3, is_data_parallel_master=True)
    with pytest.raises(SystemExit) as end:
        stopping.train.validate_and_save(SimpleNamespace(checkpoint=None), trainer, None, None, None, False)
    return end.value.code


def test_a_job_of_one_process_saves_and_stops(tmp_path, monkeypatch):
    group = FakeProcessGroup(ranks=1)
    assert stop(group, tmp_path, monkeypatch) == 0 and group.calls == ["save"]


@pytest.mark.parametrize("error", [None, RuntimeError("Timed out waiting 30000ms")])
def test_a_stop_waits_for_the_peers(error, tmp_path, monkeypatch, caplog):
    group = FakeProcessGroup(error)
    with caplog.at_level(logging.WARNING):
        assert stop(group, tmp_path, monkeypatch) == 0
    assert group.calls == ["all_reduce", "save", "broadcast", stopping.SECONDS_FOR_PEERS]
    assert ("before all processes confirmed the stop: Timed out" in caplog.text) == (error is not None)
