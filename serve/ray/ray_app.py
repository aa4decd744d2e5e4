"""Puts the application into a cluster of Ray, and takes it out again."""

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from cnna.serve.ray.front import Front, why_not_ready
from cnna.serve.ray.host_boards import resources
from cnna.serve.ray.host_process import OWN, reachable
from cnna.serve.ray.orders import Orders, Report
from cnna.serve.ray.replica import Replica
from cnna.serve.ray.retries import Patience
from cnna.serve.ray.scaling import BOARD, boards_offered, replicas_wanted
from cnna.spec.errors import BusyError, RunError, ToolError, UserError
from cnna.spec.extras import install

APP = "cnna"
ACTOR = f"{APP}-orders"
HEAD = {"node:__internal_head__": 0.001}  # a resource that only the head has
READY_SECONDS, CONNECT_SECONDS = 300.0, 5.0
LEFT_SECONDS = 5.0  # that a host must be away before its replicas are given up
ONGOING = 1000  # requests in a replica at once: its engine has a queue of its own
MOST_BOARDS = 10_000


def needs_ray() -> None:
    """ToolError: Ray is not installed. Ray then reports no usage to its makers, and logs errors alone."""
    try:
        import_module("ray.serve")
    except ModuleNotFoundError as missing:
        raise ToolError(f"a cluster needs the package {missing.name}: {install('serve', 'cluster')}") from None
    os.environ.update(OWN)
    for name in ("ray", "ray.serve"):
        logging.getLogger(name).setLevel(logging.ERROR)


def start_command(boards: Sequence[str], head: str | None, join: str | None, name: str) -> list[str]:
    """The command that makes this computer a host of a cluster. head: ADDRESS:PORT of a new one; join: of one that is there."""
    if (head is None) == (join is None):
        raise UserError("give --head ADDRESS:PORT on the first host, and --join ADDRESS:PORT with the same place on all others")
    option, place = ("--head", head) if head is not None else ("--join", join or "")
    address, port = place_of(option, place)
    offered = resources(boards) if boards or head is None else {}
    where = [f"--address={place}"] if head is None else ["--head", f"--node-ip-address={address}", f"--port={port}"]
    # what has no use here is left out: on a busy computer each process more may miss Ray's deadline of 15 s
    options = [
        "--disable-usage-stats",
        "--num-cpus=0",
        "--no-monitor",
        "--include-log-monitor=false",
        f"--node-name={name}",
        *(["--include-dashboard=false"] if head is not None else []),
    ]
    return [sys.executable, "-m", "ray.scripts.scripts", "start", *where, *options, f"--resources={json.dumps(offered)}", "--block"]


def place_of(option: str, text: str) -> tuple[str, int]:
    """Address and port. UserError: it is no ADDRESS:PORT."""
    address, _, port = text.rpartition(":")
    if not address or not port.isdecimal() or not 0 < int(port[:6]) < 1 << 16:
        raise UserError(f"{option} {text}: must be ADDRESS:PORT, with a port of 1 to 65535, such as 10.0.0.1:6379")
    return address, int(port)


def connect(address: str) -> None:
    """Joins a cluster as its client. UserError: none answers there."""
    import ray

    place_of("--cluster", address)
    said = "nothing listens"
    if reachable(address, CONNECT_SECONDS):  # Ray itself would try for half a minute
        try:
            return _init(ray, address)
        except (OSError, RuntimeError, ValueError) as error:
            said = " ".join(str(error).split())[:120]
    raise UserError(f"--cluster {address}: no cluster answers there ({said}); start one with --head")


def _init(ray: Any, address: str) -> None:
    ray.init(address=address, namespace=APP, logging_level=logging.ERROR, log_to_driver=False, configure_logging=False)


def board_count(address: str) -> int:
    """The boards that the cluster's hosts offer. UserError: none."""
    import ray

    count = boards_offered(ray.nodes())
    if not count:
        raise UserError(f"--cluster {address}: no host offers a board; start hosts with --board, such as --board left=emulator")
    return count


def make_room(replace: bool) -> None:
    """Takes out what an earlier `serve` has left. UserError: it may not, or others use the cluster."""
    from ray import serve

    there = serve.status().applications
    if others := sorted(set(there) - {APP}):
        raise UserError(f"the cluster serves {', '.join(others)} too; a cluster with boards must be cnna's own")
    if APP in there and not replace:
        raise UserError("another `serve` has put a repository on these boards; end it, or give --replace")
    serve.shutdown()  # or the address of the last one would stay


def deploy(repository: Path, boards: int, place: tuple[str, int], version: str, patience: Patience | None = None) -> Any:
    """Starts a replica for each board, and the front. Returns the actor with the orders."""
    import ray
    from ray import serve

    _forget_orders()
    quiet = {"log_level": "ERROR"}
    serve.start(proxy_location="HeadOnly", http_options={"host": place[0], "port": place[1]}, logging_config=quiet)
    always = {"lifetime": "detached", "max_restarts": -1, "max_task_retries": 3}
    actor = ray.remote(Orders).options(name=ACTOR, get_if_exists=True, num_cpus=0, resources=HEAD, **always)
    orders = actor.remote()
    replicas = serve.deployment(Replica).options(
        name="boards",
        autoscaling_config={
            "min_replicas": 1,
            "initial_replicas": boards,
            "max_replicas": max(MOST_BOARDS, boards),
            "upscale_delay_s": 0.0,
            "downscale_delay_s": LEFT_SECONDS,
            "policy": {"policy_function": replicas_wanted},
        },
        max_ongoing_requests=ONGOING,
        ray_actor_options={"num_cpus": 0, "resources": {BOARD: 1}},
        graceful_shutdown_timeout_s=30,
        health_check_period_s=2,
        health_check_timeout_s=10,
    )
    front = serve.deployment(Front).options(
        name="front", num_replicas=1, max_ongoing_requests=ONGOING, ray_actor_options={"num_cpus": 0, "resources": HEAD}
    )
    app = front.bind(replicas.bind(str(repository.resolve()), orders, version), orders, patience)
    try:
        serve.run(app, name=APP, route_prefix="/", blocking=False)  # waits until all replicas have started
    except RuntimeError as error:
        raise RunError(f"the boards did not start: {cause_in(str(error))}") from None
    return orders


def cause_in(text: str) -> str:
    """The last error that a text of Ray's names, which holds the traceback of a replica."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return (errors or lines or ["Ray says nothing"])[-1][:300]


def wait_ready(
    orders: Any, boards: int, seconds: float = READY_SECONDS, sleep: Callable[[float], None] = time.sleep
) -> list[Report]:
    """What the replicas say when all of them are there. UserError: hosts differ. BusyError: some board has no replica in time."""
    import ray

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        reports: list[Report] = ray.get(orders.reports.remote())
        if len(reports) >= boards:
            if why := why_not_ready(reports):
                raise UserError(why)
            return reports
        sleep(0.5)
    raise BusyError(f"{len(reports)} of {boards} boards are ready after {seconds:g} s; `ray status` on a host says what is missing")


def remove() -> None:
    """Takes the application out of the cluster, whose hosts stay."""
    import ray
    from ray import serve

    with suppress(ValueError):
        serve.delete(APP)
    _forget_orders()
    serve.shutdown()
    ray.shutdown()


def _forget_orders() -> None:
    import ray

    with suppress(ValueError):  # there is none
        ray.kill(ray.get_actor(ACTOR))
