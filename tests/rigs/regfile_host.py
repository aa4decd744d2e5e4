"""A host on a register file's AXI4-Lite port in the Amaranth simulator, for tests of registers and of program writes."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
from amaranth import DomainRenamer, Elaboratable, Module, ResetInserter, Signal

from cnna.hw.control.regfile import RegFile
from cnna.spec.config import Config, preset

from .replay import Replay

CONFIG = preset("tiny")
WITH_BOOKS = replace(CONFIG, name="books", codebook=True)  # it has every register of a program
OKAY, SLVERR = 0, 2
IDLE: dict[str, int] = {}
SEQUENCER, HOST = {"busy": 1, "running": 1}, {"busy": 1, "running": 1, "by_host": 1}


class Host:
    """An AXI4-Lite master that waits at random on every channel."""

    def __init__(self, ctx, dut, reset):
        self.ctx, self.dut, self.bus, self.rng = ctx, dut, dut.bus, np.random.default_rng(1)
        self._reset = reset

    async def reset(self):
        """Resets the register file, as a soft reset does its program writes."""
        self.ctx.set(self._reset, 1)
        await self.ctx.tick()
        self.ctx.set(self._reset, 0)

    async def pause(self):
        for _ in range(int(self.rng.choice([0, 0, 1, 5]))):
            await self.ctx.tick()

    async def send(self, channel, **payload):
        """Makes one transfer on a channel that the master drives."""
        for name, value in payload.items():
            self.ctx.set(getattr(self.bus, name), value)
        self.ctx.set(getattr(self.bus, channel + "valid"), 1)
        await self.ctx.tick().until(getattr(self.bus, channel + "ready"))
        self.ctx.set(getattr(self.bus, channel + "valid"), 0)

    async def answer(self, channel, *names):
        """Takes one transfer on a channel that the slave drives; it must not move while it waits for ready."""
        while not self.ctx.get(getattr(self.bus, channel + "valid")):
            await self.ctx.tick()
        before = [self.ctx.get(getattr(self.bus, name)) for name in names]
        await self.pause()
        assert self.ctx.get(getattr(self.bus, channel + "valid"))
        assert [self.ctx.get(getattr(self.bus, name)) for name in names] == before
        self.ctx.set(getattr(self.bus, channel + "ready"), 1)
        await self.ctx.tick()
        self.ctx.set(getattr(self.bus, channel + "ready"), 0)
        return before

    async def write(self, where, value, strobe=15):
        """Writes, with AW and W in either order; returns BRESP."""
        parts = [("aw", {"awaddr": where}), ("w", {"wdata": value, "wstrb": strobe})]
        if self.rng.random() < 0.5:
            parts.reverse()
        for channel, payload in parts:
            await self.pause()
            await self.send(channel, **payload)
        return (await self.answer("b", "bresp"))[0]

    async def read(self, where):
        """Reads; returns (RDATA, RRESP)."""
        await self.pause()
        await self.send("ar", araddr=where)
        return tuple(await self.answer("r", "rdata", "rresp"))

    def state(self, state):
        """Sets the control inputs."""
        for name in ("busy", "running", "by_host", "stop", "resetting"):
            self.ctx.set(getattr(self.dut, name), state.get(name, 0))


class ResettableRegFile(Elaboratable):
    """A register file, and a signal that resets it."""

    def __init__(self, config: Config) -> None:
        self.dut, self.reset = RegFile(config), Signal()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = ResetInserter(self.reset)(DomainRenamer({"core": "sync"})(self.dut))
        return m


@cache
def _simulation(config: Config) -> Replay:
    return Replay(ResettableRegFile(config))


def run(test, *watchers, config=CONFIG):
    """Runs `test(ctx, host, dut)` and background watchers against a register file."""
    simulation = _simulation(config)
    dut, reset = simulation.design.dut, simulation.design.reset

    async def main(ctx):
        await test(ctx, Host(ctx, dut, reset), dut)

    async def watch(ctx, watcher):
        await watcher(ctx, dut)

    simulation.run(main, after=[partial(watch, watcher=watcher) for watcher in watchers])


def random_word(register, rng):
    """A legal word of a register, with random bits above its fields."""
    values = {}
    for field in register.fields:
        low, high = field.limits
        values[field.name] = int(rng.choice([low, high, rng.integers(low, high + 1)]))
    bits = sum(field.bits for field in register.fields)
    return register.pack(**values), int(rng.integers(1 << 32)) >> bits << bits
