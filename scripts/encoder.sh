#!/usr/bin/env bash
# From an encoder on the hub to a Linformer that classifies, as a folder for transformers.
#
#   scripts/encoder.sh [FOLDER]         # output folder (default: data/encoder of this repository)
#
# Downloads the encoder, converts it to a Linformer with a local window, distills it on text, finetunes it on a task, and
# exports it with a model card: the explained variance, the accuracy, and the encoder's license. It trains on the CPU, in
# bf16 if the first run finds instructions for it. Rerun the command to resume; delete the folder to start over.
#
#   ENCODER   encoder: name on the hub, or folder    (default: sentence-transformers/all-MiniLM-L6-v2)
#   TEXT      text to distill on, as for `prepare pretraining --source`  (default: WikiText-103 on the hub)
#   TASK      task to finetune on                    (default: sst-2)
#   SOURCE    its files: hub, or a path              (default: hub)
#   MAX_POSITIONS, PROJECTED_DIM, LOCAL_WINDOW       (default: 512, 128, 16)
#   UPDATES   updates of distillation, of 4 blocks of n tokens          (default: 2000)
#   LR, MAX_EPOCH                                    of finetuning      (default: 1e-4, 1)
set -euo pipefail

encoder=${ENCODER:-sentence-transformers/all-MiniLM-L6-v2}
[ ! -d "$encoder" ] || encoder=$(realpath "$encoder")
text=${TEXT:-hub:Salesforce/wikitext,config=wikitext-103-raw-v1,rows=1000}
source=${SOURCE:-hub}
task=${TASK:-sst-2}
updates=${UPDATES:-2000}
positions=${MAX_POSITIONS:-512}
root=$(cd "$(dirname "$0")/.." && pwd)
if [ -z "${VIRTUAL_ENV:-}" ] || ! [ -x "$VIRTUAL_ENV/bin/fairseq-linformer" ]; then
    "$root/scripts/setup.sh"
    source "$root/.venv/bin/activate"
fi
out=${1:-$root/data/encoder}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)}
mkdir -p "$out"

# NAME OUTPUT VALUE: what was made with one value is not continued with another.
keep_value() {
    local kept=$out/$2.setting
    if ! [ -e "$out/$2" ]; then
        echo "$3" > "$kept"
    elif ! [ -e "$kept" ] || [ "$(cat "$kept")" != "$3" ]; then
        echo "encoder.sh: $1 must be $(cat "$kept" || true) in $out, got $3; use another folder" >&2
        exit 1
    fi
}
keep_value ENCODER transformer "$encoder"
keep_value TEXT text "$text"
# A rerun on another CPU keeps the precision of the first run.
if ! [ -e "$out/bf16.txt" ]; then
    python -c 'from torch import cpu; print(cpu._is_avx512_bf16_supported() or cpu._is_amx_tile_supported())' > "$out/bf16.new"
    mv "$out/bf16.new" "$out/bf16.txt"
fi
amp=() finetune_amp=()
if [ "$(cat "$out/bf16.txt")" = True ]; then
    amp=(--amp) finetune_amp=(common.amp=true)
fi

finetuning=(--data "$out/$task" --source "$source" --runs "$out/runs" --lr "${LR:-1e-4}" --max-epoch "${MAX_EPOCH:-1}"
    --device cpu dataset.num_workers=0 optimizer._name=fused_adam model.dropout=0.0 model.attention_dropout=0.0
    "${finetune_amp[@]}")

# Each command below writes its output completely or not at all.
[ -e "$out/transformer" ] ||
    fairseq-linformer convert "$encoder" "$out/transformer" --arch roberta
largest=$(python -c 'import sys; from fairseq_linformer.checkpoints import files
print(files.get_cfg_section(files.read_checkpoint(sys.argv[1]), "model")["max_positions"])' "$out/transformer/model.pt")
if [ "$positions" -gt "$largest" ]; then
    echo "encoder.sh: MAX_POSITIONS must be at most the $largest of $encoder, got $positions" >&2
    exit 1
fi
linformer=(--max-positions "$positions" --projected-dim "${PROJECTED_DIM:-128}" --local-window "${LOCAL_WINDOW:-16}")
keep_value sizes untrained "${linformer[*]}"
tokenizer=(--tokenizer "$out/transformer/tokenizer.json")
[ -e "$out/untrained" ] ||
    fairseq-linformer convert "$out/transformer/model.pt" "$out/untrained" "${linformer[@]}"
[ -e "$out/$task" ] ||
    fairseq-linformer prepare "$task" "$out/$task" --source "$source" --max-positions "$positions" "${tokenizer[@]}"
# Rejects wrong options of finetuning now, not after hours of distillation.
fairseq-linformer finetune "$task" "$out/untrained/model.pt" "${finetuning[@]}" --name check --dry-run > /dev/null
[ -e "$out/text" ] || fairseq-linformer prepare pretraining "$out/text" --source "$text" "${tokenizer[@]}"
fairseq-linformer linearize "$out/transformer/model.pt" "$out/linformer" --text "$out/text/shard0" \
    "${linformer[@]}" --max-update "$updates" --batch-size 4 "${amp[@]}"
fairseq-linformer finetune "$task" "$out/linformer/model.pt" "${finetuning[@]}" --name "$task"
scored=$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["checkpoint"])' "$out/runs/$task/result.json")
[ -e "$out/export-$task" ] || fairseq-linformer export "$out/runs/$task/$scored" "$out/export-$task"
echo "$out/export-$task: the model, with its card in README.md; open it with"
echo "    from transformers import pipeline"
echo "    classify = pipeline(\"text-classification\", \"$out/export-$task\", trust_remote_code=True)"
echo "    classify(\"a gripping, beautifully shot film\")"
