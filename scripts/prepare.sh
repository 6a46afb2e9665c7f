#!/usr/bin/env bash
# Prepare real text and tasks, and measure it beside the stock route: results/prepared.md and the JSON files
# beside it. 25 minutes on 2 cores, nearly all of it the stock route three times (ROUNDS=1: once).
#
#   scripts/prepare.sh DATA OUT     DATA holds wiki/train.txt, books/train.txt, gpt2_bpe/, glue/SST-2, glue/QNLI,
#                                   glue/QQP and imdb/; OUT takes what is prepared: OUT/corpus, OUT/tasks and OUT/speed
#                                   are replaced
set -euo pipefail
cd "$(dirname "$0")/.."
needs=(wiki/train.txt books/train.txt gpt2_bpe/dict.txt glue/SST-2 glue/QNLI glue/QQP imdb)
[ $# = 2 ] || {
    echo "usage: scripts/prepare.sh DATA OUT, where DATA holds ${needs[*]}; OUT/corpus, OUT/tasks and OUT/speed are replaced" >&2; exit 2; }
for need in "${needs[@]}"; do
    [ -s "$1/$need" ] || { echo "prepare.sh: $1/$need is missing or empty; DATA must hold ${needs[*]}" >&2; exit 2; }
done
data=$1 out=$2
[ -n "${VIRTUAL_ENV:-}" ] || { scripts/setup.sh; source .venv/bin/activate; }
text="${TEXT_NAME:-wiki and books}: sha256 $(sha256sum "$data/wiki/train.txt" "$data/books/train.txt" | cut -c1-12 | paste -sd' ')"
python -m fairseq_linformer.reproduce.preparing "$out/speed" --rounds "${ROUNDS:-3}" --gpt2 "$data/gpt2_bpe" \
    --source "$data/wiki/train.txt" --source "$data/books/train.txt" --data "$text"
begun=$(date +%s)
rm -rf "$out/corpus" "$out/tasks"
fairseq-linformer prepare pretraining "$out/corpus" --gpt2 "$data/gpt2_bpe" --source "$data/wiki/train.txt" --source "$data/books/train.txt"
tasks=()
for task in sst-2:glue/SST-2 qnli:glue/QNLI qqp:glue/QQP imdb:imdb; do
    tasks+=("$out/tasks/${task%%:*}")
    fairseq-linformer prepare "${task%%:*}" "$out/tasks/${task%%:*}" --source "$data/${task#*:}" --gpt2 "$data/gpt2_bpe"
done
python -m fairseq_linformer.reproduce.prepared "$out/corpus" "${tasks[@]}" --seconds $(($(date +%s) - begun)) \
    --data "$text; ${TASKS_NAME:-SST-2, QNLI, QQP as GLUE has them, IMDB as TSV}"
