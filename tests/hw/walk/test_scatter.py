"""Scatter and `plane_walk` on a real feature memory: what is written where, and that readers see it when a unit is done."""

from collections import defaultdict
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from amaranth import Elaboratable, Module, Signal
from amaranth.lib import wiring

from cnna.hw.base.ports import command_layout
from cnna.hw.memory.feature_memory import FeatureMemory
from cnna.hw.walk.fetch import Fetch
from cnna.hw.walk.scatter import Scatter
from cnna.hw.walk.walk import plane_walk
from cnna.sim.emulator import walk
from cnna.spec.config import Config

from ... import configurations

TINY = Config("tiny", pix=2, ci=4, co=8, ports=1, regions=4, bank_words=128, ring_words=64, vector_ring_words=256)
ODD = replace(configurations.ODD, bank_words=128)


def random_command(config: Config, rng: np.random.Generator) -> dict[str, int]:
    """Destination members of a `conv` command: a tensor in any order of its axes, each in either direction, with gaps."""
    width, height, images, blocks = (int(rng.integers(1, top)) for top in (6, 5, 4, 8))
    sizes = {"x": width, "row": height, "image": images, "block": blocks}
    step, pitch, start = {}, 1, int(rng.integers(8))
    for axis in rng.permutation(list(sizes)):
        step[axis] = pitch if rng.random() < 0.7 else -pitch
        start += 0 if step[axis] > 0 else pitch * (sizes[axis] - 1)
        pitch *= sizes[axis] + int(rng.integers(2))
    return {
        "dst": start,
        "dst_x": step["x"],
        "dst_row": step["row"] - width * step["x"],
        "dst_image": step["image"] - height * step["row"],
        "dst_block": step["block"],
        "dst_blocks": blocks,
        "out_width": width,
        "out_height": height,
        "images": images,
        "chunks": -(-blocks // config.chunk_blocks),
    }


def groups(config: Config, command: dict[str, int], lanes: int) -> list[list[tuple[int, int] | None]]:
    """(pixel, block) of every lane in every step, None where there is none."""
    f, steps = SimpleNamespace(**command), []
    count = -(-walk.pixels(f) // lanes)
    for chunk, group, block in np.ndindex(f.chunks, count, config.chunk_blocks):
        number, pixels = chunk * config.chunk_blocks + block, range(group * lanes, (group + 1) * lanes)
        steps.append([(n, number) if n < walk.pixels(f) and number < f.dst_blocks else None for n in pixels])
    return steps


class Scattered(Elaboratable):
    """A Scatter at `vector_write` of a feature memory, and a Fetch at `vector_read`; both walk over the planes of one command."""

    def __init__(self, config: Config) -> None:
        self.scatter, self.memory, self.fetch = Scatter(config), FeatureMemory(config), Fetch(config, config.pix, window=True)
        self.command, self.blocks = Signal(command_layout("conv")), config.chunk_blocks

    def elaborate(self, platform) -> Module:
        m, command = Module(), self.command
        m.submodules.scatter, m.submodules.memory, m.submodules.fetch = self.scatter, self.memory, self.fetch
        wiring.connect(m, self.scatter.memory, self.memory.vector_write)
        wiring.connect(m, self.fetch.memory, self.memory.vector_read)
        for walker in (self.scatter, self.fetch):
            m.d.comb += plane_walk(
                walker.command.p, command, "dst", blocks=self.blocks, units=command.chunks, blocks_total=command.dst_blocks
            )
        return m


class ScatterBench:
    """One command through a Scatter. A Fetch reads each unit back; other ports work meanwhile."""

    def __init__(self, replay, config: Config, command: dict[str, int], offer: float, noise: float) -> None:
        self.config, self.command, self.offer, self.noise = config, command, offer, noise
        self.rng = np.random.default_rng(len(command))
        self.simulation = replay(Scattered, config)
        self.dut: Scattered = self.simulation.design
        self.scatter, self.memory, self.fetch = self.dut.scatter, self.dut.memory, self.dut.fetch
        f, n = SimpleNamespace(**command), np.arange(walk.pixels(SimpleNamespace(**command)))
        self.place = lambda pixel, block: int(walk.plane(f, "dst", n)[pixel] + block * f.dst_block) & walk.ADDRESS_MASK
        # By pixel and block.
        self.words: dict[tuple[int, int], int] = defaultdict(lambda: int.from_bytes(self.rng.bytes(config.ci), "little"))
        self.steps, self.done, self.clocks = groups(config, command, config.half), 0, 0
        self.written: dict[int, list[int]] = defaultdict(list)  # by address
        self.read: list[tuple] = []

    def run(self) -> None:
        """Runs until everything is read back."""
        commands = (partial(self._command, port=walker.command) for walker in (self.scatter, self.fetch))
        self.simulation.run(self._watch, before=(*commands, self._words, self._others))

    async def _command(self, ctx, port) -> None:
        ctx.set(self.dut.command, self.command)
        ctx.set(port.valid, 1)
        await ctx.tick().until(port.ready)
        ctx.set(port.valid, 0)

    async def _words(self, ctx) -> None:
        port = self.scatter.words
        for step in self.steps:
            while self.rng.random() >= self.offer:
                await ctx.tick()
            words = [self.words[lane] if lane else int.from_bytes(self.rng.bytes(self.config.ci), "little") for lane in step]
            ctx.set(port.p, port.p.shape().const(words))
            ctx.set(port.valid, 1)
            await ctx.tick().until(port.ready)
            ctx.set(port.valid, 0)

    async def _others(self, ctx) -> None:
        """Reads of higher priority in the banks that the scatter writes."""
        request = self.memory.residual_read.request
        while True:
            addresses = [int(self.rng.integers(self.config.banks * 8)) for _ in range(self.config.half)]
            ctx.set(request.p, request.p.shape().const({"active": (1 << self.config.half) - 1, "address": addresses}))
            ctx.set(request.valid, self.rng.random() < self.noise)
            await ctx.tick()

    async def _watch(self, ctx) -> None:
        """Permits a unit of the fetch in the very clock of `unit_done`, and keeps what is written and read."""
        lanes = groups(self.config, self.command, self.config.pix)
        owed, request = 0, self.memory.vector_write.request
        signals = (self.scatter.unit_done, self.fetch.permit.ready, self.fetch.o.valid, self.fetch.o.p)
        ctx.set(self.fetch.o.ready, 1)
        while len(self.read) < len(lanes):
            assert self.clocks < 5000, "the walk has stopped"
            ctx.set(self.fetch.permit.valid, owed > 0 or bool(ctx.get(self.scatter.unit_done)))
            _, _, done, ready, valid, p, *write = await ctx.tick().sample(*signals, request.valid, request.ready, request.p)
            owed += done
            owed -= owed > 0 and ready
            self.done, self.clocks = self.done + done, self.clocks + 1
            if valid:
                self.read.append(tuple(p.words[i] if p.exists >> i & 1 else None for i in range(self.config.pix)))
            if write[0] and write[1]:
                for lane, address in enumerate(write[2].address):
                    if write[2].active >> lane & 1:
                        self.written[address].append(write[2].words[lane])
        for _ in range(40):
            _, _, done, valid = await ctx.tick().sample(self.scatter.unit_done, self.fetch.o.valid)
            self.done += done
            assert not valid, "a step too many"


@pytest.mark.parametrize(("offer", "noise"), [(1, 0), (1, 0.7), (0.4, 0.4)])
@pytest.mark.parametrize("config", [TINY, ODD], ids=lambda config: config.name)
def test_a_done_unit_can_be_read(replay, config, offer, noise, seed):
    """A word would be in the wrong place or twice, or not be dropped; or a `unit_done` would be too early, missing or spare."""
    rng = np.random.default_rng([seed, config.pix])
    for _ in range(2):
        command = random_command(config, rng)
        bench = ScatterBench(replay, config, command, offer, noise)
        bench.run()
        assert bench.written == {bench.place(*lane): [bench.words[lane]] for step in bench.steps for lane in step if lane}
        wanted = groups(config, command, config.pix)
        assert bench.read == [tuple(bench.words[lane] if lane else None for lane in step) for step in wanted]
        assert bench.done == command["chunks"]


def test_a_group_a_clock(replay):
    """A scatter would not keep up with the requantiser."""
    command = random_command(ODD, np.random.default_rng(0)) | {"out_width": 40, "dst_x": 1, "dst_row": 0, "dst_block": 41}
    command |= {"out_height": 1, "images": 1, "dst": 0, "dst_blocks": 6, "chunks": 2}
    bench = ScatterBench(replay, ODD, command, 1, 0)
    bench.run()
    assert bench.clocks < 2 * len(bench.steps) + 60
