"""Threads that wait for each other sleep soon, unless the user says otherwise."""

import os
import subprocess
import sys

import pytest

from fairseq_linformer import cli


@pytest.mark.parametrize(
    "variables, expected", [({}, cli.SPIN_COUNT), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)]
)
def test_variables_of_the_user_are_kept(variables, expected, monkeypatch):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    cli.main(["path", "plugin"])
    assert os.environ.get("GOMP_SPINCOUNT") == expected


def test_pytorch_is_imported_later():
    """Its OpenMP reads the variable when it is loaded."""
    code = (
        "import sys; from fairseq_linformer import cli; cli.build_parser(); assert 'torch' not in sys.modules; "
        "cli.limit_spinning(); import os; print(os.environ['GOMP_SPINCOUNT'])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GOMP", "OMP_WAIT"))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == cli.SPIN_COUNT
