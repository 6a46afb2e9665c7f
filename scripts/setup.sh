#!/usr/bin/env bash
# Create .venv and install everything into it, unless that was done since setup.py, this script, the versions in
# fairseq.txt and constraints.txt, or one of the variables below changed. An installed PyTorch is kept unless TORCH or
# PIP_CONSTRAINT asks for another.
#
#   scripts/setup.sh                           # with the first suitable python3, python3.13, python3.12 or python3.11
#   PYTHON=/path/to/python scripts/setup.sh
#   TORCH=2.11.0 scripts/setup.sh              # another PyTorch, from 2.9 on; a new .venv gets 2.13.0
#   PIP_CONSTRAINT= scripts/setup.sh           # the newest versions that setup.py allows, not those in constraints.txt
#   PIP_CONSTRAINT=scripts/slurm/constraints-v100.txt ... scripts/setup.sh      # for V100; see that file
#
# Requires Python 3.11 to 3.13, a C++ compiler and a package index. Takes 3 to 5 minutes.
set -euo pipefail
[ $# = 0 ] || { echo "setup.sh takes no arguments; set PYTHON to choose a Python" >&2; exit 2; }
python=${PYTHON:-}
case $python in */*) python=$(realpath "$python") ;; esac
cd "$(dirname "$0")/.."

version=${TORCH:-2.13.0}
if ! [[ $version =~ ^[0-9] ]] || [ "$(printf '%s\n' 2.9 "$version" | sort -V | head -n 1)" != 2.9 ]; then
    echo "setup.sh: TORCH must be a version of PyTorch from 2.9 on, got $TORCH" >&2
    exit 2
fi
installed=$(.venv/bin/python -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null || true)
asked=${PIP_CONSTRAINT+yes}
export PIP_CONSTRAINT=${PIP_CONSTRAINT-scripts/constraints.txt}
constraints=$(cat "${PIP_CONSTRAINT:-/dev/null}")
torch=torch==${TORCH:-${installed:-$version}}
if grep -q '^torch[=<>~]' <<<"$constraints"; then torch=torch; fi
versions=(setup.py scripts/setup.sh scripts/fairseq.txt scripts/constraints.txt)
marker=.venv/.installed-$(cat "${versions[@]}" | cksum | cut -d' ' -f1) # has the constraints
if [ -e "$marker" ] && [[ $installed == "${TORCH:-}"* ]] &&
    { [ -z "$asked" ] || [ "$constraints" = "$(cat "$marker")" ]; } &&
    { [ -z "$python" ] || [ "$(.venv/bin/python --version)" = "$("$python" --version)" ]; }; then
    exit 0
fi

is_supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }
if [ -z "$python" ]; then
    for candidate in python3 python3.13 python3.12 python3.11; do
        if is_supported "$candidate"; then python=$candidate; break; fi
    done
fi
if [ -z "$python" ] || ! is_supported "$python"; then
    echo "setup.sh: Python must be 3.11 to 3.13, got $("${python:-python3}" --version 2>&1 || true); set PYTHON" >&2
    exit 1
fi
command -v "${CXX:-c++}" >/dev/null || { echo "setup.sh: ${CXX:-c++} not found; install a C++ compiler, or set CXX" >&2; exit 1; }

echo "setup.sh: installing into .venv with $("$python" --version) ..."
"$python" -m venv --clear .venv
pip() { .venv/bin/python -m pip --disable-pip-version-check --quiet "$@"; }
# fairseq is built from source against the installed torch and numpy: without build isolation, which would download
# another torch, and without dependencies (see setup.py). It is installed last, so that pip does not report the missing
# torchaudio.
pip install "$torch" numpy 'setuptools<81' wheel cython
pip install --no-build-isolation --editable '.[all,test,lint,docs]'
pip install --no-build-isolation --no-deps --require-hashes --requirement scripts/fairseq.txt
.venv/bin/python -c 'import fairseq_linformer.models' 2>/dev/null || {
    echo "setup.sh: installed, but importing fairseq_linformer.models fails:" >&2
    .venv/bin/python -c 'import fairseq_linformer.models'
}
echo "$constraints" >"$marker"
