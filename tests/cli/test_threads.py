"""Threads that wait for each other sleep soon."""

import os
import subprocess
import sys

from fairseq_linformer import cli

IMPORTS_PYTORCH = """
import os, sys
from fairseq_linformer import cli

class Finder:
    def find_spec(self, name, *rest):
        if name == "torch":
            print(os.environ.get("GOMP_SPINCOUNT"))

sys.meta_path.insert(0, Finder())
cli.main(["evaluate", "nowhere.pt", "nowhere.tsv", "--device", "cpu"])
"""


def test_pytorch_is_imported_later():
    """Its OpenMP reads the variable when it is loaded."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GOMP", "OMP_WAIT"))}
    done = subprocess.run([sys.executable, "-c", IMPORTS_PYTORCH], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == cli.SPIN_COUNT and "nowhere.tsv" in done.stderr
