"""A run folder belongs to one configuration and one job at a time, and records its attempts."""

import json
import multiprocessing

import pytest

from fairseq_linformer.training import run_folder
from fairseq_linformer.training.job import TrainingJob
from fairseq_linformer.training.run_folder import create_or_resume, lock_folder, training_provenance

from .jobs import overrides

BASE = "configs/pretrain/base.yaml"


@pytest.fixture
def training(mlm_data, tmp_path):
    def training(processes=1, **more):
        return TrainingJob(BASE, tuple(overrides(mlm_data, **more)), processes, "cpu", str(tmp_path), "run")

    return training


@pytest.fixture
def run(training, tmp_path):
    """A run folder that was created."""
    create_or_resume(training())
    return tmp_path / "run"


@pytest.mark.slow
def test_a_run_resumes_with_another_number_of_processes(training, run):
    written = (run / run_folder.CONFIG).read_bytes()
    assert run_folder.check_run_folder(training(processes=4)) is False
    assert create_or_resume(training(processes=4)) == ["no checkpoint yet; training starts at update 0"]
    assert (run / run_folder.CONFIG).read_bytes() == written


@pytest.mark.slow
def test_rejects_another_configuration_with_the_differences(training, run):
    other = training(**{"model.projected_dim": 4, "model.dropout": 0.5})
    with pytest.raises(ValueError, match="model.dropout must be 0.1, got 0.5; model.projected_dim must be 8, got 4"):
        create_or_resume(other)
    assert run_folder.check_run_folder(other, ("model.projected_dim", "model.dropout")) is False
    with pytest.raises(ValueError, match="model.dropout .*; move it away$"):
        run_folder.check_run_folder(other, ("model.projected_dim",), "move it away")


def test_rejects_a_folder_that_is_not_a_run_folder(training, tmp_path):
    run = tmp_path / "run"
    run.touch()
    with pytest.raises(ValueError, match="is not a run folder"):
        create_or_resume(training())
    run.unlink()
    run.mkdir()
    (run / "thesis.tex").touch()
    with pytest.raises(ValueError, match="is not a run folder"):
        create_or_resume(training())
    (run / "thesis.tex").unlink()
    (run / ".config.yaml.1234").touch()  # from a job that was killed while writing
    (run / run_folder.LOGS).mkdir()  # sbatch creates it for its log
    assert run_folder.check_run_folder(training())
    (run / run_folder.CONFIG).write_text("a: [1")
    with pytest.raises(ValueError, match="config.yaml"):
        create_or_resume(training())


def hold(path, held, done):
    with lock_folder(path):
        held.set()
        done.wait()


@pytest.mark.slow
def test_rejects_a_second_job_in_a_folder(run):
    context = multiprocessing.get_context("fork")
    held, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(run, held, done))
    other.start()
    held.wait()
    with pytest.raises(ValueError, match="another job is training in"), lock_folder(run):
        pytest.fail("it is locked")
    done.set()
    other.join()
    with lock_folder(run):
        pass


def wait(started, ended):
    started.set()
    ended.wait()


@pytest.mark.slow
def test_data_loader_does_not_keep_the_lock(run):
    """Forked loaders notice only after up to 5 seconds that their job has ended; the next job may start sooner."""
    context = multiprocessing.get_context("fork")
    started, ended = context.Event(), context.Event()
    with lock_folder(run):
        loader = context.Process(target=wait, args=(started, ended), daemon=True)
        loader.start()
        started.wait()
        # Closing the file in the loader does not release the lock.
        with pytest.raises(ValueError, match="another job is training in"), lock_folder(run):
            pytest.fail("it is locked")
    with lock_folder(run):
        assert loader.is_alive()
    ended.set()
    loader.join()


def attempt(**more):
    return {"hardware": {"cores": 2}, "versions": {"torch": "2"}, "date": "2026-01-02", "commit": "a", **more}


def write_attempts(path, *attempts):
    path.write_text("".join(json.dumps(one) + "\n" for one in attempts))


def test_provenance_merges_all_attempts(tmp_path):
    for processes in (64, 32):
        run_folder.record_attempt(tmp_path, processes)
    lines = (tmp_path / run_folder.ATTEMPTS).read_text().splitlines()
    assert [json.loads(line)["processes"] for line in lines] == [64, 32]
    write_attempts(
        tmp_path / run_folder.ATTEMPTS,
        attempt(),
        attempt(hardware={"cores": 4}, commit=None, date="2026-01-01"),
        attempt(commit="b"),
    )
    assert training_provenance(tmp_path) == {
        "hardware": {"cores": "2; 4"},
        "versions": {"torch": "2"},
        "date": "2026-01-02",
        "commit": "a; b",
    }


@pytest.mark.parametrize("content", [None, "{"])
def test_rejects_a_damaged_attempts_file(content, tmp_path):
    path = tmp_path / run_folder.ATTEMPTS
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=str(path)):
        training_provenance(tmp_path)
