#!/usr/bin/env bash
# Train without Slurm, one process per GPU. From the root of the repository, on one node:
#
#   scripts/torchrun.sh +run=n512-k256-layerwise task.data=$PWD/data/BIN
#
# On two nodes, first on the node of NODE_RANK=0:
#
#   NODES=2 NODE_RANK=0 MASTER_ADDR=node0 scripts/torchrun.sh +run=n512-k256-layerwise task.data=$PWD/data/BIN
#   NODES=2 NODE_RANK=1 MASTER_ADDR=node0 scripts/torchrun.sh +run=n512-k256-layerwise task.data=$PWD/data/BIN
#
# Arguments and the variables CONFIG, DEVICE, RUNS, NAME, COLLECTIVE_TIMEOUT and PYTHON are as in
# scripts/slurm/train.sbatch. NPROC_PER_NODE is the number of processes per node (default: the number of GPUs). Output
# goes to RUNS/NAME, which all nodes must share. On INT, TERM, HUP or USR1 the current update is finished, a checkpoint is
# saved, and the exit status is 75, within SHUTDOWN_TIMEOUT (600) seconds, or 30 with torchrun before PyTorch 2.13. Rerun
# the command to resume.
set -euo pipefail
root=$(dirname "$0")/..
[ ! -d "$root/fairseq_linformer" ] || cd "$root" # in a source tree; an installed script stays in the current folder
python=${PYTHON:-$PWD/.venv/bin/python}
command -v "$python" >/dev/null || { echo "torchrun.sh: $python not found; run scripts/setup.sh, or set PYTHON" >&2; exit 1; }
nodes=${NODES:-1} node_rank=${NODE_RANK:-0}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
processes_here=${NPROC_PER_NODE:-$("$python" -c 'import torch; print(torch.cuda.device_count())')}
if [ "$processes_here" = 0 ]; then
    echo "torchrun.sh: torch finds no GPU; to train on CPUs, set DEVICE=cpu and NPROC_PER_NODE=2" >&2
    exit 1
fi
reject() { echo "torchrun.sh: $1" >&2; exit 2; }
[[ $nodes =~ ^[1-9][0-9]*$ ]] || reject "NODES must be the number of nodes, got $nodes"
[[ $node_rank =~ ^[0-9]+$ && $node_rank -lt $nodes ]] || reject "NODE_RANK must be between 0 and $((nodes - 1)), got $node_rank"
[[ $processes_here =~ ^[1-9][0-9]*$ ]] || reject "NPROC_PER_NODE must be the number of processes per node, got $processes_here"
for name in MASTER_PORT SHUTDOWN_TIMEOUT; do
    [[ ${!name:-1} =~ ^[0-9]+$ ]] || reject "$name must be a number, got ${!name}"
done
[ "$nodes" = 1 ] || [ -n "${MASTER_ADDR:-}" ] || reject "MASTER_ADDR must be the node of NODE_RANK=0 with NODES=$nodes"
processes=$((nodes * processes_here))

stopping=0
trap 'stopping=1' INT TERM HUP USR1
other_node=()
[ "$node_rank" = 0 ] || other_node=(--folder-only)
run=$("$python" -m fairseq_linformer.training.preflight folder "${other_node[@]}" --processes "$processes" "$@")
for _ in {1..120}; do # node 0 creates the folder
    [ -e "$run/config.yaml" ] || [ "$stopping" = 1 ] && break
    sleep 1
done
"$python" -m fairseq_linformer.training.preflight node "$run" --processes "$processes_here"
if [ "$stopping" = 1 ]; then
    echo "stopped by a signal before training; rerun the command to start"
    exit 75
fi
started=$(mktemp)
trap 'rm -f "$started"' EXIT
if [ -e "$run/done" ]; then
    echo "training is already complete: $run"
    exit 0
fi
logs=$run/logs/torchrun-$(date +%Y%m%d-%H%M%S)-node$node_rank
mkdir -p "$logs"
echo "$processes_here of $processes processes on $(hostname), run folder $run"

export PET_SHUTDOWN_TIMEOUT=${SHUTDOWN_TIMEOUT:-600} # the option of a torchrun that has it; before PyTorch 2.13 it waits 30 seconds
export PET_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGQUIT # HUP reaches this script, which sends TERM, unless it is under nohup
(
    trap '' HUP
    exec "$python" -m torch.distributed.run --nnodes "$nodes" --node-rank "$node_rank" --nproc-per-node "$processes_here" \
        --master-addr "${MASTER_ADDR:-127.0.0.1}" --master-port "${MASTER_PORT:-29500}" --log-dir "$logs" --redirects 3 --tee 0:3 \
        -m fairseq_linformer.training.worker --processes "$processes" "$@" 2>"$logs/torchrun.txt"
) &
launcher=$!
trap 'kill -TERM "$launcher" 2>/dev/null || true' INT TERM HUP USR1
status=0
wait "$launcher" || status=$?
while kill -0 "$launcher" 2>/dev/null; do # a signal interrupts wait
    status=0
    wait "$launcher" || status=$?
done
trap - INT TERM HUP USR1

if [ "$run/stopped" -nt "$started" ]; then
    echo "stopped by a signal; rerun the command to resume"
    exit 75
fi
if [ "$status" != 0 ]; then
    cat "$logs/torchrun.txt" >&2
    first=$(sed -nE '/Root Cause/,$ s/.*local_rank: ([0-9]+).*/\1/p' "$logs/torchrun.txt" | head -n 1)
    shopt -s nullglob # there is no file if no process started
    for file in "$logs"/*/attempt_0/"${first:-0}"/stderr.log "$logs"/*/attempt_0/"${first:-0}"/stdout.log; do
        echo "last lines of $file:" >&2
        tail -n 30 "$file" >&2 || true
    done
    exit "$status"
fi
touch "$run/done"
echo "done: $run"
