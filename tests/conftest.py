"""Data shared by the tests."""

import pytest
import torch

from . import stock
from .trained import classifier, classifier_folder, masked_lm, masked_lm_folder, pieces, trained  # noqa: F401  fixtures

# Models of 16 dimensions: more threads only wait for each other.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def mlm_data(tmp_path_factory):
    return stock.masked_lm_data(tmp_path_factory.mktemp("mlm"))


@pytest.fixture(scope="session")
def class_data(tmp_path_factory):
    return stock.classification_data(tmp_path_factory.mktemp("classification"))
