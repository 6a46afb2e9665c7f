#!/usr/bin/env bash
# Benchmark the modules on a GPU: Table 3 of the paper, then training steps, in bf16, then fp16, then fp32. Requires only
# PyTorch and this checkout. Takes up to 8 minutes, in which an H100 completes at least one precision; rerun to resume.
#
#   scripts/gpu_benchmark.sh OUT [--commit COMMIT] [OPTION...]     # options: python -m fairseq_linformer.benchmark --help
#   scripts/gpu_benchmark.sh OUT --dry-run h100-80gb               # what is missing, and its predicted time, without a GPU
#
# OUT is a folder of JSON files, of which `fairseq-linformer benchmark report OUT` prints a table where the whole
# package is installed.
set -euo pipefail
[[ $# -ge 1 && $1 != -* ]] || { echo "usage: scripts/gpu_benchmark.sh OUT [OPTION...]" >&2; exit 2; }
out=$(realpath -m "$1")
shift
cd "$(dirname "$0")/.."
exec python3 -m fairseq_linformer.benchmark "$out" --device cuda --minutes 7 "$@"
