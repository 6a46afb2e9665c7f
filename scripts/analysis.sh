#!/usr/bin/env bash
# Why it works, on models of this project: the spectrum of attention (Figure 1 of the paper) and the two theorems. The
# result is results/spectrum*.json, results/theorem*.json, optimal-rank-k.json, spectrum.md, theorems.md and their figures. On one
# core it takes half an hour; killed and started again it goes on where it was.
#
#   scripts/analysis.sh WIKI BOOKS IMDB OUT    WIKI is the folder that scripts/real_text.sh filled, BOOKS a text (a paragraph
#                                              a line), IMDB its test set as TSV (id, label, text), OUT takes all runs
#   DATA_NAME=... NOTE=...                     what the texts are, and what is to be said of the models, in the entries
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 4 ] && [ -s "$1/roberta-512/checkpoint_last.pt" ] && [ -s "$1/headwise-512/checkpoint_last.pt" ] && [ -s "$2" ] && [ -s "$3" ] || {
    echo "usage: scripts/analysis.sh WIKI BOOKS IMDB OUT, with the folder of real_text.sh, a text and a TSV" >&2; exit 2; }
wiki=$1 books=$2 imdb=$3 out=$4
[ -n "${VIRTUAL_ENV:-}" ] || { scripts/setup.sh; source .venv/bin/activate; }
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
mkdir -p "$out"
noted() { [ -e "$1" ] || git describe --always --abbrev=40 --dirty > "$1"; }  # the commit that begins a run
tokenizer=(--dictionary "$wiki/bin/dict.txt" --sentencepiece "$wiki/spm/spm.model")

# How good these models are: perplexity on held-out text.
for model in roberta headwise; do
    log=$out/perplexity-$model.log
    noted "$out/perplexity-$model.commit"
    grep -qs test_ppl "$log" || fairseq-validate "$wiki/bin" --user-dir fairseq_linformer --task masked_lm \
        --path "$wiki/$model-512/checkpoint_last.pt" --valid-subset test --batch-size 8 --cpu --num-workers 0 --log-format json > "$log" 2>&1
done

# Figure 1: one text each for what it was trained on, other books, and classification (a review a line); and what a
# Linformer's own n x k maps look like.
cut -f 3 "$imdb" | tail -n +2 > "$out/imdb.txt"
spectrum() {  # NAME CHECKPOINT TEXT SENTENCES OPTIONS...
    local name=$1 checkpoint=$2 text=$3 sentences=$4; shift 4
    noted "$out/spectrum-$name.commit"
    fairseq-linformer analyze spectrum "$checkpoint" "${tokenizer[@]}" --text "$text" --out "$out/spectrum-$name" \
        --sentences "$sentences" --suggest-k 0.9 "$@"
}
spectrum roberta-64-wiki "$wiki/roberta-64/checkpoint_last.pt" "$wiki/test.txt" 10000 --batch 16
spectrum roberta-512-wiki "$wiki/roberta-512/checkpoint_last.pt" "$wiki/test.txt" 300
spectrum roberta-512-books "$wiki/roberta-512/checkpoint_last.pt" "$books" 300
spectrum roberta-512-imdb "$wiki/roberta-512/checkpoint_last.pt" "$out/imdb.txt" 300 --cut lines
spectrum linformer-wiki "$wiki/headwise-512/checkpoint_last.pt" "$wiki/test.txt" 200

# Pictures of a short sentence, whose tokens are named, and of 512 tokens.
echo "a picture of what each of these words looks at, before and behind it, in every head." > "$out/sentence.txt"
picture() {  # NAME CHECKPOINT TEXT
    local name=$1 checkpoint=$2 text=$3
    [ -e "$out/attention-$name/sentence-1.png" ] || fairseq-linformer analyze attention "$checkpoint" "${tokenizer[@]}" \
        --text "$text" --sentence 1 --out "$out/attention-$name"
    cp "$out/attention-$name/sentence-1.png" "results/attention_${name//-/_}.png"
}
picture roberta "$wiki/roberta-64/checkpoint_last.pt" "$out/sentence.txt"
picture roberta-512 "$wiki/roberta-512/checkpoint_last.pt" "$wiki/test.txt"
picture linformer "$wiki/headwise-512/checkpoint_last.pt" "$wiki/test.txt"

# The theorems: random Q, K, V, then those of the models.
theorems() {  # NAME OPTIONS...
    local name=$1; shift
    noted "$out/theorems-$name.commit"
    [ -s "$out/theorems-$name/theorems.json" ] || fairseq-linformer analyze theorems "$out/theorems-$name" "$@"
}
theorems random --lengths 128,512,2048 --width 64 --draws 60
for d in 8 16 32; do theorems "width-$d" --lengths 512 --width "$d" --draws 30; done
theorems roberta --model "$wiki/roberta-512/checkpoint_last.pt" "${tokenizer[@]}" --text "$wiki/test.txt" --draws 30
theorems linformer --model "$wiki/headwise-512/checkpoint_last.pt" "${tokenizer[@]}" --text "$wiki/test.txt" --draws 30

sum=$(sha256sum "$wiki/test.txt" "$books" "$imdb" | cut -c1-12 | paste -sd' ')
python -m fairseq_linformer.reproduce.analysis "$out" --results results --data "${DATA_NAME:-wiki, books, IMDB}; sha256 $sum" --note "${NOTE:-}"
