#!/usr/bin/env bash
# The whole pipeline in one command: tokenizer, pretraining, perplexity, finetuning, accuracy.
#
#   scripts/demo.sh [FOLDER]            # output folder (default: $DEMO_DIR, else data/demo)
#
# Pretrains a small Linformer on the English text that comes with Python (the topics of help() and the docstrings of the
# standard library), shows that it predicts masked words better than any model without context could, and finetunes it
# to classify docstrings by package. Training and validation are fairseq's own commands; logs/STEP.log begins with them.
#
# Requires what scripts/setup.sh requires; after the installation neither network nor GPU. Takes about 5 minutes on 2
# cores. Rerun to resume; delete the folder to start over.
set -euo pipefail

scripts=$(cd "$(dirname "$0")" && pwd)
demo=${1:-${DEMO_DIR:-}}
# FOLDER is relative to the caller's working directory.
[ -z "$demo" ] || demo=$(mkdir -p "$demo" && cd "$demo" && pwd)
# In an active environment with the package, the demo runs in the current folder; else in this source tree, which is
# installed first.
if [ -z "${VIRTUAL_ENV:-}" ] || ! [ -x "$VIRTUAL_ENV/bin/fairseq-linformer" ]; then
    cd "$scripts/.."
    scripts/setup.sh
    source .venv/bin/activate
fi
plugin=$(fairseq-linformer path plugin)
demo=${demo:-data/demo}
updates=${DEMO_UPDATES:-2000}           # pretraining updates of 1,024 tokens
n=32                                    # tokens per sample
k=16                                    # projected dimension

# A model this small gains nothing from a second thread; the other core builds batches.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
mkdir -p "$demo/done" "$demo/logs"

# step NAME COMMAND...   runs the command, unless done/NAME exists, which has the seconds it took. Output goes to
# logs/NAME.log.
step() {
    local name=$1 log=$demo/logs/$1.log start=$SECONDS
    shift
    if [ -e "$demo/done/$name" ]; then echo "$name: already done"; return; fi
    printf '%s: ' "$name"
    printf '%q ' "$@" >> "$log"; echo >> "$log"
    if ! "$@" >> "$log" 2>&1; then
        printf 'failed; last lines of %s:\n' "$log" >&2
        tail -n 20 "$log" >&2
        exit 1
    fi
    echo $((SECONDS - start)) > "$demo/$name.partial"
    mv "$demo/$name.partial" "$demo/done/$name"
    echo "$(cat "$demo/done/$name") s"
}

# Text and a labeled task, a tokenizer of 1,000 pieces, and fairseq's data.
text=$demo/data/text/shard0 task=$demo/data/task
step corpus python "$scripts/python_docs.py" "$demo/corpus"
step tokenizer fairseq-linformer prepare sentencepiece "$demo/spm" --source "$demo/corpus/text.txt" --vocab-size 1000 --fold-case
step prepare-text fairseq-linformer prepare pretraining "$demo/data/text" --source "$demo/corpus/text.txt" \
    --tokenizer "$demo/spm/spm.model" --valid-share 0.1
step prepare-task fairseq-linformer prepare own "$task" --train "$demo/corpus/train.tsv" --valid "$demo/corpus/valid.tsv" \
    --text-column text --label-column package --tokenizer "$demo/spm/spm.model" --max-positions $n

# Below, --required-batch-size-multiple 1 differs from fairseq's default, with which the last batch is dropped, in
# validation too, unless its size is a multiple of 8.

# Pretraining. The learning rate is high for most of the run: if it decays too early, the model never leaves the plateau
# of a model without context.
hold=$((updates * 7 / 10))
warmup=$((updates / 10))
finetuning=$((updates * 9 / 40))
pretrain=(fairseq-train "$text" --user-dir "$plugin"
    --task masked_lm --criterion masked_lm --tokens-per-sample $n --sample-break-mode none
    --arch linformer_roberta_tiny --max-positions $n --projected-dim $k --sharing headwise
    --encoder-normalize-before --dropout 0 --attention-dropout 0
    --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-6 --weight-decay 0.01
    --clip-norm 1.0 --batch-size 32 --batch-size-valid 128 --required-batch-size-multiple 1
    --cpu --num-workers 1 --seed 1
    --no-epoch-checkpoints --log-format json --log-interval 50)
# One update at learning rate 0 saves the untrained model.
step untrained "${pretrain[@]}" --lr-scheduler fixed --lr 0 --max-update 1 \
    --disable-validation --save-dir "$demo/untrained"
step validate-before fairseq-validate "$text" --user-dir "$plugin" \
    --task masked_lm --path "$demo/untrained/checkpoint_last.pt" \
    --batch-size 128 --required-batch-size-multiple 1 --cpu --num-workers 0 --log-format json
step pretrain "${pretrain[@]}" --lr-scheduler tri_stage --lr 2e-3 --warmup-steps $warmup \
    --hold-steps $hold --decay-steps $((updates - warmup - hold)) --final-lr-scale 0.05 \
    --max-update "$updates" --save-interval-updates $((updates / 4)) --keep-interval-updates 1 \
    --save-dir "$demo/pretrain" --tensorboard-logdir "$demo/pretrain/tensorboard"
step validate-after fairseq-validate "$text" --user-dir "$plugin" \
    --task masked_lm --path "$demo/pretrain/checkpoint_last.pt" \
    --batch-size 128 --required-batch-size-multiple 1 --cpu --num-workers 0 --log-format json

# Finetuning: the same model with a classification head on <s> (token ID 0).
step finetune fairseq-train "$task" --user-dir "$plugin" \
    --task sentence_prediction --criterion sentence_prediction --num-classes 8 \
    --classification-head-name packages --init-token 0 \
    --arch linformer_roberta_tiny --max-positions $n --projected-dim $k --sharing headwise \
    --encoder-normalize-before --dropout 0.1 --attention-dropout 0.1 \
    --finetune-from-model "$demo/pretrain/checkpoint_last.pt" \
    --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-6 --weight-decay 0.01 \
    --clip-norm 1.0 --batch-size 32 --batch-size-valid 128 --required-batch-size-multiple 1 \
    --lr-scheduler polynomial_decay --lr 5e-4 --warmup-updates $((updates / 50)) --total-num-update $finetuning \
    --max-update $finetuning --best-checkpoint-metric accuracy --maximize-best-checkpoint-metric \
    --cpu --num-workers 1 --seed 1 \
    --no-epoch-checkpoints --log-format json --log-interval 50 \
    --save-dir "$demo/finetune" --tensorboard-logdir "$demo/finetune/tensorboard"
step score fairseq-validate "$task" --user-dir "$plugin" \
    --task sentence_prediction --criterion sentence_prediction \
    --classification-head-name packages --path "$demo/finetune/checkpoint_best.pt" \
    --batch-size 128 --required-batch-size-multiple 1 --cpu --num-workers 0 --log-format json

# The numbers, from the logs; fails if the model has not learned.
if ! python "$scripts/demo_scores.py" "$demo" 2> "$demo/logs/table.log"; then
    grep -Ev '^(DEBUG|INFO):' "$demo/logs/table.log" | tail -n 5 >&2
    exit 1
fi
