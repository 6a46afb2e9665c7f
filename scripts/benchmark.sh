#!/usr/bin/env bash
# All benchmarks of a CPU, with one thread, in pieces of at most 9 minutes; what is measured is not measured again, so
# killed and started again it goes on. Alone on 2 cores all pieces together take about an hour and a half.
#
#   scripts/benchmark.sh OUT                  every piece; OUT takes the cells, results/ the ledger, tables and figures
#   scripts/benchmark.sh OUT steps memory     these pieces only
#
# A piece that says that cells are left wants the same command again.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: scripts/benchmark.sh OUT [PIECE...]" >&2; exit 2; }
out=$1
shift
pieces=("$@")
[ $# -gt 0 ] || pieces=(steps finetuning memory short middle long longer longest whole pertoken scaling peers process steps4096)
[ -n "${VIRTUAL_ENV:-}" ] || { scripts/setup.sh; source .venv/bin/activate; }
export OMP_NUM_THREADS=1
python -c "import linformer, linformer_pytorch" 2>/dev/null || python -m pip install --quiet --no-deps linformer linformer-pytorch einops
run() { python -m fairseq_linformer.cli benchmark "$1" "$out" --results "${RESULTS:-results}" --threads 1 --minutes 8.5 "${@:2}"; }
for piece in "${pieces[@]}"; do
    echo "== $piece"
    case $piece in
        steps)      run training --part steps --lengths 512,1024,2048 --finetuning none ;;
        finetuning) run training --part steps --lengths 512 ;;
        steps4096)  run training --part steps --lengths 4096 --finetuning none --rounds 2 ;;
        memory)     run training --part memory ;;
        short)      run inference --layers 2 --lengths 512,1024,2048,4096 ;;
        middle)     run inference --layers 2 --lengths 8192 ;;
        long)       run inference --layers 2 --lengths 16384 ;;
        longer)     run inference --layers 2 --lengths 32768 --rounds 1 --warm-up 0 ;;
        longest)    run inference --layers 1 --lengths 65536 --rounds 1 --warm-up 0 --k 128,256,512 ;;
        whole)      run inference --whole --layers 2 --lengths 512,4096,16384 ;;
        pertoken)   run scaling --layers 2 --models linformer --lengths 512,16384 ;;
        scaling)    run scaling --layers 2 --lengths 512,1024,2048,4096,8192 ;;
        peers)      run training --part steps --models ours,linformer,linformer-pytorch --lengths 512 --finetuning 32,128 ;;
        process)    run training --part process --lengths 512 --models ours,roberta,authors ;;
        *) echo "no piece is called $piece" >&2; exit 2 ;;
    esac
done
