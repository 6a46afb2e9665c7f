"""The processes of a job meet at a key-value store at MASTER_ADDR, which listens only on that address.

    python -m fairseq_linformer.launching.rendezvous --nnodes 1 --nproc-per-node 2 ...    # torchrun, with that store

PyTorch's store listens on all addresses of the node, and a process that never starts makes the others wait in silence.
"""

import ipaddress
import logging
import os
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

from torch.distributed import PrefixStore, Store, TCPStore
from torch.distributed.elastic.rendezvous import static_tcp_rendezvous

from ..errors import first_line
from ..signals import hangup_signals

logger = logging.getLogger(__name__)


def meet(rank: int, world_size: int, timeout: timedelta) -> Store:
    """Wait until all processes of the job have started, and return their store.

    The environment has MASTER_ADDR and MASTER_PORT. Under torchrun its agent provides the store, else rank 0 does.

    Raises:
        ConnectionError: rank 0 did not start within ``timeout`` or has ended, or other ranks did not start; the message
            names them.
    """
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    is_server = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    minutes = f"within {timeout.total_seconds() / 60:g} minutes"
    try:
        store = open_store(address, port, world_size, is_server, timeout)
    except RuntimeError as error:  # DistNetworkError
        reason = first_line(error)
        raise ConnectionError(f"rank {rank} cannot reach rank 0 at {address}:{port} {minutes}: {reason}") from None
    store = PrefixStore(f"start/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    store.set(str(rank), "started")
    try:
        store.wait([str(other) for other in range(world_size)], timeout)
    except RuntimeError:
        try:
            missing = [other for other in range(world_size) if not store.check([str(other)])]
        except RuntimeError:  # the store has closed
            raise ConnectionError(
                f"rank 0 ended while rank {rank} waited for all {world_size} ranks to start; see its log"
            ) from None
        ranks = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing[:20]))}{', ...' * (len(missing) > 20)}"
        raise ConnectionError(f"{ranks} of {world_size} did not start {minutes}; see their logs") from None
    return store


def open_store(
    address: str, port: int, world_size: int, is_server: bool, timeout: timedelta, multi_tenant: bool = False
) -> Store:
    """Connect to the store at ``address``; if ``is_server``, start it there, on no other address of this node.

    It listens on all addresses, and logs a warning, if the node cannot listen on this one, or if the address is that of
    the loopback device although the job has several nodes.
    """
    listener = _listen(address, port) if is_server else None
    if listener is None:
        return TCPStore(
            address, port, world_size, is_server, timeout, wait_for_workers=False, multi_tenant=multi_tenant
        )
    return TCPStore(
        address,
        listener.getsockname()[1],
        world_size,
        True,
        timeout,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )


def _listen(address: str, port: int) -> socket.socket | None:
    try:
        family, _, _, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        if ipaddress.ip_address(target[0]).is_loopback and _has_several_nodes():
            raise OSError(f"it resolves to {target[0]} on this node")
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
        listener.listen(2048)
    except OSError as error:
        logger.warning("cannot listen only on MASTER_ADDR %s (%s); listening on all addresses", address, error)
        return None
    return listener


def _has_several_nodes() -> bool:
    return any(os.environ.get(name, "1") != "1" for name in ("SLURM_NNODES", "GROUP_WORLD_SIZE", "NODES"))


def keep_gloo_local() -> None:
    """Let gloo listen only on the loopback device if MASTER_ADDR is there, unless GLOO_SOCKET_IFNAME is set."""
    if os.environ["MASTER_ADDR"] in ("127.0.0.1", "localhost", "::1") and Path("/sys/class/net/lo").exists():
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def main() -> None:
    """Run torchrun, whose agent starts the store with ``open_store``."""
    from torch.distributed.run import main as torchrun

    def agent_store(
        address: str, port: int, world_size: int, is_master: bool, timeout: timedelta, **options: Any
    ) -> Store:
        return open_store(address, port, world_size, is_master, timeout, **options)

    vars(static_tcp_rendezvous)["TCPStore"] = agent_store
    if not hangup_signals():  # torchrun handles SIGHUP even under nohup
        os.environ.setdefault("PET_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGQUIT")
    torchrun()


if __name__ == "__main__":
    main()
