"""Divides the bandwidth of DDR between the flows that are at work. Used by `flow_rates`."""

from collections.abc import Mapping, Sequence
from typing import Final

from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.ddr import DdrSpeed

Asked = tuple[str, float, float]  # a flow's name, the bytes a clock that it can take of DDR, and those that it gets besides
LEAST: Final = 1e-4  # least rate, so that an engine that was blocked for a whole stretch continues


class DdrDivision:
    """ports: by name, the number of ports of each flow from or to DDR."""

    def __init__(self, config: Config, memory: DdrSpeed, ports: Mapping[str, int]) -> None:
        self._bytes, self._count, self._ports = float(memory.bytes_per_cycle), config.ports, ports
        beats = max(memory.bytes_per_cycle // BEAT_BYTES, 2)
        self._writes = beats // 2 / beats  # fraction of a busy DDR for writes; each port's read is served before its write

    def divide(self, asked: list[Asked]) -> dict[str, float]:
        """Divides DDR between reads and writes, none above its `most`.

        The ports take turns, and so do the readers at each port, which moves a beat a clock at most. The program and the weights
        of port 0 share that port: so the other ports get ahead of it, and a word of the ring is complete only with its part.
        """
        found, ports, left, wanted = dict[str, float](), self._count, self._bytes, 0.0
        for name, most, _ in asked:
            if name != "store":
                wanted += most
        wanted = min(wanted, float(BEAT_BYTES * ports))
        for name, most, _ in asked:
            if name == "store" and most:
                found[name] = share = min(most, max(left - wanted, left * self._writes))
                left -= share
        readers = sorted([(name, most / self._ports[name], beside) for name, most, beside in asked if name != "store"])
        first, others = self._port_shares(readers, min(left, wanted))
        for name, _, beside in readers:
            found[name] = max(first.get(name, 0.0) + (ports - 1) * others.get(name, 0.0) + beside, LEAST)
        return found

    def _port_shares(self, readers: list[Asked], left: float) -> tuple[dict[str, float], dict[str, float]]:
        """What each reader gets of `left` bytes a clock at port 0, and at each of the others. readers: with the most at a port."""
        rest = self._count - 1
        names = [name for name, _, _ in readers if name != "weight1"]
        most = [most for name, most, _ in readers if name != "weight1"]
        halves = "program" in names and "weight0" in names
        parts = [0.5 if halves and name != "load" else 1.0 for name in names]
        if not rest:
            return dict(zip(names, _divided(min(left, _beat_of(most)), most, parts), strict=True)), {}
        others = [name for name, _, _ in readers if name in ("load", "weight1")]
        most_others = [most for name, most, _ in readers if name in ("load", "weight1")]
        first, at_others = _divided(left, [_beat_of(most), rest * _beat_of(most_others)], [1.0, float(rest)])
        own = dict(zip(names, _divided(first, most, parts), strict=True))
        return own, dict(zip(others, _divided(at_others / rest, most_others, [1.0 for _ in others]), strict=True))


def _beat_of(most: Sequence[float]) -> float:
    """What the readers of a port take in a clock, where none takes more than its `most` and the port no more than a beat."""
    whole = 0.0
    for own in most:
        whole += own
    return min(whole, float(BEAT_BYTES))


def _divided(left: float, most: list[float], parts: list[float]) -> list[float]:
    """`left` divided in proportion to `parts`, where nobody gets more than its `most`; the others get what it leaves."""
    found, whole = [0.0] * len(most), 0.0
    for part in parts:
        whole += part
    for _, number in sorted([(most[number] / parts[number], number) for number in range(len(most))]):
        found[number] = share = min(most[number], left * parts[number] / whole)
        left, whole = left - share, whole - parts[number]
    return found
