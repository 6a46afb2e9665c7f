"""The start of a job: who is missing, and on which addresses it listens."""

import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from fairseq_linformer.launching.rendezvous import keep_gloo_local, meet, open_store

from ..fairseq_commands import free_port
from ..fault_seeds import SEEDS

SOON = timedelta(seconds=2)
MINUTE = timedelta(minutes=1)
pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux")


@pytest.fixture
def master(monkeypatch):
    for name in ("TORCHELASTIC_USE_AGENT_STORE", "SLURM_NNODES", "GROUP_WORLD_SIZE", "NODES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))


def listening() -> set[tuple[str, str]]:
    """The sockets that this process listens on: the address in hexadecimal, and the inode."""
    sockets = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            sockets.add(os.readlink(descriptor))
        except OSError:  # the one that reads the folder
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add((fields[1].partition(":")[0], fields[9]))
    return found


def addresses(sockets: set[tuple[str, str]]) -> set[str]:
    return {address for address, _ in sockets}


def test_listens_only_on_the_address_of_rank_0(master):
    before = listening()
    store = open_store("127.0.0.1", 0, 1, True, MINUTE)
    store.set("key", "value")
    assert addresses(listening() - before) == {"0100007F"} and store.get("key") == b"value"


def _train(pipe):
    before = listening()  # inherited from other tests
    keep_gloo_local()
    dist.init_process_group("gloo", store=meet(0, 1, MINUTE), world_size=1, rank=0)
    dist.all_reduce(torch.ones(1))
    pipe.send(addresses(listening() - before))


def test_gloo_listens_only_on_loopback(master):
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe(duplex=False)
    process = context.Process(target=_train, args=(writing,))
    process.start()
    writing.close()  # recv ends if the process does
    assert reading.recv() == {"0100007F"}
    process.join()


def test_a_job_on_several_nodes_is_reachable_where_the_name_of_a_node_is_loopback(master, monkeypatch, caplog):
    monkeypatch.setenv("SLURM_NNODES", "2")
    before = listening()
    store = open_store("127.0.0.1", free_port(), 1, True, MINUTE)
    opened = addresses(listening() - before)
    assert len(opened) == 1 and "0100007F" not in opened
    assert "listening on all addresses" in caplog.text
    del store


def test_missing_ranks_are_named(master):
    with pytest.raises(ConnectionError, match=r"^ranks 1, 2, 3 of 4 did not start within 0.0\d+ minutes"):
        meet(0, 4, SOON)


def test_a_missing_rank_0_is_named(master):
    address = re.escape(f"127.0.0.1:{os.environ['MASTER_PORT']}")
    with pytest.raises(ConnectionError, match=f"^rank 1 cannot reach rank 0 at {address} within"):
        meet(1, 2, SOON)


def _report(rank, world_size, barrier, pipe):
    barrier.wait()
    try:
        meet(rank, world_size, timedelta(seconds=10))
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
    pipe.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_random_ranks_are_missing(seed, master):
    """The ranks that have started name those that have not."""
    choose, context = random.Random(seed), multiprocessing.get_context("fork")
    world_size = choose.randint(2, 6)
    missing = sorted(choose.sample(range(world_size), choose.randint(1, world_size - 1)))
    started = [rank for rank in range(world_size) if rank not in missing]
    barrier, pipes, processes = context.Barrier(len(started)), {}, []
    for rank in started:
        pipes[rank], writing = context.Pipe(duplex=False)
        process = context.Process(target=_report, args=(rank, world_size, barrier, writing), daemon=True)
        process.start()
        processes.append(process)
        writing.close()
    texts = {rank: pipe.recv().removeprefix("ConnectionError: ") for rank, pipe in pipes.items()}
    for process in processes:
        process.join()
    if 0 in missing:
        assert all(text.startswith(f"rank {rank} cannot reach rank 0 at ") for rank, text in texts.items()), texts
        return
    named = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} of {world_size} did not start "
    assert texts.pop(0).startswith(named)
    # Rank 0 may be first, and the store ends with it.
    assert all(text.startswith((named, f"rank 0 ended while rank {rank} waited ")) for rank, text in texts.items()), (
        texts
    )


def _start(rank):
    meet(rank, 3, MINUTE)


def test_all_ranks_meet(master):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_start, args=(rank,)) for rank in range(1, 3)]
    for process in processes:
        process.start()
    store = meet(0, 3, MINUTE)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0] and store.check(["2"])


def _start_when_asked(pipe):
    pipe.recv()
    meet(1, 2, MINUTE)


def test_a_slow_rank_is_awaited(master, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")  # the store outlives both ranks
    store = open_store("127.0.0.1", int(os.environ["MASTER_PORT"]), 2, True, MINUTE)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    slow = context.Process(target=_start_when_asked, args=(theirs,), daemon=True)
    first = context.Process(target=meet, args=(0, 2, MINUTE), daemon=True)
    slow.start()
    first.start()
    store.wait(["start/0/0"], MINUTE)
    assert not store.check(["start/0/1"]) and first.is_alive()
    ours.send("start")
    for process in (first, slow):
        process.join()
    assert [first.exitcode, slow.exitcode] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("ignored", [True, False])
def test_torchrun_respects_nohup(ignored, tmp_path):
    """SIGHUP ends it, except under nohup."""
    hang_up = tmp_path / "hang_up.py"
    hang_up.write_text("import os, signal\nos.kill(os.getppid(), signal.SIGHUP)\n")
    words = [
        "--nnodes=1",
        "--nproc-per-node=1",
        "--master-addr=127.0.0.1",
        f"--master-port={free_port()}",
        str(hang_up),
    ]
    action = signal.SIG_IGN if ignored else signal.SIG_DFL
    torchrun = subprocess.run(
        [sys.executable, "-m", "fairseq_linformer.launching.rendezvous", *words],
        preexec_fn=lambda: signal.signal(signal.SIGHUP, action),
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    assert torchrun.returncode == 0 if ignored else "got signal: 1" in torchrun.stderr, torchrun.stderr
