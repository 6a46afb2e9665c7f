#!/usr/bin/env bash
# Why it works, on models of this project: the spectrum of attention (Figure 1 of the paper) and the two theorems. The
# result is results/spectrum*.json, results/theorem*.json, spectrum.md, theorems.md and their figures. On one core it
# takes 40 minutes; killed and started again it goes on where it was.
#
#   scripts/analysis.sh WIKI BOOKS IMDB OUT    WIKI is the folder that scripts/real_text.sh filled, BOOKS a text (a paragraph
#                                              a line), IMDB its test set as TSV (id, label, text), OUT takes all runs
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 4 ] && [ -s "$1/roberta-512/checkpoint_last.pt" ] && [ -s "$2" ] && [ -s "$3" ] || {
    echo "usage: scripts/analysis.sh WIKI BOOKS IMDB OUT, with the folder of real_text.sh, a text and a TSV" >&2; exit 2; }
wiki=$1 books=$2 imdb=$3 out=$4
[ -n "${VIRTUAL_ENV:-}" ] || { scripts/setup.sh; source .venv/bin/activate; }
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
mkdir -p "$out"
[ -e "$out/commit" ] || git describe --always --abbrev=40 --dirty > "$out/commit"
tokenizer=(--dictionary "$wiki/bin/dict.txt" --sentencepiece "$wiki/spm/spm.model")

# Linformers from that RoBERTa: k = 256 and 64, 1,500 updates of 2,048 tokens with the rate going to zero.
for k in 256 64; do
    run=$out/linformer-$k
    [ -e "$run/done" ] && continue
    mkdir -p "$run"; rm -f "$run/start.pt"
    fairseq-linformer convert from-roberta "$wiki/roberta-512/checkpoint_last.pt" "$run/start.pt" --projected-dim "$k" --sharing headwise
    fairseq-train "$wiki/bin" --user-dir fairseq_linformer --task masked_lm --criterion masked_lm \
        --arch linformer_roberta_tiny --projected-dim "$k" --sharing headwise --encoder-normalize-before --dropout 0 \
        --attention-dropout 0 --tokens-per-sample 512 --batch-size 4 --finetune-from-model "$run/start.pt" \
        --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-6 --weight-decay 0.01 --clip-norm 1.0 --lr 1e-3 \
        --lr-scheduler polynomial_decay --warmup-updates 150 --total-num-update 1500 --max-update 1500 --seed 1 \
        --cpu --num-workers 0 --save-dir "$run" --no-epoch-checkpoints --log-format json --log-interval 100 > "$run/train.log" 2>&1
    touch "$run/done"
done
