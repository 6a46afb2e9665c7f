#!/usr/bin/env bash
# The whole way in one command: text, pieces, pretraining, perplexity, finetuning, accuracy.
#
#   scripts/demo.sh [FOLDER]            FOLDER, or $DEMO_DIR, or data/demo takes what it makes
#
# It pretrains a small Linformer on the English text that every Python carries (the topics
# of help() and the docstrings of the standard library), shows that it predicts masked words
# better than any model without context could, and finetunes it to tell which package a
# docstring is from. In between all is stock fairseq; logs/STEP.log begins with its command.
#
# Needs what scripts/setup.sh needs; after the installation neither network nor GPU. Takes
# under 5 minutes on 2 cores. Killed and started again it goes on where it was; finished and
# started again it only makes the table again. To start afresh, delete the folder.
set -euo pipefail

demo=${1:-${DEMO_DIR:-}}
# A folder that is given is meant from where the caller stands.
[ -z "$demo" ] || demo=$(mkdir -p "$demo" && cd "$demo" && pwd)
cd "$(dirname "$0")/.."
demo=${demo:-data/demo}
updates=${DEMO_UPDATES:-2000}           # of pretraining, 1,024 tokens each
n=32                                    # tokens a sample, positions of the model
k=16                                    # positions that keys and values are projected to

scripts/setup.sh
source .venv/bin/activate
# A model this small gains nothing from a second thread: the other core makes the batches.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
mkdir -p "$demo/done" "$demo/logs"

# step NAME COMMAND...   runs the command, unless it finished before: then done/NAME is
# there and holds the seconds that it took. What it prints goes to logs/NAME.log.
step() {
    local name=$1 log=$demo/logs/$1.log start=$SECONDS
    shift
    if [ -e "$demo/done/$name" ]; then echo "$name: done before"; return; fi
    printf '%s: ' "$name"
    printf '%q ' "$@" >> "$log"; echo >> "$log"
    if ! "$@" >> "$log" 2>&1; then
        printf 'failed; the end of %s:\n' "$log" >&2
        tail -n 20 "$log" >&2
        exit 1
    fi
    echo $((SECONDS - start)) > "$demo/$name.partial"
    mv "$demo/$name.partial" "$demo/done/$name"
    echo "$(cat "$demo/done/$name") s"
}

# fairseq makes checkpoint_last.pt by copying; a kill may have left half of it. Without it
# training starts afresh; with it, it goes on.
drop_if_cut() {
    [ ! -e "$1" ] || python -m zipfile -t "$1" > /dev/null 2>&1 || rm "$1"
}

# Text and a labelled task, then 1,000 pieces and what fairseq makes of them.
step corpus python -m fairseq_linformer.corpus.embedded "$demo/corpus"
step pieces python -m fairseq_linformer.corpus.spm train "$demo/spm" \
    --input "$demo/corpus/text/train.txt" --vocab-size 1000
step encode python -m fairseq_linformer.corpus.spm encode "$demo/spm/spm.model" \
    --input "$demo"/corpus/{text/{train,valid}.txt,task/{train,valid}.input0} \
    --output "$demo"/pieces/{text/{train,valid}.txt,task/{train,valid}.input0}
step binarise-text fairseq-preprocess --only-source --srcdict "$demo/spm/dict.txt" \
    --trainpref "$demo/pieces/text/train.txt" --validpref "$demo/pieces/text/valid.txt" \
    --destdir "$demo/bin/text"
step binarise-inputs fairseq-preprocess --only-source --srcdict "$demo/spm/dict.txt" \
    --trainpref "$demo/pieces/task/train.input0" --validpref "$demo/pieces/task/valid.input0" \
    --destdir "$demo/bin/task/input0"
# fairseq refuses to write a dictionary over one that is there, whole or not.
[ -e "$demo/done/binarise-labels" ] || rm -rf "$demo/bin/task/label"
step binarise-labels fairseq-preprocess --only-source \
    --trainpref "$demo/corpus/task/train.label" --validpref "$demo/corpus/task/valid.label" \
    --destdir "$demo/bin/task/label"

# In what follows two options are not fairseq's defaults for a reason:
#   --required-batch-size-multiple 1   or the last batch is left out, in validation too, when
#                                      its size is no multiple of 8
#   --data-buffer-size 0               or a thread still fills the buffer when the process ends,
#                                      which may end it with "terminate called" and status 134

# Pretraining. The rate stays up for most of the run: see it fall too early and the model
# never leaves the plateau of a model without context.
hold=$((updates * 7 / 10))
warmup=$((updates / 10))
pretrain=(fairseq-train "$demo/bin/text" --user-dir fairseq_linformer
    --task masked_lm --criterion masked_lm --tokens-per-sample $n --sample-break-mode none
    --arch linformer_roberta_tiny --max-positions $n --projected-dim $k --sharing headwise
    --encoder-normalize-before --dropout 0 --attention-dropout 0
    --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-6 --weight-decay 0.01
    --clip-norm 1.0 --batch-size 32 --batch-size-valid 128 --required-batch-size-multiple 1
    --cpu --num-workers 1 --data-buffer-size 0 --seed 1
    --no-epoch-checkpoints --log-format json --log-interval 50)
# One update at rate 0 changes nothing: a checkpoint of the model as it starts.
drop_if_cut "$demo/untrained/checkpoint_last.pt"
step untrained "${pretrain[@]}" --lr-scheduler fixed --lr 0 --max-update 1 \
    --disable-validation --save-dir "$demo/untrained"
step validate-before fairseq-validate "$demo/bin/text" --user-dir fairseq_linformer \
    --task masked_lm --path "$demo/untrained/checkpoint_last.pt" \
    --batch-size 128 --required-batch-size-multiple 1 --cpu --num-workers 0 --log-format json
drop_if_cut "$demo/pretrain/checkpoint_last.pt"
step pretrain "${pretrain[@]}" --lr-scheduler tri_stage --lr 2e-3 --warmup-steps $warmup \
    --hold-steps $hold --decay-steps $((updates - warmup - hold)) --final-lr-scale 0.05 \
    --max-update "$updates" --save-interval-updates 500 --keep-interval-updates 1 \
    --save-dir "$demo/pretrain" --tensorboard-logdir "$demo/pretrain/tensorboard"
step validate-after fairseq-validate "$demo/bin/text" --user-dir fairseq_linformer \
    --task masked_lm --path "$demo/pretrain/checkpoint_last.pt" \
    --batch-size 128 --required-batch-size-multiple 1 --cpu --num-workers 0 --log-format json

# Finetuning: the same model with a head on <s> (entry 0 of the dictionary).
drop_if_cut "$demo/finetune/checkpoint_last.pt"
step finetune fairseq-train "$demo/bin/task" --user-dir fairseq_linformer \
    --task sentence_prediction --criterion sentence_prediction --num-classes 8 \
    --classification-head-name packages --init-token 0 --shorten-method truncate \
    --arch linformer_roberta_tiny --max-positions $n --projected-dim $k --sharing headwise \
    --encoder-normalize-before --dropout 0.1 --attention-dropout 0.1 \
    --finetune-from-model "$demo/pretrain/checkpoint_last.pt" \
    --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-6 --weight-decay 0.01 \
    --clip-norm 1.0 --batch-size 32 --batch-size-valid 128 --required-batch-size-multiple 1 \
    --lr-scheduler polynomial_decay --lr 5e-4 --warmup-updates 40 --total-num-update 450 \
    --max-update 450 --best-checkpoint-metric accuracy --maximize-best-checkpoint-metric \
    --cpu --num-workers 1 --data-buffer-size 0 --seed 1 \
    --no-epoch-checkpoints --log-format json --log-interval 50 \
    --save-dir "$demo/finetune" --tensorboard-logdir "$demo/finetune/tensorboard"
step score fairseq-validate "$demo/bin/task" --user-dir fairseq_linformer \
    --task sentence_prediction --criterion sentence_prediction \
    --classification-head-name packages --path "$demo/finetune/checkpoint_best.pt" \
    --batch-size 128 --required-batch-size-multiple 1 --cpu --num-workers 0 --log-format json

# Its numbers come from the logs and checkpoints; it fails if the model has not learnt.
if ! python -m fairseq_linformer.reproduction.demo "$demo" 2> "$demo/logs/table.log"; then
    grep -v '^INFO:' "$demo/logs/table.log" | tail -n 5 >&2
    exit 1
fi
