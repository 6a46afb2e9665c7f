#!/usr/bin/env bash
# Checks for a machine with a GPU: correctness of all variants, speed with and without a local window, and fairseq's
# programs in each precision. About 8 minutes on an H100 (estimated); after 9 all is stopped. Rerun with the same FOLDER
# to resume, with new --results for new code.
#
#   scripts/gpu_check.sh FOLDER --prepare     # beforehand, where all dependencies and a package index are: data and wheels
#   scripts/gpu_check.sh FOLDER               # on the machine with the GPU, which needs PyTorch, a C++ compiler, and no network
#   scripts/gpu_check.sh FOLDER --smoke       # tiny sizes on the CPU, after --prepare
#
# After FOLDER there may be `--results DIR`, for table.md, results.json and log.txt (default: FOLDER/results). WORDS is
# the size of the dictionaries of --prepare (default: 50260, as of a base model).
set -euo pipefail
[[ $# -ge 1 && $1 != -* ]] || { echo "usage: scripts/gpu_check.sh FOLDER [--results DIR] [--prepare | --smoke] [--minutes M]" >&2; exit 2; }
folder=$(realpath -m "$1") results=$(realpath -m "$1/results")
shift
if [ "${1:-}" = --results ]; then
    results=$(realpath -m "${2:?--results needs a folder}")
    shift 2
fi
# shellcheck source=scripts/gpu_environment.sh
cd "$(dirname "$0")/.." && . scripts/gpu_environment.sh

if [ "${1:-}" = --prepare ]; then
    data=$folder/data
    "$python" scripts/python_docs.py "$data/corpus"
    prepare() { "$python" -m fairseq_linformer.cli prepare "$@"; }
    tokenizer=(--tokenizer "$data/spm/spm.model")
    prepare sentencepiece "$data/spm" --source "$data/corpus/text.txt" --vocab-size 1000 --fold-case
    prepare pretraining "$data/text" --source "$data/corpus/text.txt" "${tokenizer[@]}" --valid-share 0.1
    prepare own "$data/task" --train "$data/corpus/train.tsv" --valid "$data/corpus/valid.tsv" --text-column text --label-column package "${tokenizer[@]}"
    # Words that never occur fill the dictionaries to the size of GPT-2's, so that rates are those of a base model.
    words=$(wc -l < "$data/spm/dict.txt")
    for ((i = words; i < ${WORDS:-50260}; i++)); do echo "unused$i 0"; done | tee -a "$data/text/shard0/dict.txt" >> "$data/task/input0/dict.txt"
    fetch_wheels "$folder"
    exit
fi
use_wheels "$folder"
exec "$python" -m tests.gpu.check "$folder" --results "$results" "$@"
