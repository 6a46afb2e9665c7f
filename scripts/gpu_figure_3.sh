#!/usr/bin/env bash
# Figure 3 on one GPU, from scratch: `reproduce figure-3 --scale gpu`, one part after the other.
#
#   scripts/gpu_figure_3.sh FOLDER --prepare   # beforehand, where the text, all dependencies and a package index are
#   scripts/gpu_figure_3.sh FOLDER             # on the machine with the GPU: train for 9 minutes; rerun to resume
#
# The machine with the GPU needs PyTorch, a C++ compiler, and a git checkout without changes, but no network. A call that
# runs out of time has status 124, or 137 if it had to be killed. The result is FOLDER/results/figure_3/gpu.json; to resume, keep FOLDER.
#
#   TEXT      as for `prepare pretraining --source`   (default: WikiText-103 on the hub)
#   SCALE     gpu, or smoke to try it on a CPU        (default: gpu)
#   MINUTES   time budget of a call                   (default: 9)
set -euo pipefail
[[ $# -ge 1 && $1 != -* && ${2:---prepare} = --prepare ]] || { echo "usage: scripts/gpu_figure_3.sh FOLDER [--prepare]" >&2; exit 2; }
folder=$(realpath -m "$1") scale=${SCALE:-gpu}
text=${TEXT:-hub:Salesforce/wikitext,config=wikitext-103-raw-v1,rows=1000}
[ ! -e "$text" ] || text=$(realpath "$text")
# shellcheck source=scripts/gpu_environment.sh
cd "$(dirname "$0")/.." && . scripts/gpu_environment.sh
linformer=("$python" -m fairseq_linformer.cli)

if [ "${2:-}" = --prepare ]; then
    "${linformer[@]}" prepare sentencepiece "$folder/spm" --source "$text" --vocab-size 1000 --fold-case
    "${linformer[@]}" prepare pretraining "$folder/text" --source "$text" --tokenizer "$folder/spm/spm.model"
    fetch_wheels "$folder"
    exit
fi
use_wheels "$folder"
mkdir -p "$folder/results"
timeout --signal=INT --kill-after=20 "${MINUTES:-9}m" "${linformer[@]}" reproduce figure-3 --scale "$scale" \
    --data "$folder/text" --runs "$folder/runs" --results "$folder/results"
