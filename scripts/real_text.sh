#!/usr/bin/env bash
# Pretrain RoBERTa and Linformers of equal small size on real text with stock fairseq, same
# data and updates: n = 64 from scratch, then n = 512 by growing each of them. The result is
# results/real-text-*.json, with results/real_text.md and its figure. On one core it takes
# two hours; killed and started again it goes on where it was.
#
#   MODELS=headwise scripts/real_text.sh WIKI OUT    only that one; several can run side by side
#   scripts/real_text.sh WIKI OUT       WIKI holds train.txt and valid.txt (a paragraph a line,
#                                       a blank line between documents), OUT takes the runs
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 2 ] && [ -s "$1/train.txt" ] && [ -s "$1/valid.txt" ] || {
    echo "usage: scripts/real_text.sh WIKI OUT, where WIKI holds train.txt and valid.txt" >&2; exit 2; }
wiki=$1 out=$2
[ -n "${VIRTUAL_ENV:-}" ] || { scripts/setup.sh; source .venv/bin/activate; }
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
mkdir -p "$out"
commit=$(git describe --always --abbrev=40 --dirty)

# 17 M tokens of 1,000 case-folded pieces. The curves are drawn from `valid`, the final
# perplexities are those of `test`, the rest of the same file.
if [ ! -e "$out/bin/done" ]; then
    head -n 140000 "$wiki/train.txt" > "$out/train.txt"
    head -n 1500 "$wiki/valid.txt" > "$out/valid.txt"
    tail -n +1501 "$wiki/valid.txt" > "$out/test.txt"
    python -m fairseq_linformer.corpus.spm train "$out/spm" --input "$out/train.txt" --vocab-size 1000
    for split in train valid test; do
        python -m fairseq_linformer.corpus.spm encode "$out/spm/spm.model" \
            --input "$out/$split.txt" --output "$out/$split.spm"
    done
    rm -rf "$out/bin"
    fairseq-preprocess --only-source --srcdict "$out/spm/dict.txt" --trainpref "$out/train.spm" \
        --validpref "$out/valid.spm" --testpref "$out/test.spm" --destdir "$out/bin" --workers 1
    touch "$out/bin/done"
fi

# Equal in all: 2 layers of 128, 4 heads, pre-norm, 2,048 tokens an update.
shape() {  # MODEL N
    case $1 in
        roberta) echo "--arch roberta --encoder-layers 2 --encoder-embed-dim 128 --encoder-ffn-embed-dim 512 --encoder-attention-heads 4" ;;
        *) echo "--arch linformer_roberta_tiny --sharing $1 --projected-dim $(($2 / 2))" ;;
    esac
}
pretrain() {  # MODEL N UPDATES OPTIONS...
    local model=$1 n=$2 updates=$3 run=$out/$1-$2; shift 3
    [ -e "$run/done-$updates" ] && return
    mkdir -p "$run"
    # A run is of one commit, the one that the results will name.
    [ -e "$run/commit" ] || echo "$commit" > "$run/commit"
    [ "$commit" = "$(cat "$run/commit")" ] || {
        echo "real_text.sh: $run was begun at $(cat "$run/commit"), this is $commit; delete it or go back" >&2; exit 1; }
    set -x
    fairseq-train "$out/bin" --user-dir fairseq_linformer --task masked_lm --criterion masked_lm \
        $(shape "$model" "$n") --encoder-normalize-before --dropout 0 --attention-dropout 0 \
        --tokens-per-sample "$n" --batch-size $((2048 / n)) --max-update "$updates" \
        --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-6 --weight-decay 0.01 --clip-norm 1.0 \
        --lr 1e-3 "$@" --seed 1 --cpu --num-workers 0 \
        --save-dir "$run" --save-interval-updates 500 --keep-interval-updates 1 --no-epoch-checkpoints \
        --tensorboard-logdir "$run/tensorboard" --log-format json --log-interval 100 >> "$run/train.log" 2>&1
    { set +x; } 2>/dev/null
    touch "$run/done-$updates"
}
score() {  # MODEL N: perplexity of the last checkpoint on `test`
    local run=$out/$1-$2
    [ -s "$run/test.log" ] && grep -q test_loss "$run/test.log" && return
    fairseq-validate "$out/bin" --user-dir fairseq_linformer --task masked_lm --path "$run/checkpoint_last.pt" \
        --valid-subset test --batch-size $((4096 / $2)) --cpu --num-workers 0 --log-format json > "$run/test.log" 2>&1
}

for model in ${MODELS:-roberta headwise layerwise}; do
    # Stopped half-way and resumed: the second command goes on from the first one's checkpoint.
    pretrain $model 64 4000 --lr-scheduler fixed --warmup-updates 250
    pretrain $model 64 8000 --lr-scheduler fixed --warmup-updates 250
    score $model 64
    [ -e "$out/$model-grown.pt" ] || fairseq-linformer convert resize \
        "$out/$model-64/checkpoint_last.pt" "$out/$model-grown.pt" --max-positions 512
    decay="--lr-scheduler polynomial_decay --warmup-updates 100 --total-num-update 3000"
    pretrain $model 512 1500 $decay --finetune-from-model "$out/$model-grown.pt"
    pretrain $model 512 3000 $decay --finetune-from-model "$out/$model-grown.pt"
    score $model 512
done
[ -z "${MODELS:-}" ] || exit 0

# Tokens a second at n = 512: short runs in turn, so that all three see the same machine.
[ -e "$out/speed-commit" ] || echo "$commit" > "$out/speed-commit"
for round in 1 2 3 4 5; do
    for model in roberta headwise layerwise; do
        log=$out/speed-$model-$round.log
        [ -s "$log" ] && grep -q "done training" "$log" && continue
        fairseq-train "$out/bin" --user-dir fairseq_linformer --task masked_lm --criterion masked_lm \
            $(shape $model 512) --encoder-normalize-before --dropout 0 --attention-dropout 0 \
            --tokens-per-sample 512 --batch-size 4 --max-update 60 --optimizer adam --lr 1e-3 \
            --lr-scheduler fixed --seed 1 --cpu --num-workers 0 --no-save --disable-validation \
            --save-dir "$out/none" --log-format json --log-interval 20 > "$log" 2>&1
    done
done
sum=$(sha256sum "$wiki/train.txt" "$wiki/valid.txt" | cut -c1-12 | paste -sd' ')
python -m fairseq_linformer.reproduce.real_text "$out" --results results \
    --data "${DATA_NAME:-wiki}: 140,000 lines of train.txt, valid.txt; sha256 $sum"
