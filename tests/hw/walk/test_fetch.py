"""Fetch and `source_walk` against `sim.emulator.walk`, with a memory whose words tell their addresses."""

from collections import deque
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from amaranth import Cat, Elaboratable, Module, Signal, Value, signed

from cnna.hw.base.ports import command_layout
from cnna.hw.memory.feature_memory import LATENCY
from cnna.hw.walk.fetch import Fetch
from cnna.hw.walk.walk import APART_BITS, source_walk
from cnna.sim.emulator import walk
from cnna.spec.config import Config
from cnna.spec.program.window import APART_MOST, row_steps
from cnna.spec.regmap import ADDRESS_BITS

from ... import configurations
from ...rigs.fields import Fields

TINY = Config("tiny", pix=2, ci=4, co=8, ports=1, regions=4, bank_words=128, ring_words=64, vector_ring_words=256)
ODD = replace(configurations.ODD, bank_words=128)


def word(config: Config, address: int) -> int:
    """The memory's content: every byte depends on the whole address."""
    return (address + 1) * 0x9E3779B97F4A7C15 % (1 << 8 * config.ci)


def windowed(command: dict[str, int], config: Config, rng: np.random.Generator) -> dict[str, int]:
    """A command whose steps take several taps: its words lie evenly apart, in a row of whole groups or all through."""
    apart, kx, dilation = int(rng.integers(1, APART_MOST + 1)), int(rng.integers(-(2**17), 2**17)), int(rng.integers(0, 3))
    taps = {"kernel_width": int(rng.integers(1, 9)), "in_width": int(rng.integers(1, 20)), "flat": 0}
    steps = {"apart": apart, "src_kx": kx, "src_x": apart * kx, "stride_dilation_x": dilation, "stride_x": apart * dilation}
    even = {"src_row": 0, "src_image": 0} if rng.integers(0, 2) else {"out_width": config.pix * int(rng.integers(1, 4))}
    return command | taps | steps | even


def random_command(rng: np.random.Generator) -> dict[str, int]:
    """Source members of a `conv` command, with padding on every side, and its loops."""
    steps = {f"src_{name}": int(rng.integers(-(2**19), 2**19)) for name in ("x", "row", "image", "kx", "ky", "block")}
    return {
        **steps,
        "src": int(rng.integers(2**ADDRESS_BITS)),
        **{name: int(rng.integers(1, 7)) for name in ("out_width", "out_height", "in_width", "in_height")},
        **{name: int(rng.integers(1, 4)) for name in ("kernel_width", "kernel_height", "images", "blocks", "chunks")},
        **{f"first_{axis}": int(rng.integers(-3, 2)) for axis in "xy"},
        **{f"stride_{name}": int(rng.integers(0, 4)) for name in ("x", "y", "dilation_x", "dilation_y")},
        "pad": int(rng.integers(-128, 128)),
        "flat": int(rng.integers(0, 2)),
        "flat_unit": int(rng.integers(-(2**19), 2**19)),
        "apart": 0,
    }


def expected(config: Config, command: dict[str, int], lanes: int, window: bool) -> list[dict]:
    """Every step's answer, as `FetchBench` collects it."""
    f, steps = SimpleNamespace(**command), []
    n = np.arange(walk.pixels(f))
    source, taps, outside = walk.source(f, n), walk.tap_steps(f), walk.taps_outside(f, n)
    outside = np.zeros((len(n), len(taps)), bool) if outside is None else outside
    pad = int.from_bytes(bytes([f.pad & 255]) * config.ci, "little")
    groups = -(-len(n) // lanes)
    rows = row_steps(f.kernel_width, f.apart if window else 0)
    for chunk, group, block, row, number in np.ndindex(f.chunks, groups, f.blocks, f.kernel_height, len(rows)):
        pixels, words = range(group * lanes, min(len(n), (group + 1) * lanes)), []
        for tap in (row * f.kernel_width + column for column in rows[number]):
            address = (source + block * f.src_block + taps[tap]) & walk.ADDRESS_MASK
            words += [pad if outside[p, tap] else word(config, int(address[p])) for p in pixels] + [pad] * (lanes - len(pixels))
            if window and f.flat and tap % f.kernel_width == 0:
                words = [word(config, (f.src + chunk * f.flat_unit) & walk.ADDRESS_MASK)] * lanes
        steps.append(
            {
                "words": words,
                "exists": (1 << len(pixels)) - 1,
                "first": int((block, row, number) == (0, 0, 0)),
                "last": int((block, row, number) == (f.blocks - 1, f.kernel_height - 1, len(rows) - 1)),
                "group_last": int(group == groups - 1),
                "unit_last": int(chunk == f.chunks - 1),
            }
        )
    return steps


class Fetched(Elaboratable):
    """A Fetch with its command as an engine gives it. flats: what the walk has beside the command's fields."""

    def __init__(self, config: Config, window: bool) -> None:
        self.dut, self.command, self.window = Fetch(config, config.pix, window), Signal(command_layout("conv")), window
        self.flats = (Signal(), Signal(signed(ADDRESS_BITS)), Signal(APART_BITS))

    def elaborate(self, platform):
        m, c, walked = Module(), self.command, self.dut.command.p
        m.submodules.dut = self.dut
        m.d.comb += source_walk(walked, c, blocks=c.blocks, block=c.src_block, units=c.chunks, unit=0)
        if self.window:
            m.d.comb += Cat(walked.flat, walked.flat_unit, walked.apart).eq(Cat(self.flats))
        return m


class FetchBench:
    """A Fetch, its commands, and a memory that is `ready` in a share of the clocks."""

    def __init__(
        self,
        replay,
        config: Config,
        commands: list[dict[str, int]],
        ready: float = 1,
        take: float = 1,
        permits: int | None = None,
        window: bool = False,
    ):
        self.config, self.commands, self.ready, self.take = config, commands, ready, take
        self.rng = np.random.default_rng(len(commands))
        self.simulation, self.window = replay(Fetched, config, window), window
        self.dut, self.command, self.flats = (getattr(self.simulation.design, name) for name in ("dut", "command", "flats"))
        self.permits = sum(command["chunks"] for command in commands) if permits is None else permits
        self.requests, self.answers, self.clocks = 0, list[dict](), list[int]()
        self.wanted = [step for command in commands for step in expected(config, command, config.pix, window)]

    def run(self) -> list[dict]:
        """The answers to all commands."""
        self.simulation.run(self._collect, before=(self._command, self._permit, self._memory))
        return self.answers

    async def _command(self, ctx) -> None:
        for command in self.commands:
            own = {name: value for name, value in command.items() if not name.startswith(("flat", "apart"))}
            ctx.set(self.command, self.command.shape().const(own))
            for value, name in zip(self.flats, ("flat", "flat_unit", "apart"), strict=True):
                ctx.set(value, command[name])
            ctx.set(self.dut.command.valid, 1)
            await ctx.tick().until(self.dut.command.ready)
            ctx.set(self.dut.command.valid, 0)

    async def _permit(self, ctx) -> None:
        for _ in range(self.permits):
            ctx.set(self.dut.permit.valid, 1)
            await ctx.tick().until(self.dut.permit.ready)
            ctx.set(self.dut.permit.valid, 0)

    async def _memory(self, ctx) -> None:
        port = self.dut.memory
        line: deque[SimpleNamespace | None] = deque([None] * (LATENCY - 1))
        request, response = port.request, port.response
        sampled, payload = (request.valid, request.ready, Value.cast(request.p)), Value.cast(response.p)
        asked, answers = Fields(request.p.shape()), Fields(response.p.shape())
        while True:
            ctx.set(request.ready, self.rng.random() < self.ready)
            _, _, valid, ready, bits = await ctx.tick().sample(*sampled)
            self.requests += valid and ready
            line.append(asked.read(bits) if valid and ready else None)
            answer = line.popleft()
            ctx.set(response.valid, answer is not None)
            if answer is not None:
                words = [word(self.config, a) if answer.active >> i & 1 else 0 for i, a in enumerate(answer.address)]
                ctx.set(payload, answers.pack({"words": words, "tag": answer.tag}))

    async def _collect(self, ctx) -> None:
        clock, idle, o, flags = 0, 0, self.dut.o, ("exists", "first", "last", "group_last", "unit_last")
        sampled, fields = (o.valid, o.ready, Value.cast(o.p)), Fields(o.p.shape())
        while len(self.answers) < len(self.wanted) and idle < 200:
            ctx.set(o.ready, self.rng.random() < self.take)
            _, _, valid, ready, bits = await ctx.tick().sample(*sampled)
            clock, idle = clock + 1, 0 if valid else idle + 1
            if valid and ready:
                p = fields.read(bits)
                self.answers.append({"words": self._taps(p), **{name: getattr(p, name) for name in flags}})
                self.clocks.append(clock)

    def _taps(self, p) -> list[int]:
        """The words of all taps of a step, tap by tap."""
        lanes = range(self.config.pix)
        if not self.window:
            return p.words
        pad = int.from_bytes(bytes([p.pad & 255]) * self.config.ci, "little")
        found = [p.words[lane] if p.inside >> lane & 1 else pad for lane in lanes]
        for tap in (1, 2):
            if p.taps >> (tap - 1) & 1:
                found += [p.words[lane + tap] if p.more[lane] >> (tap - 1) & 1 else pad for lane in lanes]
        return found


@pytest.mark.parametrize(("ready", "take"), [(1, 1), (0.5, 1), (0.8, 0.3)])
@pytest.mark.parametrize("config", [TINY, ODD], ids=lambda config: config.name)
@pytest.mark.parametrize("window", [False, True])
def test_words_equal_the_formulas(replay, config, ready, take, window, seed):
    """An address, flag or padding would be wrong, or a word be lost when memory or engine hold it up.

    The word of a flat tap goes to every lane; a walk without flat taps must not notice what it would be. Lanes would take each
    other's words for their further taps, or steps that exchange words those of another pair.
    """
    rng = np.random.default_rng([seed, config.pix])
    commands = [random_command(rng) for _ in range(6 if window else 4)]
    if window:
        commands += [windowed(random_command(rng), config, rng) for _ in range(6)]
    bench = FetchBench(replay, config, commands, ready, take, window=window)
    for number, (step, want) in enumerate(zip(bench.run(), bench.wanted, strict=True)):
        assert step == want, f"step {number}"


@pytest.mark.parametrize("apart", [None, 0, 1, 2])
def test_a_step_a_clock(replay, apart, seed):
    """Fewer groups would be under way than feature memory's latency asks for, or there would be a gap between groups or units."""
    command = random_command(np.random.default_rng(seed)) | {"out_width": 9, "chunks": 3, "flat": 0}
    if apart:
        command |= {"apart": apart, "kernel_width": 5, "src_kx": 1, "src_x": apart, "src_row": 0, "src_image": 0}
        command |= {"stride_dilation_x": 1, "stride_x": apart}
    bench = FetchBench(replay, TINY, [command], window=apart is not None)
    bench.run()
    assert set(np.diff(bench.clocks)) == {1}


@pytest.mark.parametrize("permits", [0, 2])
def test_no_unit_without_permit(replay, permits, seed):
    """Words would be read before the words that they depend on are written."""
    command = random_command(np.random.default_rng(seed)) | {"chunks": 3}
    bench = FetchBench(replay, TINY, [command], permits=permits)
    steps = bench.run()
    assert steps == bench.wanted[: len(bench.wanted) // 3 * permits]
    assert bench.requests == len(steps)
