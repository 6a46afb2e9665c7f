"""Data shared by the tests, and in which order they run."""

import os

import pytest
import torch

from . import stock
from .trained import classifier, classifier_folder, glue, masked_lm, masked_lm_folder, pieces, trained  # noqa: F401  fixtures

# Models of 16 dimensions: more threads only wait for each other.
torch.set_num_threads(1)

LONG = ("tests/test_demo.py", "tests/launching/test_slurm.py", "tests/launching/test_torchrun.py", "tests/models/test_data_parallel.py")
"""What takes minutes. In the order of their names the demo would begin when the others have nearly ended, and keep one processor busy alone."""


def pytest_collection_modifyitems(items):
    """Each worker begins with something long: pytest-xdist's ``worksteal`` deals the tests out in equal runs, one after the other."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    heads, rest = [[] for _ in range(workers)], []
    for item in items:
        file = next((i for i, name in enumerate(LONG) if item.nodeid.startswith(name)), None)
        (rest if file is None else heads[file % workers]).append(item)
    ordered, taken = [], 0
    for i, head in enumerate(heads):
        share = max(0, (len(items) - len(ordered)) // (workers - i) - len(head))
        ordered += head + rest[taken : taken + share]
        taken += share
    items[:] = ordered + rest[taken:]


@pytest.fixture(scope="session")
def mlm_data(tmp_path_factory):
    return stock.masked_lm_data(tmp_path_factory.mktemp("mlm"))


@pytest.fixture(scope="session")
def class_data(tmp_path_factory):
    return stock.classification_data(tmp_path_factory.mktemp("classification"))
