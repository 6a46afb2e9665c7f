#!/usr/bin/env bash
# Train without Slurm, one process per GPU. From the root of the repository, on one node:
#
#   scripts/torchrun.sh +run=n512-k256-layerwise task.data=$PWD/data/BIN
#   NPROC_PER_NODE=2 scripts/torchrun.sh --device cpu +run=tiny task.data=$PWD/data/BIN \
#       dataset.batch_size=16 optimization.update_freq=[2]    # micro-batches per update, for each process one
#
# On two nodes, which share the folder of the runs:
#
#   NODES=2 NODE_RANK=0 MASTER_ADDR=node0 scripts/torchrun.sh +run=n512-k256-layerwise task.data=$PWD/data/BIN
#   NODES=2 NODE_RANK=1 MASTER_ADDR=node0 scripts/torchrun.sh +run=n512-k256-layerwise task.data=$PWD/data/BIN
#
# Arguments are overrides, --config, --device, --runs and --name of `fairseq-linformer submit`, which checks them and
# writes the run folder. PYTHON is the interpreter (default: .venv/bin/python). On Ctrl-C or TERM the current update is
# finished and a checkpoint is saved; rerun the command to resume.
set -euo pipefail
root=$(dirname "$0")/..
[ ! -d "$root/fairseq_linformer" ] || cd "$root" # in a source tree; an installed script stays in the current folder
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export PET_SHUTDOWN_TIMEOUT=${PET_SHUTDOWN_TIMEOUT:-600} # seconds; a torchrun before PyTorch 2.13 waits 30 seconds
python=${PYTHON:-$PWD/.venv/bin/python}
processes=${NPROC_PER_NODE:-$("$python" -c 'import torch; print(torch.cuda.device_count() or 1)')}
run=$("$python" -m fairseq_linformer.cli submit --no-sbatch --nodes "${NODES:-1}" --ntasks-per-node "$processes" "$@")
[ -d "$run" ] || { echo "$run"; exit; } # the text of --help
exec "$python" -m torch.distributed.run \
    --nnodes "${NODES:-1}" --node-rank "${NODE_RANK:-0}" --nproc-per-node "$processes" \
    --master-addr "${MASTER_ADDR:-127.0.0.1}" --master-port "${MASTER_PORT:-29500}" \
    -m fairseq_linformer.training.worker "$run"
