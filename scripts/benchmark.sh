#!/usr/bin/env bash
# All benchmarks of a CPU, in pieces of at most 9 minutes (sst2 takes 12); what is measured is not measured again, so
# killed and started again it goes on. Alone on 2 cores all pieces together take about two hours.
#
#   scripts/benchmark.sh OUT                  every piece; OUT takes the cells, results/ the ledger, tables and figures
#   SST2=data/sst-2 scripts/benchmark.sh OUT  with finetuning on real sentences, as `fairseq-linformer prepare sst-2 --gpt2` writes them
#   scripts/benchmark.sh OUT steps memory     these pieces only
#
# A piece that says that cells are left wants the same command again. What is promised at base size (12 layers, 2 threads) is in
# steps, finetuning, memory, whole, pertoken and sst2; Table 3 and Figure 2 have 2 layers (at n = 65,536 one) and one thread.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -ge 1 && $1 != -* ]] || { echo "usage: scripts/benchmark.sh OUT [PIECE...]" >&2; exit 2; }
out=$1
shift
all=(steps finetuning memory whole pertoken short middle long longer longest families peers peersshort peersmemory peersshortmemory process shares steps4096)
pieces=("$@")
[ $# -gt 0 ] || pieces=("${all[@]}" ${SST2:+sst2})
for piece in "${pieces[@]}"; do  # before the first takes its minutes
    [[ " ${all[*]} sst2 " = *" $piece "* ]] || { echo "no piece is called $piece; there are ${all[*]} sst2" >&2; exit 2; }
    [ "$piece" != sst2 ] || : "${SST2:?says the folder of SST-2}"
done
[ -n "${VIRTUAL_ENV:-}" ] || { scripts/setup.sh; source .venv/bin/activate; }
export OMP_NUM_THREADS=1
[[ " ${pieces[*]}" != *" peers"* ]] || python -c "import linformer, linformer_pytorch" 2>/dev/null ||
    python -m pip install --quiet --no-deps linformer linformer-pytorch einops
run() { python -m fairseq_linformer.cli benchmark "$1" "$out" --results "${RESULTS:-results}" --threads "$2" --minutes 8.5 "${@:3}"; }
ours=ours,roberta,authors theirs=ours,linformer,linformer-pytorch  # of these one fills short inputs up to n: 512 tokens become 8,192
for piece in "${pieces[@]}"; do
    echo "== $piece"
    case $piece in
        steps)       run training 2 --part steps --models $ours --lengths 512,1024,2048 --finetuning none ;;
        finetuning)  run training 2 --part steps --models $ours --lengths 512 ;;
        steps4096)   run training 2 --part steps --models $ours --lengths 4096 --finetuning none --rounds 2 ;;
        memory)      run training 2 --part memory --models $ours ;;
        whole)       run inference 2 --whole --lengths 512,4096,16384 --rounds 2 ;;
        pertoken)    run scaling 2 --part pertoken --layers 12 --lengths 512,16384 ;;
        short)       run inference 1 --layers 2 --lengths 512,1024,2048,4096 ;;
        middle)      run inference 1 --layers 2 --lengths 8192 ;;
        long)        run inference 1 --layers 2 --lengths 16384 ;;
        longer)      run inference 1 --layers 2 --lengths 32768 --rounds 1 --warm-up 0 ;;
        longest)     run inference 1 --layers 1 --lengths 65536 --rounds 1 --warm-up 0 --k 128,256,512 ;;
        families)    run scaling 1 --part families --lengths 512,1024,2048,4096,8192 ;;
        peers)       run training 2 --part steps --models $theirs --rounds 2 --finetuning none ;;
        peersshort)  run training 2 --part steps --models $theirs --rounds 2 --lengths none --tokens 512 ;;
        peersmemory) run training 2 --part memory --models $theirs --finetuning none ;;
        peersshortmemory) run training 2 --part memory --models $theirs --lengths none --tokens 512 ;;
        process)     run training 2 --part process --models $ours --lengths 512 ;;
        shares)      run training 2 --part shares --models $ours --lengths 512 --rounds 1 --updates 6 ;;
        sst2)        run finetuning 2 --data "$SST2" ;;  # 12 minutes
    esac
done
