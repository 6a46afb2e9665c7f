"""A real Slurm on this machine: slurmctld and some slurmd on loopback, without systemd, accounting or cgroups.

Each slurmd has its own host name and /etc/hosts (namespaces of ``unshare``), and 8 pretended GPUs.
Needs root and Debian's slurmctld, slurmd, slurm-client and munge.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from ..fairseq_commands import free_port

DEADLINE = 900.0
"""Seconds. A job that takes longer is stuck, even on a busy machine."""
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged", "mungekey", "unshare")

CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
FirstJobId={first_job}
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
SlurmdParameters=config_overrides
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=100000
EnforcePartLimits=ALL
ReturnToService=2
KillWait=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=low Nodes=n[1-{count}] Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=40
PartitionName=high Nodes=n[1-{count}] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def why_not() -> str:
    """The reason why Slurm cannot run on this machine; empty if it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: slurmctld slurmd slurm-client munge)"
    if os.geteuid() != 0:
        return "a Slurm for the tests needs root"
    if subprocess.run(["unshare", "--mount", "--uts", "true"], capture_output=True).returncode:
        return "namespaces are not allowed here (unshare)"
    return ""


class Cluster:
    """
    Args:
        folder: for its state; short, since it holds a socket.
        count: of nodes, n1, n2, ...
    """

    def __init__(self, folder: Path, count: int):
        self.folder, self.count = folder, count
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self.host = socket.gethostname().split(".")[0]

    def start(self) -> None:
        for name in ("munge", "state", "spool", "log", "run", "dev"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        (self.folder / "munge").chmod(0o711)
        for number in range(8):
            os.mknod(self.folder / f"dev/nvidia{number}", 0o600 | 0o020000, os.makedev(1, 3))
        munge = self.folder / "munge"
        self._run("mungekey", "--create", f"--keyfile={munge}/key")
        self._run(
            "munged",
            f"--key-file={munge}/key",
            f"--socket={munge}/socket",
            f"--pid-file={munge}/pid",
            f"--log-file={munge}/log",
            f"--seed-file={munge}/seed",
        )
        self._configure()
        self._run("slurmctld", "-c")
        for name in self.nodes:
            (self.folder / "spool" / name).mkdir()
            self._run(
                "unshare",
                "--mount",
                "--uts",
                "bash",
                "-c",
                f"hostname {name} && mount --bind {self.folder}/hosts /etc/hosts && exec slurmd -N {name}",
            )
        self.wait_until(lambda: {*self._run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()} == {*self.nodes})

    @property
    def nodes(self):
        return [f"n{i + 1}" for i in range(self.count)]

    def _configure(self) -> None:
        ports = [free_port() for _ in range(self.count + 1)]
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={port} "
            "CPUs=64 RealMemory=1000000 Gres=gpu:8 State=UNKNOWN"
            for name, port in zip(self.nodes, ports[1:])
        )
        first_job = random.randrange(1, 20_000)  # a job's port depends on it, and clusters may share a machine
        text = CONFIGURATION.format(
            host=self.host, port=ports[0], folder=self.folder, nodes=nodes, count=self.count, first_job=first_job
        )
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/dev/nvidia[0-7]\n")
        hosts = [f"localhost {self.host}", *self.nodes]
        (self.folder / "hosts").write_text("".join(f"127.0.0.1 {host}\n" for host in hosts))

    def stop(self) -> None:
        for options in ("--signal=KILL --full", ""):
            subprocess.run(
                f"squeue -h -o %A | sort -u | xargs -r scancel {options}",
                shell=True,
                env=self.environment,
                capture_output=True,
            )
        with suppress(TimeoutError):  # the daemons end their steps
            self.wait_until(lambda: not self._run("squeue", "-h").strip(), 15)
        pids = [int(path.read_text()) for path in (self.folder / "run").glob("slurm*.pid")]
        for pid in pids:
            _kill(pid)
        self.wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 15)
        subprocess.run(["munged", "--stop", f"--socket={self.folder}/munge/socket"], capture_output=True)

    def _run(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    # Used by tests.

    def submit(self, *command, environment=None) -> str:
        """What a command prints that speaks to this Slurm."""
        variables = {**(environment or os.environ), "SLURM_CONF": self.environment["SLURM_CONF"]}
        done = subprocess.run([str(part) for part in command], env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def state(self, job) -> dict:
        """What scontrol says of a job. It forgets a job minutes after its end."""
        words = self._run("scontrol", "--oneliner", "show", "job", str(job)).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait_for(self, job, *states: str, seconds: float = DEADLINE) -> dict:
        """Until a job is in one of these states."""
        job_state = {}

        def there() -> bool:
            job_state.update(self.state(job))
            return job_state["JobState"] in states

        try:
            self.wait_until(there, seconds)
        except (TimeoutError, RuntimeError):  # Slurm has forgotten a job that ended in another state
            raise AssertionError(f"job {job} is {job_state.get('JobState')} and not {states}: {job_state}") from None
        return job_state

    @staticmethod
    def wait_until(condition, seconds: float = DEADLINE) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"not after {seconds} s")
            time.sleep(0.2)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
