#!/usr/bin/env bash
# The module-level benchmark on a machine with a GPU, PyTorch and this checkout, and nothing else: Table 3 of the paper
# and training steps in bf16, fp16 and fp32. It ends within 8 minutes; rerun it to resume.
#
#   scripts/gpu_benchmark.sh OUT [--commit COMMIT] [other options: python -m fairseq_linformer.benchmark --help]
#
# OUT is a folder of JSON. Where the whole package is installed, `fairseq-linformer benchmark report OUT` writes the ledger,
# tables and figures of it.
set -euo pipefail
[[ $# -ge 1 && $1 != -* ]] || { echo "usage: scripts/gpu_benchmark.sh OUT [OPTION...]" >&2; exit 2; }
out=$(realpath -m "$1")
shift
cd "$(dirname "$0")/.."
exec python3 -m fairseq_linformer.benchmark "$out" --device cuda --minutes 6 "$@"
