#!/usr/bin/env bash
# Install into .venv what is missing and run the tests.
#
#   scripts/test.sh                     all of them
#   scripts/test.sh -m "not slow"       those that take less than 2 minutes together
#   scripts/test.sh tests/modules       any arguments of pytest
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
# Two processes share the cores in some tests; more threads than cores slow all of them down.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
exec .venv/bin/python -m pytest -q "$@"
