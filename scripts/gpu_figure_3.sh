#!/usr/bin/env bash
# Figure 3 (a) on one GPU: RoBERTa, k = 64, 128 and 256, and k = 128 with a local window.
#
#   scripts/gpu_figure_3.sh OUT      # without a GPU: prepare the text; with one: train for 9 minutes; rerun to resume
#
# Run it once where the text is, copy OUT to the GPU, which needs no network, and run it there, in a git checkout with
# the package's requirements (not run yet). A call that ends early has status 124. The result is OUT/results/figure_3/gpu.json.
#
#   TEXT      as for `prepare pretraining --source`   (default: WikiText-103 on the hub)
#   SCALE     gpu, or smoke to try it on a CPU        (default: gpu)
#   MINUTES   time budget of a call                   (default: 9)
set -euo pipefail
[[ $# -eq 1 && $1 != -* ]] || { echo "usage: scripts/gpu_figure_3.sh OUT" >&2; exit 2; }
out=$(realpath -m "$1") scale=${SCALE:-gpu}
text=${TEXT:-hub:Salesforce/wikitext,config=wikitext-103-raw-v1,rows=1000}
[ ! -e "$text" ] || text=$(realpath "$text")
cd "$(dirname "$0")/.."
linformer=(python3 -m fairseq_linformer.cli)
export OMP_NUM_THREADS=1

[ -e "$out/spm" ] ||
    "${linformer[@]}" prepare sentencepiece "$out/spm" --source "$text" --vocab-size 1000 --fold-case
[ -e "$out/text" ] ||
    "${linformer[@]}" prepare pretraining "$out/text" --source "$text" --tokenizer "$out/spm/spm.model"
if [ "$scale" = gpu ] && ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    echo "$out/text is ready; copy $out to a machine with a GPU and rerun"
    exit
fi
mkdir -p "$out/results"
timeout --signal=INT "${MINUTES:-9}m" "${linformer[@]}" reproduce figure-3 --part a --scale "$scale" \
    --data "$out/text" --runs "$out/runs" --results "$out/results"
