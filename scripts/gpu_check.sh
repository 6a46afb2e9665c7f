#!/usr/bin/env bash
# Checks for a machine with a GPU: correctness of all variants, speed with and without a local window, and fairseq's
# programs in each precision. About 7 minutes on an H100 (estimated); no step starts after 8.5. Rerun to resume, with a new
# OUT for new code. OUT/table.md has the results.
#
#   scripts/gpu_check.sh OUT --prepare     # beforehand, where all dependencies and a package index are: data and wheels
#   scripts/gpu_check.sh OUT               # on the machine with the GPU, which needs PyTorch and no network
#   scripts/gpu_check.sh OUT --smoke       # tiny sizes on the CPU, after --prepare
#
# OUT/wheels has what the machine with the GPU may lack: packages of Python TARGET (3.12), and the source of fairseq, of
# which only the three extensions that this package uses are built, in 10 seconds.
set -euo pipefail
[[ $# -ge 1 && $1 != -* ]] || { echo "usage: scripts/gpu_check.sh OUT [--prepare | --smoke | --minutes M]" >&2; exit 2; }
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[ -n "${PYTHON:-}" ] || [ ! -x .venv/bin/python ] || python=$PWD/.venv/bin/python
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

if [ "${1:-}" = --prepare ]; then
    data=$out/data
    rm -rf "$data"
    "$python" scripts/python_docs.py "$data/corpus"
    prepare() { "$python" -m fairseq_linformer.cli prepare "$@"; }
    tokenizer=(--tokenizer "$data/spm/spm.model")
    prepare sentencepiece "$data/spm" --source "$data/corpus/text.txt" --vocab-size 1000 --fold-case
    prepare pretraining "$data/text" --source "$data/corpus/text.txt" "${tokenizer[@]}" --valid-share 0.1
    prepare own "$data/task" --train "$data/corpus/train.tsv" --valid "$data/corpus/valid.tsv" --text-column text --label-column package "${tokenizer[@]}"
    # Words that never occur fill the dictionaries to the size of GPT-2's, so that rates are those of a base model.
    words=$(wc -l < "$data/spm/dict.txt")
    for ((i = words; i < ${WORDS:-50260}; i++)); do echo "unused$i 0"; done | tee -a "$data/text/shard0/dict.txt" >> "$data/task/input0/dict.txt"
    [ -z "${NO_WHEELS:-}" ] || exit 0
    wheel=(--no-deps --dest "$out/wheels")
    "$python" -m pip download "${wheel[@]}" --no-binary :all: --no-build-isolation fairseq-fixed==0.12.3.1
    "$python" -m pip download "${wheel[@]}" --only-binary :all: --python-version "${TARGET:-3.12}" --platform manylinux2014_x86_64 hydra-core==1.3.2 omegaconf==2.3.0
    exec "$python" -m pip wheel --no-deps --wheel-dir "$out/wheels" antlr4-python3-runtime==4.9.3
fi

if ! "$python" -c 'import fairseq.data.data_utils_fast, omegaconf' 2>/dev/null; then
    site=$out/site
    if [ ! -e "$site/built" ]; then
        "$python" -m pip install -q --no-index --no-deps --target "$site" "$out"/wheels/*.whl
        tar -xzf "$out"/wheels/fairseq*.tar.gz -C "$site" --strip-components=1
        "$python" scripts/build_fairseq_extensions.py "$site"
        touch "$site/built"
    fi
    export PYTHONPATH=$site:$PYTHONPATH
fi
exec "$python" -m fairseq_linformer.benchmark.gpu_check "$out" "$@"
