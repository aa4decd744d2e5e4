"""Register file with its queue of runs, control and faults, as top connects them, and a host that queues starts."""

from functools import cache

from amaranth import DomainRenamer, Elaboratable, Module, ResetInserter

from cnna.hw.control.control import Control
from cnna.hw.control.faults import Faults
from cnna.hw.control.regfile import RegFile
from cnna.spec.regmap import REGISTERS, RUN_REGISTERS, offset

from .regfile_host import CONFIG, OKAY, Host
from .replay import Replay

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
