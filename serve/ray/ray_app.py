"""Puts the application into a cluster of Ray, and takes it out again."""

import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from cnna.serve.ray.front import Front, why_not_ready
from cnna.serve.ray.host_boards import BOARD, resources
from cnna.serve.ray.orders import Orders, Report
from cnna.serve.ray.replica import Replica
from cnna.serve.ray.retries import Patience
from cnna.spec.errors import BusyError, RunError, ToolError, UserError
from cnna.spec.extras import install

APP = "cnna"
HEAD = {"node:__internal_head__": 0.001}  # a resource that only the head has
READY_SECONDS, CONNECT_SECONDS = 300.0, 5.0
ONGOING = 1000  # requests in a replica at once: its engine has a queue of its own
USAGE = "RAY_USAGE_STATS_ENABLED"  # Ray's own: 0 sends nothing


def needs_ray() -> None:
    """ToolError: Ray is not installed. Ray then reports no usage to its makers."""
    try:
        import_module("ray.serve")
    except ModuleNotFoundError as missing:
        raise ToolError(f"a cluster needs the package {missing.name}: {install('cluster')}") from None
    os.environ[USAGE] = "0"


def start_command(boards: Sequence[str], head: str | None, join: str | None) -> list[str]:
    """The command that makes this computer a host of a cluster. head: ADDRESS:PORT of a new one; join: of one that is there."""
    import json

    if (head is None) == (join is None):
        raise UserError("give --head ADDRESS:PORT on the first host, and --join ADDRESS:PORT with the same place on all others")
    address, colon, port = (head or join or "").rpartition(":")
    if not colon or not address or not port.isdecimal():
        raise UserError(f"--{'head' if head else 'join'} {head or join}: must be ADDRESS:PORT, such as 10.0.0.1:6379")
    offered = resources(boards) if boards or head is None else {}
    place = [f"--address={join}"] if head is None else ["--head", f"--node-ip-address={address}", f"--port={port}"]
    options = ["--disable-usage-stats", "--include-dashboard=false"] if head else ["--disable-usage-stats"]
    return [sys.executable, "-m", "ray.scripts.scripts", "start", *place, *options, f"--resources={json.dumps(offered)}", "--block"]


def connect(address: str) -> None:
    """Joins a cluster as its client. UserError: none answers there."""
    import ray

    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()  # Ray itself would try for half a minute
        ray.init(address=address, namespace=APP, logging_level=logging.ERROR, log_to_driver=False, configure_logging=False)
    except (OSError, RuntimeError, ValueError) as error:
        said = " ".join(str(error).split())[:120]
        raise UserError(f"--cluster {address}: no cluster answers there ({said}); start one with --head") from None


def board_count(address: str) -> int:
    """The boards that the cluster's hosts offer. UserError: none."""
    import ray

    count = int(sum(node["Resources"].get(BOARD, 0) for node in ray.nodes() if node["Alive"]))
    if not count:
        raise UserError(f"--cluster {address}: no host offers a board; start hosts with --board, such as --board left=emulator")
    return count


def deploy(repository: Path, boards: int, place: tuple[str, int], version: str, patience: Patience | None = None) -> Any:
    """Starts a replica for each board, and the front. Returns the actor with the orders."""
    import ray
    from ray import serve

    serve.start(proxy_location="HeadOnly", http_options={"host": place[0], "port": place[1]}, logging_config={"log_level": "ERROR"})
    actor = ray.remote(Orders).options(
        name=f"{APP}-orders",
        get_if_exists=True,
        lifetime="detached",
        max_restarts=-1,
        max_task_retries=3,
        num_cpus=0,
        resources=HEAD,
    )
    orders = actor.remote()
    replicas = serve.deployment(Replica).options(
        name="boards",
        num_replicas=boards,
        max_ongoing_requests=ONGOING,
        ray_actor_options={"num_cpus": 0, "resources": {BOARD: 1}},
        graceful_shutdown_timeout_s=30,
        health_check_period_s=2,
        health_check_timeout_s=10,
    )
    front = serve.deployment(Front).options(
        name="front", num_replicas=1, max_ongoing_requests=ONGOING, ray_actor_options={"num_cpus": 0, "resources": HEAD}
    )
    app = front.bind(replicas.bind(str(repository.resolve()), orders, version), orders, boards, patience)
    serve.run(app, name=APP, route_prefix="/", blocking=False)
    return orders


def wait_ready(
    orders: Any, boards: int, seconds: float = READY_SECONDS, sleep: Callable[[float], None] = time.sleep
) -> list[Report]:
    """What the replicas say when all of them are there. UserError: hosts differ. BusyError: some board has no replica in time."""
    import ray

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        reports: list[Report] = ray.get(orders.reports.remote())
        if len(reports) >= boards:
            if why := why_not_ready(reports, boards):
                raise UserError(why)
            return reports
        sleep(0.5)
    raise BusyError(f"{len(reports)} of {boards} boards are ready after {seconds:g} s; `ray status` on a host says what is missing")


def remove() -> None:
    """Takes the application out of the cluster, whose hosts stay."""
    import ray
    from ray import serve

    try:
        serve.delete(APP)
        ray.kill(ray.get_actor(f"{APP}-orders"))
    except (ValueError, RunError):
        pass
    serve.shutdown()
    ray.shutdown()
