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
    "$python" -m fairseq_linformer.data.python_docs "$data/corpus"
    "$python" -m fairseq_linformer.data.sentencepiece_model train "$data/spm" --input "$data/corpus/text/train.txt" --vocab-size 1000 --fold-case
    "$python" -m fairseq_linformer.data.sentencepiece_model encode "$data/spm/spm.model" \
        --input "$data"/corpus/{text/{train,valid}.txt,task/{train,valid}.input0} \
        --output "$data"/pieces/{text/{train,valid}.txt,task/{train,valid}.input0}
    # Words that never occur fill the dictionary to the size of GPT-2's, so that rates are those of a base model.
    words=$(wc -l < "$data/spm/dict.txt")
    { cat "$data/spm/dict.txt"; for ((i = words; i < ${WORDS:-50260}; i++)); do echo "unused$i 0"; done; } > "$data/dict.txt"
    binarize() { "$python" -m fairseq_cli.preprocess --only-source --trainpref "$1/train$2" --validpref "$1/valid$2" --destdir "$3" "${@:4}"; }
    rm -rf "$data/bin"
    binarize "$data/pieces/text" .txt "$data/bin/text" --srcdict "$data/dict.txt"
    binarize "$data/pieces/task" .input0 "$data/bin/task/input0" --srcdict "$data/dict.txt"
    binarize "$data/corpus/task" .label "$data/bin/task/label"
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
