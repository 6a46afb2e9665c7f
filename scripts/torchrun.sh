#!/usr/bin/env bash
# Train without Slurm, one process a GPU. From the root of the repository, on one node:
#
#   scripts/torchrun.sh +run=n512-k256-layerwise task.data=$PWD/data/BIN
#
# and on two, on each of them, NODE_RANK=0 first:
#
#   NODES=2 NODE_RANK=0 MASTER_ADDR=node0 scripts/torchrun.sh +run=n512-k256-layerwise task.data=$PWD/data/BIN
#   NODES=2 NODE_RANK=1 MASTER_ADDR=node0 scripts/torchrun.sh +run=n512-k256-layerwise task.data=$PWD/data/BIN
#
# The arguments and CONFIG, DEVICE, RUNS, NAME and PYTHON are as in scripts/slurm/train.sbatch; NPROC_PER_NODE is the number of
# processes of a node (all its GPUs). Everything goes into RUNS/NAME, which all nodes must share. On INT, TERM or USR1 it
# finishes the update, saves and exits with status 75, within SHUTDOWN_TIMEOUT (600) seconds. The same command resumes.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-$PWD/.venv/bin/python}
command -v "$python" >/dev/null || { echo "torchrun.sh: there is no $python; run scripts/setup.sh, or set PYTHON" >&2; exit 1; }
nodes=${NODES:-1} node_rank=${NODE_RANK:-0}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
processes_here=${NPROC_PER_NODE:-$("$python" -c 'import torch; print(torch.cuda.device_count())')}
if [ "$processes_here" = 0 ]; then
    echo "torchrun.sh: torch finds no GPU; DEVICE=cpu NPROC_PER_NODE=2 trains on CPUs" >&2
    exit 1
fi
wrong() { echo "torchrun.sh: $1" >&2; exit 2; }
[[ $nodes =~ ^[1-9][0-9]*$ ]] || wrong "NODES is $nodes; it must be the number of nodes"
[[ $node_rank =~ ^[0-9]+$ && $node_rank -lt $nodes ]] || wrong "NODE_RANK is $node_rank; it must be a number from 0 to $((nodes - 1))"
[[ $processes_here =~ ^[1-9][0-9]*$ ]] || wrong "NPROC_PER_NODE is $processes_here; it must be a number of processes"
for name in MASTER_PORT SHUTDOWN_TIMEOUT; do
    [[ ${!name:-1} =~ ^[0-9]+$ ]] || wrong "$name is ${!name}; it must be a number"
done
[ "$nodes" = 1 ] || [ -n "${MASTER_ADDR:-}" ] || wrong "NODES is $nodes; MASTER_ADDR must name the node of NODE_RANK=0"
processes=$((nodes * processes_here))

stopping=0
trap 'stopping=1' INT TERM USR1
other_node=()
[ "$node_rank" = 0 ] || other_node=(--folder-only)
run=$("$python" -m fairseq_linformer.launching.preflight folder "${other_node[@]}" --processes "$processes" "$@")
for _ in {1..120}; do # node 0 creates it
    [ -e "$run/config.yaml" ] || [ "$stopping" = 1 ] && break
    sleep 1
done
"$python" -m fairseq_linformer.launching.preflight node "$run" --processes "$processes_here"
if [ "$stopping" = 1 ]; then
    echo "stopped by a signal before training; the same command starts it"
    exit 75
fi
started=$(mktemp)
trap 'rm -f "$started"' EXIT
if [ -e "$run/done" ]; then
    echo "training is complete already: $run"
    exit 0
fi
logs=$run/logs/torchrun-$(date +%Y%m%d-%H%M%S)-node$node_rank
mkdir -p "$logs"
echo "$processes_here of $processes processes on $(hostname), in $run"

"$python" -m torch.distributed.run --nnodes "$nodes" --node-rank "$node_rank" --nproc-per-node "$processes_here" \
    --master-addr "${MASTER_ADDR:-127.0.0.1}" --master-port "${MASTER_PORT:-29500}" --log-dir "$logs" --redirects 3 --tee 0:3 \
    --shutdown-timeout "${SHUTDOWN_TIMEOUT:-600}" \
    -m fairseq_linformer.launching.worker --processes "$processes" "$@" 2>"$logs/torchrun.txt" &
launcher=$!
trap 'kill -TERM "$launcher" 2>/dev/null || true' INT TERM USR1
status=0
wait "$launcher" || status=$?
while kill -0 "$launcher" 2>/dev/null; do # a signal ended the wait
    status=0
    wait "$launcher" || status=$?
done
trap - INT TERM USR1

if [ "$run/stopped" -nt "$started" ]; then
    echo "stopped by a signal; the same command resumes"
    exit 75
fi
if [ "$status" != 0 ]; then
    cat "$logs/torchrun.txt" >&2
    first=$(sed -nE '/Root Cause/,$ s/.*local_rank: ([0-9]+).*/\1/p' "$logs/torchrun.txt" | head -n 1)
    shopt -s nullglob # no file, if it failed before the first process started
    for file in "$logs"/*/attempt_0/"${first:-0}"/stderr.log "$logs"/*/attempt_0/"${first:-0}"/stdout.log; do
        echo "the last lines of $file:" >&2
        tail -n 30 "$file" >&2 || true
    done
    exit "$status"
fi
touch "$run/done"
echo "done: $run"
