"""Two hosts on this computer: nodes of Ray with two boards each, and a head without boards; what a test starts, it ends."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cnna.serve.ray.host_boards import resources
from cnna.serve.ray.ray_app import connect, deploy, needs_ray, remove, wait_ready

BOARDS = ("left=emulator", "right=emulator")
HOSTS = 2
TIMES = 4
LOOPBACK = "127.0.0.1"
SECONDS = 600.0
FEW: dict[str, Any] = {"num_cpus": 0, "include_log_monitor": False}  # processes: each may miss Ray's deadline on a busy computer


@contextmanager
def two_hosts() -> Iterator[Any]:
    """The cluster of Ray; its nodes are `worker_nodes`."""
    needs_ray()
    before = signal.getsignal(signal.SIGTERM)  # a node of Ray puts its own in place
    try:
        cluster = _started()
        try:
            connect(cluster.address)
            yield cluster
        finally:
            cluster.shutdown()
    finally:
        signal.signal(signal.SIGTERM, before)


def _started() -> Any:
    """A whole cluster. Ray gives a node up that is not there after 30 s, too soon for a busy computer: it begins several times."""
    from ray.cluster_utils import Cluster

    for turn in range(TIMES):
        cluster = Cluster()
        try:
            cluster.add_node(**FEW, include_dashboard=False, no_monitor=True)
            for _ in range(HOSTS):
                cluster.add_node(**FEW, resources=resources(BOARDS))
            return cluster
        except Exception as error:
            cluster.shutdown()
            if turn == TIMES - 1 or "timed out during startup" not in str(error):
                raise
    raise AssertionError


@contextmanager
def served(repository: Path, port: int) -> Iterator[Any]:
    """The application, ready on all boards: the actor with the orders."""
    boards = HOSTS * len(BOARDS)
    try:
        orders = deploy(repository, boards, (LOOPBACK, port), "test")
        wait_ready(orders, boards, SECONDS)
        yield orders
    finally:
        remove()
