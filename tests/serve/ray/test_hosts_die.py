"""A replica and then a host are killed under load: no request is lost, and every answer is right. 27 processes, 2.7 GB."""

import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.model.session import InferenceSession

from .two_hosts import BOARDS, HOSTS, LOOPBACK, SECONDS, served, two_hosts

pytestmark = [
    pytest.mark.soak,
    # Ray's: files and sockets that it leaves to the collector, and what it will change
    *(pytest.mark.filterwarnings(f"ignore::{name}") for name in ("ResourceWarning", "FutureWarning", "DeprecationWarning")),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ray = pytest.importorskip("ray", reason="the extra cluster is not installed")
CLIENTS = 8
ANSWERS = 100  # to each phase
Images = NDArray[np.float32]


def call(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=SECONDS)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


class Clients:
    """They ask until the end, nothing twice. seen: right answers, by version. bad: all that is no right answer."""

    def __init__(self, port: int, images: Images, logits: Images) -> None:
        self.port, self.images, self.logits = port, images, logits
        self.seen: Counter[str] = Counter()
        self.bad: list[Any] = []
        self._stop = threading.Event()

    def _ask(self, number: int) -> None:
        for turn in itertools.count(number):
            if self._stop.is_set():
                return
            first, count = turn % 20, turn % 3 + 1
            some = self.images[first : first + count]
            given = {"name": "image", "datatype": "FP32", "shape": list(some.shape), "data": some.ravel().tolist()}
            try:
                code, found = call(self.port, "POST", "/v2/models/digits/infer", {"inputs": [given]})
                if code != 200:
                    self.bad.append((code, found))
                    continue
                answer = np.array(found["outputs"][0]["data"], np.float32).reshape(count, -1)
                if not np.array_equal(answer, self.logits[first : first + count].reshape(count, -1)):
                    self.bad.append(("wrong", first, count))
                self.seen[found["model_version"]] += 1
            except Exception as error:
                self.bad.append(error)

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def answers(self, more: int) -> None:
        """Waits until so many more are there."""
        wanted = sum(self.seen.values()) + more
        end = threading.Event()
        for _ in range(int(SECONDS / 0.1)):
            assert not self.bad, self.bad[:3]
            if sum(self.seen.values()) >= wanted:
                print(f"{wanted} answers", flush=True)
                return
            end.wait(0.1)
        raise AssertionError(f"{sum(self.seen.values())} of {wanted} answers")


def test_no_request_is_lost(repository: Path, images: Images) -> None:
    with InferenceSession(repository / "digits" / "1" / "tiny-b4.cnna", "reference") as session:
        (logits,) = session.run(None, {"image": images})
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    with two_hosts() as cluster, served(repository, port) as orders:
        assert call(port, "GET", "/v2/health/ready") == (200, {"ready": True})
        clients = Clients(port, images, logits)
        with clients.running():
            clients.answers(ANSWERS)
            kill_a_replica(orders)
            clients.answers(ANSWERS)
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
            clients.answers(ANSWERS)
            publish_second(repository, port)
            clients.answers(ANSWERS)
        assert not clients.bad, clients.bad[:3]
        assert clients.seen["1"] >= 3 * ANSWERS
        assert clients.seen["2"]
        assert len(call(port, "GET", "/v2/boards")[1]) <= (HOSTS - 1) * len(BOARDS)
        unload(port)


def kill_a_replica(orders: Any) -> None:
    """By a signal that no process can refuse."""
    os.kill(ray.get(orders.reports.remote())[0].pid, signal.SIGKILL)


def publish_second(repository: Path, port: int) -> None:
    """A second version, of the same files, reaches all boards."""
    shutil.copytree(repository / "digits" / "1", repository / "digits" / "2")
    assert call(port, "POST", "/v2/repository/models/digits/load", {}) == (200, {})


def unload(port: int) -> None:
    """No board answers for a model that an operator has unloaded."""
    assert call(port, "POST", "/v2/repository/models/digits/unload", {}) == (200, {})
    for _ in range(10 * len(BOARDS)):
        assert call(port, "GET", "/v2/models/digits/ready")[0] == 503
