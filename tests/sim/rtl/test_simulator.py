"""What the simulation's process says while it runs, and what its client makes of that."""

import socket
import time
from types import SimpleNamespace
from typing import Any

from cnna.sim import server
from cnna.sim.rtl.simulator import answer_of


def test_progress_counts_the_clocks_of_all_runs() -> None:
    """With each batch the time left would begin again, as if nothing had been simulated before."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("r") as lines:
        bench: Any = SimpleNamespace(ddr=SimpleNamespace(clocks=0))
        requests, counted = server.ClientRequests(bench, theirs), list[int]()
        for begin in (0, 5000):
            requests.began = begin, time.monotonic() - 2 * server.REPORT_SECONDS
            requests.report(begin + 3000, time.monotonic())
            requests.send(value="done")
            assert answer_of(lines, lambda text: None, counted.append) == "done"
        requests.lines.close()
    assert counted == [3000, 8000]
