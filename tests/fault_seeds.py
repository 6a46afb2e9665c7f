"""Seeds of random faults: one, or as many as the variable FAULTS says."""

import os

SEEDS = range(int(os.environ.get("FAULTS", "1")))
