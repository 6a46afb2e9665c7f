#!/usr/bin/env bash
# Run the tests that CI does not wait for: a real Slurm, faults at 20 random moments.
#
#   scripts/nightly.sh                                # all, about 2 hours on 2 cores
#   scripts/nightly.sh tests/training/test_slurm.py   # a part; arguments are those of pytest
#
# .venv gets the newest versions that setup.py allows; scripts/constraints.txt says how to record them if all is green.
# It ends with a line for the table of docs/robustness.md. As root it installs Slurm, without which its tests skip.
set -euo pipefail
cd "$(dirname "$0")/.."
PIP_CONSTRAINT= scripts/setup.sh
if ! command -v slurmctld >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
        slurmctld slurmd slurm-client munge >/dev/null || echo "Slurm could not be installed; its tests skip" >&2
fi
export OMP_NUM_THREADS=1
log=$(mktemp)
status=0
.venv/bin/python -m pytest -n 0 -m nightly -rs "$@" 2>&1 | tee "$log" || status=$?
echo "| $(date +%F) | $(git rev-parse --short HEAD) | ${*:-all} | $(tail -1 "$log" | sed 's/^=* *//; s/ *=*$//') |"
rm "$log"
exit "$status"
