"""The accelerator: connects its modules, and does nothing else.

A testbench may rely on these names below the top module: submodules `featmem`, `conv`, `vector`, `load`, `store`,
`weights`, `ring`, `vector_ring`, `sequencer`, `regfile`, `control`, `faults`, `counters`, `counts`, the masters `read0`..
and `write0`.., one a port, and with streams `stream_in` and `stream_out`; in them

- `featmem.probe_write`, `probe_row`, `probe_word`: what is written to which bank;
- `conv.started` (commands begun since reset), `conv.active`, `conv.stall`, `vector.active`;
- `load.number`, `store.number` (commands since reset before the one that is being written), `load.unit`, `store.unit`, `conv.unit`,
  `vector.unit`;
- `counts.done__*` and `regfile.done` (a program write has acted).

`aresetn` resets the domain `sync`; it and a soft reset reset the domain `core`. `aclk` is the clock of both. Each of the core's
modules has its own copy of that reset (`timing.own_reset`). `aclk2x` is the clock of the domain FAST, which has no reset.
"""

from amaranth import Cat, ClockDomain, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.array.conv import Conv
from cnna.hw.axi.buses import Axi4, Axi4Lite, AxiStream, connect_halves
from cnna.hw.axi.read_master import ReadMaster
from cnna.hw.axi.write_master import WriteArbiter, WriteMaster
from cnna.hw.base.attributes import COPY
from cnna.hw.base.timing import FAST, own_reset
from cnna.hw.control.control import Control
from cnna.hw.control.counters import Counters
from cnna.hw.control.faults import Faults, fault_words
from cnna.hw.control.regfile import RegFile
from cnna.hw.control.sequencer import Sequencer
from cnna.hw.control.status_registers import OUTSTANDING, STATUSES
from cnna.hw.dma.load import Load
from cnna.hw.dma.store import Store
from cnna.hw.dma.streams import StreamIn, StreamOut
from cnna.hw.memory.feature_memory import FeatureMemory
from cnna.hw.units.waits import UnitCounts
from cnna.hw.vector.vector import Vector
from cnna.hw.weights.ring import vector_ring, weight_ring
from cnna.hw.weights.weights import Weights
from cnna.spec.config import Config
from cnna.spec.regmap import COUNTED, ENGINES


class Top(wiring.Component):
    """One accelerator of the given size. `writer.py` has its ports' names in Verilog."""

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "aclk": In(1),
                "aclk2x": In(1),
                "aresetn": In(1),
                "interrupt": Out(1),
                "s_axi_control": In(Axi4Lite()),
                **{f"m_axi_gmem{port}": Out(Axi4()) for port in range(config.ports)},
                **({"s_axis": In(AxiStream()), "m_axis": Out(AxiStream())} if config.streams else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        m.submodules.regfile = self.regfile = RegFile(config)
        m.submodules.control = self.control = Control()
        next_reset = self._domains(m)
        core = {
            "featmem": FeatureMemory(config),
            "ring": weight_ring(config),
            "vector_ring": vector_ring(config),
            "conv": Conv(config),
            "vector": Vector(config),
            "load": Load(config),
            "store": Store(config),
            "weights": Weights(config),
            "sequencer": Sequencer(),
            "counts": UnitCounts(),
            "counters": Counters(config.ports),
            "faults": Faults(config.ports),
        }
        for port in range(config.ports):
            core[f"read{port}"] = ReadMaster(2 if port else 3 + config.streams, background=config.streams and port == 0)
            core[f"write{port}"] = WriteMaster()
        if config.streams:
            core |= {"stream_in": StreamIn(), "stream_out": StreamOut(), "write_share": WriteArbiter()}
        for name, block in core.items():
            m.submodules[name] = own_reset(block, self.aclk, next_reset)
        self._buses(m, core)
        self._memory(m, core)
        self._commands(m, core)
        self._program(m, core)
        self._watch(m, core)
        return m

    def _domains(self, m: Module) -> Signal:
        """Makes the domains, FAST and two on `aclk`; each reset is a register. Returns what `core`'s reset is a clock later."""
        m.domains.sync = sync = ClockDomain("sync")
        m.domains.core = core = ClockDomain("core")
        m.domains.reset = reset = ClockDomain("reset", reset_less=True)  # it makes the resets, so it has none
        fast = ClockDomain(FAST, reset_less=True)
        m.domains += fast
        sync.clk = core.clk = reset.clk = self.aclk
        fast.clk = self.aclk2x
        late = Signal(init=1)
        next_reset = Signal()
        core.rst = Signal(name="core_rst", attrs=COPY)
        m.d.comb += next_reset.eq(late | self.control.reset)
        m.d.reset += [late.eq(~self.aresetn), sync.rst.eq(late), core.rst.eq(next_reset)]
        return next_reset

    def _buses(self, m: Module, core: dict[str, wiring.Component]) -> None:
        """Connects each port's masters to its bus, and its clients to its masters. The sequencer shares port 0."""
        connect(m, flipped(self.s_axi_control), self.regfile.bus)
        for port in range(self.config.ports):
            bus, read, write = getattr(self, f"m_axi_gmem{port}"), core[f"read{port}"], core[f"write{port}"]
            connect_halves(m, bus, write.bus, read.bus)
            connect(m, core["load"].clients[port], read.clients[0])
            connect(m, core["weights"].clients[port], read.clients[1])
            shared = self.config.streams and port == 0
            connect(m, core["store"].clients[port], core["write_share"].clients[0] if shared else write.client)
            m.d.comb += [read.halt.eq(self.control.halt), write.halt.eq(self.control.halt)]
        connect(m, core["sequencer"].client, core["read0"].clients[2])
        if self.config.streams:
            self._streams(m, core)

    def _streams(self, m: Module, core: dict[str, wiring.Component]) -> None:
        """Connects the copies between stream ports and DDR, the last clients of port 0's masters."""
        regfile, came, goes, share = self.regfile, core["stream_in"], core["stream_out"], core["write_share"]
        read, write = core["read0"], core["write0"]
        connect(m, flipped(self.s_axis), came.axis)
        connect(m, goes.axis, flipped(self.m_axis))
        connect(m, regfile.stream_in, came.request)
        connect(m, regfile.stream_out, goes.request)
        connect(m, goes.client, read.clients[3])
        connect(m, came.client, share.clients[1])
        connect(m, share.master, write.client)
        m.d.comb += [goes.response.eq(read.response), came.response.eq(write.response), came.bad.eq(write.bad & share.second_done)]
        m.d.comb += [regfile.reports[name].eq(copy.status) for name, copy in zip(STATUSES, (came, goes), strict=True)]

    def _memory(self, m: Module, core: dict[str, wiring.Component]) -> None:
        """Connects the engines to feature memory and the rings."""
        featmem, conv, vector, weights = core["featmem"], core["conv"], core["vector"], core["weights"]
        connect(m, conv.source, featmem.conv_read)
        connect(m, conv.residual, featmem.residual_read)
        connect(m, conv.write, featmem.conv_write)
        connect(m, vector.source, featmem.vector_read)
        connect(m, vector.write, featmem.vector_write)
        connect(m, core["load"].write, featmem.load)
        connect(m, core["store"].read, featmem.store)
        connect(m, conv.ring, core["ring"].read)
        connect(m, vector.ring, core["vector_ring"].read)
        columns = [*zip(weights.ring, core["ring"].write, core["ring"].free, strict=True)]
        columns.append((weights.vector_ring, core["vector_ring"].write[0], core["vector_ring"].free[0]))
        for writer, write, free in columns:
            connect(m, writer.beat, write)
            m.d.comb += writer.free.eq(free)

    def _commands(self, m: Module, core: dict[str, wiring.Component]) -> None:
        """Connects the register file's commands to the engines, and the engines' finished units to each other."""
        regfile, counts = self.regfile, core["counts"]
        for engine, name in zip(ENGINES, ("load", "weights", "conv", "vector", "store"), strict=True):
            connect(m, getattr(regfile, engine), core[name].command)
            m.d.comb += self.control.engines[ENGINES.index(engine)].eq(core[name].busy)
        for index, engine in enumerate(COUNTED):
            m.d.comb += [core[engine].done.eq(counts.done), counts.unit[index].eq(core[engine].unit)]
        m.d.comb += counts.clear.eq(self.control.clear)
        for number, name in enumerate(("load", "weights", "store")):  # as `regmap.BOUNDED` has the engines
            m.d.comb += [core[name].segments.eq(regfile.segments), core[name].sizes.eq(regfile.sizes)]
            m.d.comb += core["faults"].outside[number].eq(core[name].outside)

    def _program(self, m: Module, core: dict[str, wiring.Component]) -> None:
        """Connects what starts, plays and ends a program."""
        regfile, control, sequencer, faults = self.regfile, self.control, core["sequencer"], core["faults"]
        connect(m, sequencer.write, regfile.program)
        masters = [core[f"{kind}{port}"] for kind in ("read", "write") for port in range(self.config.ports)]
        m.d.comb += [
            sequencer.base.eq(regfile.program_base),
            sequencer.count.eq(regfile.program_count),
            sequencer.start.eq(control.play),
            sequencer.stop.eq(control.drop),
            control.sequencer_idle.eq(sequencer.idle),
            control.masters_idle.eq(Cat(master.idle for master in masters).all()),
            control.error.eq(faults.error),
            regfile.stop.eq(faults.error),
            self.interrupt.eq(control.interrupt),
        ]
        for name in ("start", "begin", "launch", "queued", "soft_reset", "clear_done", "irq_enable", "end"):
            m.d.comb += getattr(control, name).eq(getattr(regfile, name))
        for name in ("busy", "running", "by_host", "resetting", "clear"):
            m.d.comb += getattr(regfile, name).eq(getattr(control, name))

    def _watch(self, m: Module, core: dict[str, wiring.Component]) -> None:
        """Connects counters and faults, and what the register file reports of them."""
        regfile, control, faults, counters = self.regfile, self.control, core["faults"], core["counters"]
        reads = [core[f"read{port}"] for port in range(self.config.ports)]
        writes = [core[f"write{port}"] for port in range(self.config.ports)]
        beats = Cat(master.beat for master in (*reads, *writes))
        m.d.comb += [
            faults.running.eq(control.running),
            faults.clear.eq(control.clear),
            faults.refused.eq(regfile.refused),
            faults.fault.eq(regfile.fault),
            faults.watchdog.eq(regfile.watchdog),
            faults.run_limit.eq(regfile.run_limit),
            faults.written.eq(regfile.done),
            faults.progress.eq(core["conv"].active | core["vector"].active | regfile.done | beats.any()),
            counters.running.eq(control.running),
            counters.clear.eq(control.clear),
            counters.array_active.eq(core["conv"].active),
            counters.vector_active.eq(core["vector"].active),
            counters.stall.eq(core["conv"].stall),
            counters.read_beat.eq(Cat(master.beat for master in reads)),
            counters.write_beat.eq(Cat(master.beat for master in writes)),
            counters.done.eq(core["counts"].done),
        ]
        for answers, masters in ((faults.reads, reads), (faults.writes, writes)):
            for port, master in enumerate(masters):
                bad, response = master.bad, master.response
                if self.config.streams and port == 0:
                    bad, response = self._without_copies(m, core, master)
                m.d.comb += [answers[port].valid.eq(bad), answers[port].response.eq(response)]
        status = Cat(control.busy | regfile.pending, control.done, faults.error, control.resetting, control.engines)
        words = {"STATUS": status} | fault_words(faults)
        m.d.comb += [regfile.reports[name].eq(word) for name, word in words.items()]
        m.d.comb += [regfile.reports[name].eq(counters.words[name]) for name, _ in counters.words.shape()]
        for name, masters in zip(OUTSTANDING, (reads, writes), strict=True):
            counts = [Cat(master.outstanding, Const(0, 8 - len(master.outstanding))) for master in masters]
            m.d.comb += regfile.reports[name].eq(Cat(counts))

    def _without_copies(self, m: Module, core: dict[str, wiring.Component], master: wiring.Component) -> tuple[Signal, Signal]:
        """A master's bad answers, a clock late, without those to a copy: a copy reports its own errors."""
        own = core["stream_out"].client.beat.valid if master is core["read0"] else core["write_share"].second_done
        bad = Signal()
        response = Signal(2)
        m.d.core += [bad.eq(master.bad & ~own), response.eq(master.response)]
        return bad, response
