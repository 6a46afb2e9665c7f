#!/usr/bin/env bash
# Install everything into .venv, made anew. Does nothing if that was done and neither setup.py
# nor this script nor pip's constraints have changed.
#
#   scripts/setup.sh                    with the first of python3, python3.13, 3.12, 3.11 that fits
#   PYTHON=/path/to/python scripts/setup.sh
#   PIP_CONSTRAINT=scripts/slurm/constraints-v100.txt ... scripts/setup.sh      for V100, as that file says
#
# Needs Python 3.11 to 3.13, a C++ compiler and the package registry; takes 3 to 5 minutes.
set -euo pipefail
[ $# = 0 ] || { echo "setup.sh takes no arguments; PYTHON=... chooses the Python" >&2; exit 2; }
python=${PYTHON:-}
case $python in */*) python=$(realpath "$python") ;; esac
cd "$(dirname "$0")/.."

done_mark=.venv/.installed-$(cat setup.py scripts/setup.sh ${PIP_CONSTRAINT:+"$PIP_CONSTRAINT"} | cksum | cut -d' ' -f1)
[ -e "$done_mark" ] && exit 0

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }
if [ -z "$python" ]; then
    for candidate in python3 python3.13 python3.12 python3.11; do
        if fits "$candidate"; then python=$candidate; break; fi
    done
fi
if [ -z "$python" ] || ! fits "$python"; then
    echo "setup.sh: Python 3.11 to 3.13 is needed; ${python:-python3} is $("${python:-python3}" --version 2>&1 || true). Set PYTHON." >&2
    exit 1
fi
command -v "${CXX:-c++}" >/dev/null || { echo "setup.sh: a C++ compiler is needed (${CXX:-c++} was not found)" >&2; exit 1; }

echo "setup.sh: installing into .venv with $("$python" --version) ..."
"$python" -m venv --clear .venv
pip() { .venv/bin/python -m pip --disable-pip-version-check --quiet "$@"; }
# fairseq is built from source against the torch and numpy that are there, without build
# isolation, which would fetch another torch; and without its dependencies: see setup.py.
# It comes last, so that pip does not complain of the one that is left out, torchaudio.
pip install torch==2.13.0 numpy 'setuptools<81' wheel cython
pip install --no-build-isolation --editable '.[text,curves,huggingface,test]'
pip install --no-build-isolation --no-deps fairseq-fixed==0.12.3.1
.venv/bin/python -c 'import fairseq_linformer.models' 2>/dev/null || {
    echo "setup.sh: installed, but importing fairseq_linformer.models fails:" >&2
    .venv/bin/python -c 'import fairseq_linformer.models'
}
touch "$done_mark"
