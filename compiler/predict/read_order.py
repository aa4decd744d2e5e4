"""The order of loads and weights at the AXI ports, for `predict`'s event loop.

A port answers reads in the order in which they were asked for (`hw/axi/read_master.py`). Weights therefore come after the beats of
loads that were asked for earlier (`ReadOrder`), and a load comes after the weights before it (`weight_ports.when_answered`).
"""

from collections import deque
from math import inf

from cnna.compiler.predict.flow_rates import AtWork
from cnna.spec.config import BEAT_BYTES
from cnna.spec.machine import BURST_BEATS, LOAD_ROOM_BEATS


class ReadOrder:
    """What loads have asked of DDR: beats of all ports together since the program's start. Each port asks for a burst a clock."""

    def __init__(self, work: AtWork, ports: int) -> None:
        self._work, self._ports = work, ports
        self._whole = 0  # beats of the loads that are not in `_asking`
        self._asking: deque[tuple[float, int]] = deque()  # loads: the clock from which they ask, beats

    def begin(self, beats: int, now: float) -> None:
        """A load begins to ask for so many beats, as the FIFOs of its ports have room."""
        self._asking.append((now, beats))

    def asked(self, now: float) -> float:
        """Beats that have been asked for."""
        room = self.moved + LOAD_ROOM_BEATS * self._ports
        while self._asking and self._part(0, now) == self._asking[0][1] and self._whole + self._asking[0][1] <= room:
            self._whole += self._asking.popleft()[1]
        return min(self._whole + sum(self._part(number, now) for number in range(len(self._asking))), room)

    def _part(self, number: int, now: float) -> float:
        begun, beats = self._asking[number]
        return min(beats, (now - begun) * BURST_BEATS * self._ports)

    @property
    def moved(self) -> float:
        """Beats that DDR has brought."""
        flow = self._work.flows.get("load")
        return self._work.begun - (max(flow.left, 0.0) / BEAT_BYTES if flow else 0.0)

    def when_moved(self, beats: float, now: float) -> float:
        """When DDR has brought that many beats; inf: not known yet."""
        left = beats - self.moved
        if left <= 0:
            return 0.0
        flow = self._work.flows.get("load")
        return now + left * BEAT_BYTES / flow.speed if flow and flow.speed else inf
