"""A memory behind AXI4 for tests of one block in Amaranth's own simulator; whole accelerators run against `ddr.cpp`.

It stalls every channel at random, answers in order after a latency, and raises ProtocolError for what AXI4 forbids a
master: a payload that moves or a valid that falls before its ready, a burst that crosses 4 KiB or is too long, W beats
or WLAST that do not fit their bursts.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from amaranth.lib import wiring
from amaranth.sim import SimulatorContext

from cnna.hw.axi.buses import BURST_INCR, SIZE_BEAT, whole_burst
from cnna.spec.config import BEAT_BYTES

AR = ("araddr", "arlen", "arsize", "arburst", "arlock", "arcache", "arprot", "arqos")
AW = ("awaddr", "awlen", "awsize", "awburst", "awlock", "awcache", "awprot", "awqos")
W = ("wdata", "wstrb", "wlast")


class ProtocolError(AssertionError):
    """The master has done what AXI4 forbids."""


@dataclass
class BusPace:
    """How the memory behaves: the share of clocks in which a channel is ready or valid, and clocks from address to data."""

    ready: float = 1.0
    valid: float = 1.0
    latency: int = 4


@dataclass
class BusMemory:
    """Bytes from address 0, shared by any number of ports; `bad` maps a 16-byte-aligned address to the response it gives."""

    size: int
    pace: BusPace = field(default_factory=BusPace)
    seed: int = 1
    bad: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bytes = np.random.default_rng(self.seed).integers(0, 256, self.size, dtype=np.uint8)
        self.reads: list[tuple[int, int]] = []  # address and beats of each AR taken
        self.writes: list[tuple[int, int]] = []
        self.outstanding = 0  # read bursts, and
        self.most_outstanding = 0

    def put(self, address: int, data: bytes) -> None:
        """Sets bytes."""
        self.bytes[address : address + len(data)] = np.frombuffer(data, np.uint8)

    def response(self, address: int, beats: int = 1) -> int:
        """The worst response among these beats."""
        return max(self.bad.get(address + BEAT_BYTES * beat, 0) for beat in range(beats))


class Steady:
    """Fails if a channel's payload moves, or its valid falls, while it waits for ready."""

    def __init__(self, bus: wiring.PureInterface, channel: str, payload: tuple[str, ...]) -> None:
        self.channel = channel
        self.valid, self.payload = getattr(bus, channel + "valid"), [getattr(bus, name) for name in payload]
        self.waiting: tuple[int, ...] | None = None

    def check(self, ctx: SimulatorContext, ready: int) -> tuple[int, ...] | None:
        """The payload if the channel transfers in this clock, else None."""
        now = tuple(ctx.get(signal) for signal in self.payload) if ctx.get(self.valid) else None
        if self.waiting is not None and now != self.waiting:
            raise ProtocolError(f"{self.channel} moved from {self.waiting} to {now} before it was taken")
        self.waiting = None if ready else now
        return now if ready else None


def _burst(channel: str, payload: tuple[int, ...]) -> tuple[int, int]:
    """Address and beats of an AR or AW payload, after a check that they are legal."""
    address, length, size, burst = payload[:4]
    if size != SIZE_BEAT or burst != BURST_INCR or address % BEAT_BYTES or not whole_burst(length + 1, address):
        raise ProtocolError(f"{channel}: illegal burst of {length + 1} beats at {address:#x}")
    return address, length + 1


async def serve_reads(ctx: SimulatorContext, bus: wiring.PureInterface, memory: BusMemory, seed: int) -> None:
    """Runs a port's AR and R for ever; add it as a background testbench."""
    rng, pace, steady = np.random.default_rng(seed), memory.pace, Steady(bus, "ar", AR)
    beats: deque[tuple[int, int, int]] = deque()  # clock it is due, address, last
    clock, held = 0, False
    while True:
        ready = int(rng.random() < pace.ready)
        ctx.set(bus.arready, ready)
        if taken := steady.check(ctx, ready):
            address, count = _burst("ar", taken)
            memory.reads.append((address, count))
            memory.outstanding += 1
            memory.most_outstanding = max(memory.most_outstanding, memory.outstanding)
            beats += [(clock + pace.latency, address + BEAT_BYTES * n, int(n == count - 1)) for n in range(count)]
        held = bool(beats) and beats[0][0] < clock and (held or rng.random() < pace.valid)
        ctx.set(bus.rvalid, int(held))
        if held:
            _, address, last = beats[0]
            data = bytes(memory.bytes[address : address + BEAT_BYTES])
            ctx.set(bus.rdata, int.from_bytes(data, "little"))
            ctx.set(bus.rlast, last)
            ctx.set(bus.rresp, memory.response(address))
            if ctx.get(bus.rready):
                beats.popleft()
                memory.outstanding -= last
                held = False
        await ctx.tick()
        clock += 1


async def serve_writes(ctx: SimulatorContext, bus: wiring.PureInterface, memory: BusMemory, seed: int) -> None:
    """Runs a port's AW, W and B for ever; W may come before its AW, as AXI4 allows."""
    rng, pace = np.random.default_rng(seed), memory.pace
    aw, w = Steady(bus, "aw", AW), Steady(bus, "w", W)
    bursts: deque[tuple[int, int]] = deque()
    beats: deque[tuple[int, ...]] = deque()  # data, strobe, last
    answers: deque[tuple[int, int]] = deque()  # clock it is due, response
    clock, held = 0, False
    while True:
        aw_ready, w_ready = (int(rng.random() < pace.ready) for _ in range(2))
        ctx.set(bus.awready, aw_ready)
        ctx.set(bus.wready, w_ready)
        if taken := aw.check(ctx, aw_ready):
            bursts.append(_burst("aw", taken))
            memory.writes.append(bursts[-1])
        if beat := w.check(ctx, w_ready):
            beats.append(beat)
        if bursts and len(beats) >= bursts[0][1]:
            address, count = bursts.popleft()
            _write(memory, address, [beats.popleft() for _ in range(count)])
            answers.append((clock + pace.latency, memory.response(address, count)))
        held = bool(answers) and answers[0][0] < clock and (held or rng.random() < pace.valid)
        ctx.set(bus.bvalid, int(held))
        if held:
            ctx.set(bus.bresp, answers[0][1])
            if ctx.get(bus.bready):
                answers.popleft()
                held = False
        await ctx.tick()
        clock += 1


def _write(memory: BusMemory, address: int, beats: list[tuple[int, ...]]) -> None:
    """Writes the strobed bytes of a burst's beats."""
    for number, (data, strobe, last) in enumerate(beats):
        if last != (number == len(beats) - 1):
            raise ProtocolError(f"w: WLAST is {last} at beat {number} of {len(beats)}")
        for byte in range(BEAT_BYTES):
            if strobe >> byte & 1:
                memory.bytes[address + BEAT_BYTES * number + byte] = data >> (8 * byte) & 255
