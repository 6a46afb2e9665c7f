#!/usr/bin/env bash
# How E and F should start and how fast they should learn: all the runs, and their tables in
# results/projections.md. On one core it takes six hours; killed and started again it goes on.
#
#   scripts/projections.sh WIKI TEXT OUT     WIKI and TEXT are the folders that scripts/real_text.sh
#                                            and scripts/demo.sh have filled, OUT takes the runs
#   scripts/projections.sh WIKI TEXT OUT scratch closing      only these families of runs
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 3 ] && [ -s "$1/roberta-512/checkpoint_last.pt" ] && [ -s "$2/bin/text/dict.txt" ] || {
    echo "usage: scripts/projections.sh WIKI TEXT OUT [FAMILY...], with the folders of real_text.sh and demo.sh" >&2; exit 2; }
wiki=$1 text=$2 out=$3
shift 3
families=("$@")
[ $# -gt 0 ] || families=(converted roberta scratch closing longer staggered staggered-scratch sharing dimension starts kinds cold)
[ -n "${VIRTUAL_ENV:-}" ] || { scripts/setup.sh; source .venv/bin/activate; }
python -m fairseq_linformer.reproduce.projection_runs "$out" "${families[@]}" --text "$text" --wiki "$wiki"
data=${DATA_NAME:-Wikipedia as for real_text.md, and the text of demo.sh}
[ $# -gt 0 ] || python -m fairseq_linformer.reproduce.resizing "$out" --wiki "$wiki" --results results --data "$data"
python -m fairseq_linformer.reproduce.projection_report "$out" --results results --data "$data"
