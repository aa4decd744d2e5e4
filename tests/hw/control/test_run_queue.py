"""The queue of runs, with register file, control and faults as top connects them: what begins when, and with which registers."""

from functools import cache

import numpy as np
import pytest
from amaranth import DomainRenamer, Elaboratable, Module, ResetInserter

from cnna.hw.control.control import Control
from cnna.hw.control.faults import Faults
from cnna.hw.control.regfile import RegFile
from cnna.hw.control.run_queue import HELD
from cnna.spec.regmap import PLACES, REGISTERS, RUN_REGISTERS, offset

from ...rigs.regfile_host import CONFIG, OKAY, SLVERR, Host
from ...rigs.replay import Replay

MOST_CLOCKS = 50  # from the end of a program to the `clear` of the next
CTRL = REGISTERS["CTRL"]


class Bench(Elaboratable):
    """The three, with engines that are idle and a program that ends when the test says so."""

    def __init__(self):
        self.regfile, self.control, self.faults = RegFile(CONFIG), Control(), Faults(CONFIG.ports)

    def elaborate(self, platform):
        m = Module()
        regfile, control, faults = self.regfile, self.control, self.faults
        m.submodules.regfile = DomainRenamer({"core": "sync"})(regfile)
        m.submodules.control = control
        m.submodules.faults = ResetInserter(control.reset)(faults)
        for name in ("start", "begin", "launch", "queued", "soft_reset", "clear_done", "irq_enable"):
            m.d.comb += getattr(control, name).eq(getattr(regfile, name))
        for name in ("busy", "running", "by_host", "resetting", "clear"):
            m.d.comb += getattr(regfile, name).eq(getattr(control, name))
        m.d.comb += [control.error.eq(faults.error), regfile.stop.eq(faults.error)]
        m.d.comb += [faults.running.eq(control.running), faults.clear.eq(control.clear), faults.progress.eq(1)]
        return m


@cache
def simulation():
    return Replay(Bench())


class QueueHost(Host):
    """A host, and what ends or stops programs."""

    def __init__(self, ctx, bench):
        super().__init__(ctx, bench.regfile, None)
        self.bench = bench

    async def ctrl(self, **fields):
        return await self.write(CTRL.offset, CTRL.pack(**fields))

    async def fields(self, name):
        word, response = await self.read(offset(name))
        assert response == OKAY
        return REGISTERS[name].unpack(word)

    async def prepare(self, words):
        for name, word in words.items():
            assert await self.write(offset(name), word) == OKAY

    async def runs(self):
        """Waits until a program runs."""
        await self.ctx.tick().until(self.bench.control.running)

    async def end(self):
        """Ends the program that runs; returns once `done` would be set."""
        self.ctx.set(self.bench.control.end, 1)
        await self.ctx.tick()
        self.ctx.set(self.bench.control.end, 0)
        while self.ctx.get(self.bench.control.running):
            await self.ctx.tick()

    def active(self):
        """The run registers as engines, sequencer and faults have them."""
        dut, found = self.bench.regfile, {}
        for index, name in enumerate(("CONSTANT", "WORKSPACE", "INPUT", "OUTPUT")):
            found[f"SEG_{name}_LO"] = self.ctx.get(dut.segments[index]) & 0xFFFFFFFF
            found[f"SEG_{name}_HI"] = self.ctx.get(dut.segments[index]) >> 32
            found[f"SEG_{name}_BYTES"] = self.ctx.get(dut.sizes[index]) << 4
        base = self.ctx.get(dut.program_base)
        found |= {"PROG_BASE_LO": base & 0xFFFFFFFF, "PROG_BASE_HI": base >> 32}
        return found | {"PROG_COUNT": self.ctx.get(dut.program_count), "RUN_LIMIT": self.ctx.get(dut.run_limit)}


def play(test, *others):
    """Runs `test(ctx, host)`, and background processes beside it."""
    bench = simulation().design

    async def main(ctx):
        ctx.set(bench.control.masters_idle, 1)
        ctx.set(bench.control.sequencer_idle, 1)
        await test(ctx, QueueHost(ctx, bench))

    simulation().run(main, after=[lambda ctx, other=other: other(ctx, bench) for other in others])


def run_words(rng):
    """Words of all run registers."""
    words = {}
    for name in RUN_REGISTERS:
        word = int(rng.integers(1, 1 << REGISTERS[name].fields[0].bits))
        words[name] = word & ~15 if name.endswith("_BYTES") else word
    return words


def test_each_program_has_the_registers_of_its_own_start():
    """A program would use the segments, limits or program of another one, or those that the host is about to set."""

    async def test(ctx, host):
        rng = np.random.default_rng(3)
        sets = [run_words(rng) | {"RUN_LIMIT": 0} for _ in range(PLACES + 2)]
        await host.prepare(sets[0])
        assert host.active() == sets[0]
        assert await host.ctrl(start=1) == OKAY
        for words in sets[1:-1]:
            await host.prepare(words)
            assert await host.ctrl(queue=1) == OKAY
        assert (await host.fields("QUEUE"))["pending"] == PLACES
        assert await host.write(offset("PROG_COUNT"), 5) == SLVERR
        assert await host.ctrl(queue=1) == SLVERR
        for number, words in enumerate(sets[:-1]):
            assert host.active() == words
            assert await host.fields("FINISHED") == {"runs": number}
            await host.end()
            if number < PLACES:
                await host.runs()
                assert (await host.fields("QUEUE"))["queued"]
        await host.prepare(sets[-1])  # waits until the active ones are the host's again
        assert host.active() == sets[-1]
        assert await host.ctrl(start=1) == OKAY
        await host.runs()
        assert host.active() == sets[-1]

    play(test)


@pytest.mark.parametrize("clocks", range(1, 41, 3))
def test_the_next_program_begins_within_50_clocks_whatever_the_host_does(clocks):
    """A host that reads all the time, or queues a start at a bad moment, would delay the next program."""
    gaps = []

    async def watch(ctx, bench):
        left = None
        ran = 0
        while True:
            await ctx.tick()
            running = ctx.get(bench.control.running)
            if ran and not running:
                left = 0
            if left is not None:
                left += 1
                if ctx.get(bench.control.clear):
                    gaps.append(left)
                    left = None
            ran = running

    async def read(ctx, bench):
        reader = Host(ctx, bench.regfile, None)
        while True:
            await reader.send("ar", araddr=offset("CYCLES"))
            await reader.answer("r", "rdata")

    async def test(ctx, host):
        assert await host.ctrl(start=1) == OKAY
        await host.runs()
        assert await host.ctrl(queue=1) == OKAY
        await host.send("aw", awaddr=CTRL.offset)
        await host.send("w", wdata=CTRL.pack(queue=1), wstrb=15)
        await ctx.tick().repeat(clocks)
        await host.end()
        await host.runs()
        assert await host.answer("b", "bresp") == [OKAY]
        assert ctx.get(host.bench.regfile.pending)
        await host.end()
        await host.runs()

    play(test, watch, read)
    assert len(gaps) == 2
    assert max(gaps) <= MOST_CLOCKS


def test_counters_and_pc_stay_until_the_queued_program_ends():
    """A host that comes late would read counters of a program that still runs, or of none."""

    async def test(ctx, host):
        words = {name: 1000 + number for number, name in enumerate(HELD)}
        ctx.set(host.bench.regfile.reports, words)
        assert await host.ctrl(start=1) == OKAY
        await host.runs()
        assert await host.ctrl(queue=1) == OKAY
        await host.end()
        await host.runs()
        ctx.set(host.bench.regfile.reports, dict.fromkeys(HELD, 7))
        for live, expected in ((0, words), (1, dict.fromkeys(HELD, 7)), (0, words)):
            assert await host.ctrl(live=live) == OKAY
            assert {name: (await host.read(offset(name)))[0] for name in HELD} == expected
        assert await host.read(offset("DONE_STORE") + 4) == (0, SLVERR)
        await host.end()
        assert {name: (await host.read(offset(name)))[0] for name in HELD} == dict.fromkeys(HELD, 7)

    play(test)


def test_a_queued_start_leaves_done_and_a_plain_one_clears_it():
    """The interrupt of a program would be lost when the next one begins, or a start would look done at once."""

    async def test(ctx, host):
        assert await host.ctrl(queue=1, irq_enable=1) == OKAY
        await host.runs()
        assert await host.ctrl(queue=1, irq_enable=1) == OKAY
        await host.end()
        await host.runs()
        await ctx.tick().repeat(5)
        assert ctx.get(host.bench.control.done)
        assert ctx.get(host.bench.control.interrupt)
        assert await host.write(offset("STATUS"), REGISTERS["STATUS"].pack(done=1)) == OKAY
        await ctx.tick().repeat(3)
        assert not ctx.get(host.bench.control.interrupt)
        await host.end()
        assert ctx.get(host.bench.control.done)
        assert await host.ctrl(start=1) == OKAY
        await host.runs()
        assert not ctx.get(host.bench.control.done)
        assert (await host.fields("FINISHED"))["runs"] == 2

    play(test)


@pytest.mark.parametrize("by", ["error", "soft_reset"])
def test_an_error_or_a_reset_drops_what_is_pending(by):
    """Programs would begin behind one that has failed, or a host would not learn that they never will."""

    async def test(ctx, host):
        assert await host.ctrl(start=1) == OKAY
        for _ in range(PLACES):
            assert await host.ctrl(queue=1) == OKAY
        if by == "error":
            ctx.set(host.bench.faults.reads[0].valid, 1)
            await ctx.tick()
            ctx.set(host.bench.faults.reads[0].valid, 0)
            await ctx.tick().repeat(3)
            assert (await host.fields("QUEUE")) == {"pending": 0, "dropped": PLACES, "places": PLACES, "queued": 0}
            assert await host.ctrl(queue=1) == SLVERR
            assert ctx.get(host.bench.faults.error)
        assert await host.ctrl(soft_reset=1) == OKAY
        assert (await host.fields("QUEUE")) == {"pending": 0, "dropped": 0, "places": PLACES, "queued": 0}
        assert await host.ctrl(queue=1) == OKAY  # in the reset, or behind it
        await host.runs()
        await host.end()
        assert (await host.fields("FINISHED"))["runs"] == 1

    play(test)


def test_a_queued_start_behind_a_program_of_the_host_plays_from_memory():
    """The host's next write would become part of the queued program."""

    async def test(ctx, host):
        assert await host.ctrl(begin=1) == OKAY
        await host.runs()
        assert await host.ctrl(queue=1) == OKAY
        await host.end()
        assert await host.write(offset("SEG_INPUT_LO"), 0x1000) == OKAY
        await host.runs()
        assert not ctx.get(host.bench.control.by_host)
        assert ctx.get(host.bench.regfile.segments[2]) == 0
        assert not ctx.get(host.bench.faults.error)

    play(test)
