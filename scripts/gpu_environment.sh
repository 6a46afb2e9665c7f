# What scripts/gpu_check.sh and scripts/gpu_figure_3.sh share: Python with fairseq on a machine that has PyTorch and no
# network. To be sourced in the project's folder.
#
#   PYTHON   (default: that of .venv, or python3)
#   TARGET   version of the other machine's Python, for `fetch_wheels` (default: 3.12)
python=${PYTHON:-python3}
[ -n "${PYTHON:-}" ] || [ ! -x .venv/bin/python ] || python=$PWD/.venv/bin/python
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
programs='import fairseq_cli.train, fairseq_cli.validate, fairseq.data.data_utils_fast, fairseq_linformer.models'

# fetch_wheels FOLDER: into FOLDER/wheels, what a GPU machine may lack. Of fairseq it is the source: only the three
# extensions that this package uses are built, in 10 seconds.
fetch_wheels() {
    local to=(--no-deps --dest "$1/wheels" --constraint scripts/constraints.txt)
    rm -rf "$1/wheels"
    "$python" -m pip download -q "${to[@]}" --no-binary :all: --no-build-isolation --requirement scripts/fairseq.txt
    "$python" -m pip download -q "${to[@]}" --only-binary :all: --python-version "${TARGET:-3.12}" \
        --platform manylinux2014_x86_64 --platform manylinux_2_28_x86_64 hydra-core omegaconf bitarray
    "$python" -m pip wheel -q --no-deps --wheel-dir "$1/wheels" --constraint scripts/constraints.txt \
        antlr4-python3-runtime
}

# use_wheels FOLDER: check that fairseq's programs can be imported, with FOLDER/wheels if that is necessary.
use_wheels() {
    "$python" -c "$programs" 2> /dev/null && return
    local site=$1/site
    if [ ! -e "$site/built" ]; then
        rm -rf "$site"
        "$python" -m pip install -q --no-index --no-deps --target "$site" "$1"/wheels/*.whl
        tar -xzf "$1"/wheels/fairseq*.tar.gz -C "$site" --strip-components=1
        "$python" scripts/build_fairseq_extensions.py "$site" > "$1/build.log" 2>&1 || { tail -n 20 "$1/build.log" >&2; exit 1; }
        touch "$site/built"
    fi
    export PYTHONPATH=$site:$PYTHONPATH
    "$python" -c "$programs" > /dev/null || {
        echo "fairseq cannot be imported (above); add what is missing to fetch_wheels in scripts/gpu_environment.sh" >&2
        exit 1
    }
}
