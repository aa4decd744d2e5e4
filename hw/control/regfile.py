"""The register file: what the host reads and writes over AXI4-Lite, made from `regmap`.

The registers of the general block stand here. Those of the engines stand in `writes.py`, which also takes the sequencer's writes.
What a write from the host may do:

- At any time it may write CTRL, STATUS, WATCHDOG and, if there are stream ports, the registers of their copies. CTRL.start and
  CTRL.begin while busy get SLVERR. So does the start of a copy that is busy, or any start of a copy while the accelerator resets
  or is stopped by an error.
- While the accelerator is not busy, it may also write the other "rw" registers of the general block. A write to an engine's
  register or to END gets SLVERR and stops nothing.
- While the sequencer plays a program, every other write gets SLVERR, and the program runs on.
- While the host plays a program (CTRL.begin), every other write is a write of the program. It is answered when it has acted. A
  write that a program may not do stops the accelerator (ERROR) and gets SLVERR. A write that is overtaken by the program's end, an
  error or a reset gets SLVERR too, so the host waits while a begin has to reset first (STATUS.resetting).

A write gets SLVERR if it does not strobe all four bytes, if its offset has no register, or if its register is "ro". Reads always
work, but an offset without a register answers SLVERR. Fields that act when they are written read 0.
"""

from amaranth import Cat, Const, DomainRenamer, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.axi.buses import Axi4Lite
from cnna.hw.axi.lite import AxiLiteSlave, LiteWrite
from cnna.hw.base.attributes import COPY
from cnna.hw.base.ports import command_layout
from cnna.hw.control.sequencer import ProgramWrite
from cnna.hw.control.status_registers import ALWAYS, COPYING, general_registers, is_writable, kept_mask, reports_layout
from cnna.hw.control.writes import ProgramWrites, Refusal, slices
from cnna.hw.dma.segments import BEAT_SHIFT, SEGMENT_BASES, SEGMENT_SIZES
from cnna.hw.dma.streams import CopyRequest
from cnna.spec.config import Config
from cnna.spec.identity import capability_words
from cnna.spec.machine import BUS_BITS
from cnna.spec.regmap import ENGINES, REGISTERS, SEGMENTS, there


class ReadGroup(wiring.Component):
    """Chooses among up to 16 words, two clocks late. It is a module by itself: the choice of 32 bits loads its copy of the offset.

    `indices` has the offset of each of `words`, counted in words. `known` says that a word has the offset asked for; an offset
    that is not a multiple of 4 has none.
    """

    def __init__(self, indices: tuple[int, ...]) -> None:
        self.indices = indices
        super().__init__({"offset": In(6), "words": In(data.ArrayLayout(32, len(indices))), "value": Out(32), "known": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        offset = Signal(6, name="offset_copy", attrs=COPY)
        m.d.sync += [offset.eq(self.offset), self.value.eq(0), self.known.eq(0)]
        with m.Switch(offset):
            for number, index in enumerate(self.indices):
                with m.Case(4 * index):
                    m.d.sync += [self.value.eq(self.words[number]), self.known.eq(1)]
        return m


class RegFile(wiring.Component):
    """Stands in domain `sync`, outside of the soft reset; its program writes stand in domain `core`, which soft reset clears."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.general = general_registers(config)
        copies = {"stream_in": Out(CopyRequest()), "stream_out": Out(CopyRequest())} if config.streams else {}
        super().__init__(
            {
                "bus": In(Axi4Lite()),
                "reports": In(reports_layout(config)),
                **copies,
                "busy": In(1),  # a program runs or is about to
                "running": In(1),  # the program's writes may act
                "by_host": In(1),  # the host plays the program
                "resetting": In(1),
                "clear": In(1),  # a program begins
                "stop": In(1),
                "program": In(stream.Signature(ProgramWrite)),  # from the sequencer
                "done": Out(1),  # a program write has acted
                "refused": Out(1),
                "fault": Out(Refusal),
                "end": Out(1),
                "start": Out(1),  # pulses of CTRL and STATUS
                "begin": Out(1),
                "soft_reset": Out(1),
                "clear_done": Out(1),
                "irq_enable": Out(1),
                "watchdog": Out(32),
                "run_limit": Out(32),
                "program_base": Out(BUS_BITS),
                "program_count": Out(32),
                "segments": Out(SEGMENT_BASES),
                "sizes": Out(SEGMENT_SIZES),
                **{engine: Out(stream.Signature(command_layout(engine, config.codebook))) for engine in ENGINES},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.slave = slave = AxiLiteSlave()
        writes = ProgramWrites(self.config.codebook)
        m.submodules.writes = DomainRenamer("core")(writes)
        connect(m, flipped(self.bus), slave.bus)
        for engine in ENGINES:
            connect(m, getattr(writes, engine), flipped(getattr(self, engine)))
        m.d.comb += [
            writes.stop.eq(self.stop),
            writes.clear.eq(self.clear),
            self.done.eq(writes.done),
            self.refused.eq(writes.refused),
            self.fault.eq(writes.fault),
            self.end.eq(writes.end),
        ]
        held = {r.name: Signal(32, init=r.pack(), name=r.name.lower()) for r in self.general if kept_mask(r)}
        self._copies(m, held)
        self._write(m, slave, writes, held)
        self._read(m, slave, writes, held)

        words = {name: slices(REGISTERS[name], word) for name, word in held.items()}
        m.d.comb += [
            self.irq_enable.eq(words["CTRL"]["irq_enable"]),
            self.watchdog.eq(held["WATCHDOG"]),
            self.run_limit.eq(held["RUN_LIMIT"]),
            self.program_base.eq(Cat(held["PROG_BASE_LO"], words["PROG_BASE_HI"]["address"])),
            self.program_count.eq(held["PROG_COUNT"]),
        ]
        for number, name in enumerate(SEGMENTS):
            low, high = held[f"SEG_{name.upper()}_LO"], words[f"SEG_{name.upper()}_HI"]["address"]
            m.d.comb += self.segments[number].eq(Cat(low, high))
            m.d.comb += self.sizes[number].eq(held[f"SEG_{name.upper()}_BYTES"][BEAT_SHIFT:])
        return m

    def _write(self, m: Module, slave: AxiLiteSlave, writes: ProgramWrites, held: dict[str, Signal]) -> None:
        """Handles one AXI4-Lite write at a time: takes it, decides what it is, acts, answers."""
        request = Signal(LiteWrite)
        answer = slave.written
        # They pulse in the clock after ACT.
        m.d.sync += [pulse.eq(0) for pulse in (self.soft_reset, self.start, self.begin, self.clear_done)]
        hit = Signal(len(self.general))  # in the general block
        writable = Signal()  # by the host, copies' registers excepted
        always = Signal()
        whole = Signal()
        mine = Signal()
        gone = Signal()
        m.d.comb += gone.eq(self.stop | self.resetting | ~self.busy)  # the program that the write belonged to is over
        m.d.comb += [writes.write.valid.eq(self.program.valid), writes.write.payload.eq(self.program.payload)]
        m.d.comb += self.program.ready.eq(writes.write.ready)
        with m.FSM(name="writing"):
            with m.State("IDLE"):
                m.d.comb += slave.write.ready.eq(1)
                m.d.sync += request.eq(slave.write.payload)
                with m.If(slave.write.valid):
                    m.next = "DECODE"
            with m.State("DECODE"):
                hits = {register: request.offset == register.offset for register in self.general}
                m.d.sync += [
                    hit.eq(Cat(hits.values())),
                    always.eq(Cat(hit for register, hit in hits.items() if register.name in ALWAYS).any()),
                    writable.eq(Cat(hit for register, hit in hits.items() if is_writable(register)).any()),
                    whole.eq(request.strobe.all()),
                ]
                m.next = "DECIDE"
            with m.State("DECIDE"):
                m.next = "ACT"
                m.d.sync += mine.eq(whole & writable & (always | ~self.busy))
                with m.If(whole & ~always & self.by_host & ~gone):
                    m.next = "PLAY"
                if self.config.streams:
                    with m.If((hit & sum(1 << self.general.index(register) for register in COPYING)).any()):
                        m.d.sync += mine.eq(whole)
                        m.next = "ACT"
            with m.State("ACT"):
                wrong = Signal()
                mine_hit = hit & mine.replicate(len(self.general))
                self._act(m, mine_hit, request.value, wrong, held)
                self._start_copy(m, mine_hit, request.value, wrong)
                m.d.comb += [answer.valid.eq(1), answer.payload.eq(~mine | wrong)]
                m.next = "IDLE"
            self._play(m, slave, writes, request, gone)

    def _play(self, m: Module, slave: AxiLiteSlave, writes: ProgramWrites, request: data.View, gone: Value) -> None:
        """The states of a write that belongs to the program: it goes to `writes` and is answered when it has acted."""
        answer = slave.written
        with m.State("PLAY"):
            m.d.comb += [
                writes.write.valid.eq(self.running),
                writes.write.payload.offset.eq(request.offset),
                writes.write.payload.value.eq(request.value),
                self.program.ready.eq(0),
            ]
            with m.If((self.running & writes.write.ready) | gone):
                m.next = "PLAYED"
        with m.State("PLAYED"):
            m.d.comb += answer.valid.eq(writes.done | writes.refused | gone)
            m.d.comb += answer.payload.eq(~writes.done)
            with m.If(answer.valid):
                m.next = "IDLE"

    def _act(self, m: Module, hit: Value, value: Value, wrong: Signal, held: dict[str, Signal]) -> None:
        """Writes the register of the general block that `hit` names, if any."""
        for number, register in enumerate(self.general):
            with m.If(hit[number]):
                if register.name in held:
                    m.d.sync += held[register.name].eq(value & kept_mask(register))
                if register.name == "CTRL":
                    fields = slices(register, value)
                    m.d.comb += [
                        wrong.eq((fields["start"] | fields["begin"]) & self.busy & ~fields["soft_reset"]),
                    ]
                    m.d.sync += [
                        self.soft_reset.eq(fields["soft_reset"]),
                        self.start.eq(fields["start"] & ~self.busy & ~fields["soft_reset"]),
                        self.begin.eq(fields["begin"] & ~fields["start"] & ~self.busy & ~fields["soft_reset"]),
                    ]
                if register.name == "STATUS":
                    m.d.sync += self.clear_done.eq(slices(register, value)["done"])

    def _copies(self, m: Module, held: dict[str, Signal]) -> None:
        """Drives the requests for copies by the stream ports."""
        for name, request in self._requests().items():
            m.d.sync += request.start.eq(0)
            high = slices(REGISTERS[f"{name}_HI"], held[f"{name}_HI"])["address"]
            m.d.comb += [request.address.eq(Cat(held[f"{name}_LO"], high)), request.bytes.eq(held[f"{name}_BYTES"])]

    def _start_copy(self, m: Module, hit: Value, value: Value, wrong: Signal) -> None:
        """Starts the copy that `hit` names, unless it is busy or the accelerator is about to halt or reset it."""
        for name, request in self._requests().items():
            register = REGISTERS[f"{name}_START"]
            busy = slices(REGISTERS[f"{name}_STATUS"], self.reports[f"{name}_STATUS"])["busy"]
            with m.If(hit[self.general.index(register)] & slices(register, value)["start"]):
                m.d.comb += wrong.eq(busy | self.resetting | self.stop)
                m.d.sync += request.start.eq(~wrong)

    def _requests(self) -> dict[str, wiring.PureInterface]:
        return {"STREAM_IN": self.stream_in, "STREAM_OUT": self.stream_out} if self.config.streams else {}

    def _read(self, m: Module, slave: AxiLiteSlave, writes: ProgramWrites, held: dict[str, Signal]) -> None:
        """Chooses in two levels with a register between them: first among the 16 registers of a group, then among the groups."""
        words: dict[str, Value] = {name: Const(word, 32) for name, word in capability_words(self.config).items()}
        status = Signal(32)  # a clock late: the engines derive it from signals deep inside them
        m.d.sync += status.eq(self.reports["STATUS"])
        words |= {name: self.reports[name] for name, _ in self.reports.shape()} | {"STATUS": status}
        words |= held
        words |= {register.name: writes.shadow[number] for number, register in enumerate(writes.shadowed)}
        groups: dict[int, dict[int, Value]] = {}
        for register in there(self.config.codebook):
            groups.setdefault(register.offset // 64, {})[register.offset // 4 % 16] = words.get(register.name, Const(0, 32))
        offset = Signal(slave.read.payload.shape())
        found = Signal()
        value = Signal(32)
        m.d.sync += [offset.eq(slave.read.payload), found.eq(0), value.eq(0)]
        with m.Switch(offset[6:]):
            for number, members in groups.items():
                m.submodules[f"group{number}"] = group = ReadGroup(tuple(members))
                m.d.comb += [group.offset.eq(slave.read.payload[:6]), group.words.eq(Cat(members.values()))]
                with m.Case(number):
                    m.d.sync += [found.eq(group.known), value.eq(group.value)]
        clocks = Signal(4)  # since the request, one bit each
        m.d.comb += [
            slave.read.ready.eq(1),
            slave.answer.valid.eq(clocks[-1]),
            slave.answer.payload.value.eq(value),
            slave.answer.payload.error.eq(~found),
        ]
        m.d.sync += clocks.eq(Cat(slave.read.valid, clocks[:-1]))
