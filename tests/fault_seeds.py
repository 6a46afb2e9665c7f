"""How often faults at random moments are tried."""

import os

SEEDS = range(int(os.environ.get("FAULTS", "1")))
