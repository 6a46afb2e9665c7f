#!/usr/bin/env bash
# Measure all times of results/ again, at a clean commit, on an idle CPU with 20 GiB free: more than two hours on two cores.
#
#   scripts/measure_times.sh data/tasks     # has sst-2, which `fairseq-linformer prepare sst-2` wrote
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
measure() { .venv/bin/fairseq-linformer reproduce "$@"; }
for experiment in table-1 table-3 int8; do
    measure "$experiment" --scale cpu
done
measure speed --scale cpu --tasks "$1"
measure long-documents --scale encoder
measure report
