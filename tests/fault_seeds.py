"""Seeds of random faults: CI tries one, ``scripts/nightly.sh`` the others."""

import pytest

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 20))]
