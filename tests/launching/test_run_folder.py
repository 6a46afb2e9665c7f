"""A run folder is one configuration's, goes on from a whole checkpoint, and is one job's at a time."""

import multiprocessing
import shutil

import pytest
import torch

from fairseq_linformer.launching import checkpoints, folder
from fairseq_linformer.launching.training import Training

from .jobs import overrides

BASE = "configs/pretrain/base.yaml"


@pytest.fixture
def training(mlm_data, tmp_path):
    def training(processes=1, **more):
        return Training(BASE, tuple(overrides(mlm_data, **more)), processes, "cpu", str(tmp_path), "run")

    return training


def test_it_is_made_once_and_taken_up(training, tmp_path):
    assert folder.check(training()) == ["it begins anew"]
    assert list(tmp_path.iterdir()) == []  # a check writes nothing
    assert folder.begin(training()) == ["there is no checkpoint; this is the beginning"]
    written = (tmp_path / "run/config.yaml").read_bytes()
    (tmp_path / "run" / folder.LOCK).unlink()
    assert folder.check(training(processes=4)) == ["it begins anew"]
    assert not (tmp_path / "run" / folder.LOCK).exists()
    folder.begin(training(processes=4))
    assert (tmp_path / "run/config.yaml").read_bytes() == written


def test_another_configuration_is_refused_by_what_differs(training, tmp_path):
    folder.begin(training())
    other = training(**{"model.projected_dim": 4, "model.dropout": 0.5})
    for step in (folder.check, folder.begin):
        with pytest.raises(ValueError, match=r"holds another configuration: model.dropout is 0.1 there and 0.5 here; model.projected_dim is 8 there and 4 here"):
            step(other)


def test_a_folder_that_is_no_run_is_refused(training, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/thesis.tex").touch()
    with pytest.raises(ValueError, match="is no run folder, for it has no config.yaml"):
        folder.begin(training())
    (tmp_path / "run/thesis.tex").unlink()
    (tmp_path / "run/.config.yaml.1234").touch()  # of a job that was killed as it began
    assert folder.check(training()) == ["it begins anew"]
    (tmp_path / "run/config.yaml").write_text("a: [1")
    with pytest.raises(ValueError, match="config.yaml is no configuration"):
        folder.begin(training())


def checkpoint(path, number):
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"model": torch.full((5000,), float(number))}, path)
    return path


def cut(path, share=0.5):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def test_the_last_whole_checkpoint_takes_the_place_of_one_that_is_cut_off(training, tmp_path):
    folder.begin(training())
    saved = tmp_path / "run/checkpoints"
    old, new = checkpoint(saved / "checkpoint_1_5.pt", 5), checkpoint(saved / "checkpoint_1_10.pt", 10)
    last = saved / checkpoints.LAST
    shutil.copyfile(new, last)
    assert folder.begin(training()) == [f"going on from {last}"]

    cut(last)
    assert folder.check(training())[-1] == f"it goes on from {new}"
    said = folder.begin(training())
    assert [f"{last}: it is cut off or damaged" in said[0], *said[1:]] == [True, "checkpoint_1_10.pt takes the place of checkpoint_last.pt", f"going on from {last}"]
    assert last.read_bytes() == new.read_bytes() and (saved / "checkpoint_last.pt.damaged").exists()

    cut(last, 0)  # a full disk leaves an empty file, too
    content = bytearray(new.read_bytes())
    content[len(content) // 2] ^= 1  # as long as it should be, and wrong
    new.write_bytes(content)
    said = folder.begin(training())
    assert "damaged" in said[0] and "damaged" in said[1] and said[2] == "checkpoint_1_5.pt takes the place of checkpoint_last.pt"
    assert last.read_bytes() == old.read_bytes()

    for path in saved.glob("*.pt"):
        cut(path)
    with pytest.raises(ValueError, match="none of the 3 checkpoints of .* is whole; .* remove them to begin anew"):
        folder.begin(training())


def test_a_checkpoint_behind_something_else_is_damaged(tmp_path):
    path = checkpoint(tmp_path / "checkpoint_last.pt", 1)
    assert checkpoints.damage(path) is None
    path.write_bytes(b"the beginning of an attempt" + path.read_bytes())  # zip allows it, torch does not
    assert checkpoints.damage(path) == "there is something before its beginning"


def test_a_disk_that_is_full_for_a_moment_leaves_a_whole_checkpoint(tmp_path, monkeypatch):
    save, attempts = torch.save, []

    def full_at_first(state, file):
        attempts.append(file.tell())
        file.write(b"x" * 1000)
        if len(attempts) < 3:
            raise OSError(28, "No space left on device")
        file.seek(0)
        file.truncate()
        save(state, file)

    monkeypatch.setattr(torch, "save", full_at_first)
    with open(tmp_path / "checkpoint_last.pt", "wb") as file:
        checkpoints.save_whole({"model": torch.ones(5)}, file)
    assert attempts == [0, 0, 0] and checkpoints.damage(tmp_path / "checkpoint_last.pt") is None
    attempts[:] = []
    monkeypatch.setattr(torch, "save", lambda state, file: full_at_first(attempts.clear(), file))
    with open(tmp_path / "other.pt", "wb") as file, pytest.raises(OSError, match="No space left"):
        checkpoints.save_whole({}, file)


def test_a_full_disk_is_said_and_what_was_not_finished_goes(training, tmp_path, monkeypatch):
    folder.begin(training())
    saved = tmp_path / "run/checkpoints"
    last = checkpoint(saved / checkpoints.LAST, 1)
    (saved / "checkpoint_1_5.pt.tmp").touch()
    monkeypatch.setattr(checkpoints.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(ValueError, match=f"there is no room in .* for two more checkpoints; {2 * last.stat().st_size:,} bytes are wanted"):
        folder.begin(training())
    assert not (saved / "checkpoint_1_5.pt.tmp").exists()


def test_what_is_trained_to_its_end_is_said(training, tmp_path):
    folder.begin(training())
    (tmp_path / "run" / folder.DONE).touch()
    assert folder.check(training()) == ["it is trained to its end"]


def test_stops_that_lead_nowhere_end(tmp_path):
    assert [folder.mark_stopped(tmp_path, updates) for updates in (0, 0, 4, 4, 5, 5, 5, 5)] == [True] * 6 + [False] * 2
    (tmp_path / folder.STOPPED).unlink()
    assert folder.mark_stopped(tmp_path, 6) and (tmp_path / folder.STOPPED).exists()


def hold(path, held, done):
    with folder.alone_in(path):
        held.set()
        done.wait()


def test_two_jobs_in_one_folder_are_refused(training, tmp_path):
    folder.begin(training())
    context = multiprocessing.get_context("fork")
    held, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(tmp_path / "run", held, done))
    other.start()
    held.wait()
    for step in (folder.check, folder.begin):
        with pytest.raises(ValueError, match="another job trains in"):
            step(training())
    done.set()
    other.join()
    folder.begin(training())


def test_a_loader_that_outlives_its_job_does_not_hold_the_folder(training, tmp_path):
    """Loaders are forked, and notice within 5 seconds that their job has ended; the next one may be quicker."""
    folder.begin(training())
    context = multiprocessing.get_context("fork")
    ended = context.Event()
    with folder.alone_in(tmp_path / "run"):
        loader = context.Process(target=ended.wait, daemon=True)
        loader.start()
        with pytest.raises(ValueError, match="another job trains in"):  # closing it in the loader does not give it up
            folder.begin(training())
    folder.begin(training())
    assert loader.is_alive()
    ended.set()
    loader.join()
