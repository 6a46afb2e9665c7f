#!/usr/bin/env bash
# Run the tests, after scripts/setup.sh. Arguments are those of pytest.
#
#   scripts/test.sh                     # all tests but the nightly ones, as in CI
#   scripts/test.sh -m "not slow"       # the quick tests, two minutes
#   scripts/test.sh tests/modules
#   scripts/nightly.sh                  # the others, hours
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
# The models are tiny, and some tests run two processes: more threads would only slow them down.
export OMP_NUM_THREADS=1
# Workers, and the commands that tests run, share compiled modules.
unset PYTHONDONTWRITEBYTECODE
workers=$(.venv/bin/python -c "import os; print(len(os.sched_getaffinity(0)))")
exec .venv/bin/python -m pytest -q -n "$((workers < 4 ? workers : 4))" --dist worksteal "$@"
