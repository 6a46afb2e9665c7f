#!/usr/bin/env bash
# Install into .venv what is missing and run the tests.
#
#   scripts/test.sh                     all of them
#   scripts/test.sh -m "not slow"       those that take less than 2 minutes together
#   scripts/test.sh tests/modules       any arguments of pytest
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
# The models are tiny and some tests run two processes: more threads only wait for each other.
export OMP_NUM_THREADS=1
exec .venv/bin/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal "$@"
