"""Workers of ``training.local`` as copies of the test's process, which has imported PyTorch and fairseq."""

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

import pytest
from fairseq import checkpoint_utils
from fairseq.logging import progress_bar

from fairseq_linformer.training import local, worker

MODULE = "fairseq_linformer.training.worker"


class ForkedWorker:
    """Takes the place of ``subprocess.Popen``: the same command line, environment, output, signals and status."""

    def __init__(self, command, *, env, preexec_fn=None, **_):
        assert command[:3] == [sys.executable, "-m", MODULE], command
        reading, writing = os.pipe()
        context = multiprocessing.get_context("fork")
        importlib.import_module("torch._dynamo")  # PyTorch's optimizers import it, which takes seconds per worker
        self.process = context.Process(target=_work, args=(command[3:], env, preexec_fn, reading, writing))
        self.process.start()
        os.close(writing)
        self.stdout = open(reading, encoding="utf-8", errors="replace")

    def send_signal(self, number: int) -> None:
        if self.process.is_alive():
            os.kill(self.process.pid, number)

    def wait(self) -> int:
        self.process.join()
        self.stdout.close()
        return self.process.exitcode


def reset_signals() -> None:
    """Background jobs of a shell ignore SIGINT, and those of nohup SIGHUP."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def forget_temporary_folder() -> None:
    """In a forked process: have a folder of its own, since a worker removes its folder when it exits."""
    multiprocessing.current_process()._config.pop("tempdir", None)


def _work(words, environment, preexec_fn, reading, writing):
    os.close(reading)
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.close(writing)
    sys.stdout = sys.stderr = open(1, "w", buffering=1, encoding="utf-8", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    # Writers of an earlier training in this process have lost their threads in the fork and would wait for them.
    progress_bar._tensorboard_writers.clear()
    vars(checkpoint_utils.save_checkpoint).pop("best", None)  # the best score of an earlier training
    forget_temporary_folder()
    preexec_fn and preexec_fn()
    worker.exit_now(worker.main(*words))


@contextmanager
def forked_workers():
    """Spare each worker the imports; ``training/test_local.py`` starts a real one."""
    stand_in = SimpleNamespace(Popen=ForkedWorker, PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT)
    with mock.patch.object(local, "subprocess", stand_in):
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_workers():
    """Fork the workers of all tests of a module that imports this fixture."""
    with forked_workers():
        yield
