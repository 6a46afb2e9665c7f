"""Seeds of random faults: CI tries one, ``scripts/nightly.sh`` the others."""

import pytest

NIGHTLY = [pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 20)]
SEEDS = [0, *NIGHTLY]
