"""A job that was stopped saves, and a run that was killed after its last update trains no more."""

from types import SimpleNamespace

import pytest
import torch

from fairseq_linformer.training import stopping

CFG = SimpleNamespace(checkpoint=None, optimization=SimpleNamespace(max_update=5))


@pytest.fixture
def loop(monkeypatch):
    """fairseq's training loop after ``stop_after_update``, and the names of the functions that it calls."""
    calls, request = [], stopping.StopRequest()
    monkeypatch.setattr(stopping.train, "train", lambda *_: calls.append("train"))
    monkeypatch.setattr(stopping.train, "validate_and_save", lambda *_: ([None], False))
    monkeypatch.setattr(stopping.checkpoint_utils, "save_checkpoint", lambda *_: calls.append("save"))
    stopping.stop_after_update(request)
    return calls, request


def trainer(updates):
    return SimpleNamespace(device=torch.device("cpu"), get_num_updates=lambda: updates)


def test_a_signal_saves_and_stops_after_an_update(loop):
    calls, request = loop
    stopping.train.validate_and_save(CFG, trainer(3), None, None, None, False)
    assert calls == []
    request.received = True
    with pytest.raises(SystemExit) as end:
        stopping.train.validate_and_save(CFG, trainer(3), None, None, None, False)
    assert end.value.code == stopping.STOPPED and calls == ["save"]


def test_a_complete_run_trains_no_more(loop):
    calls, _ = loop
    assert stopping.train.train(CFG, trainer(5), None, None) == ([None], True) and calls == []
    stopping.train.train(CFG, trainer(4), None, None)
    assert calls == ["train"]
