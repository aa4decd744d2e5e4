"""The register file: what the host reads and writes over AXI4-Lite, made from `regmap`.

The registers of the general block stand here. Those of the engines stand in `writes.py`, which also takes the sequencer's writes.
What a write from the host may do:

- At any time it may write CTRL, STATUS, WATCHDOG and, if there are stream ports, the registers of their copies. CTRL.start and
  CTRL.begin while busy get SLVERR. So does the start of a copy that is busy, or any start of a copy while the accelerator resets
  or is stopped by an error.
- While the accelerator is not busy, it may also write the other "rw" registers of the general block. A write to an engine's
  register or to END gets SLVERR and stops nothing.
- While the sequencer plays a program, it may also write the run registers, as long as the queue has a free place; they are for the
  next start. Every other write gets SLVERR, and the program runs on. CTRL.queue is answered when `run_queue.py` has taken it. Once
  a program has ended, both wait for the next one to begin, if no place is free until then: FINISHED tells the host of the end.
- While the host plays a program (CTRL.begin), every other write is a write of the program. It is answered when it has acted. A
  write that a program may not do stops the accelerator (ERROR) and gets SLVERR. A write that is overtaken by the program's end, an
  error or a reset gets SLVERR too, so the host waits while a begin has to reset first (STATUS.resetting).

A write gets SLVERR if it does not strobe all four bytes, if its offset has no register, or if its register is "ro". Reads always
work, but an offset without a register answers SLVERR. Fields that act when they are written read 0.
"""

from amaranth import Cat, Const, DomainRenamer, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.axi.buses import Axi4Lite
from cnna.hw.axi.lite import AxiLiteSlave, LiteWrite
from cnna.hw.base.ports import command_layout
from cnna.hw.control.reads import add_reads
from cnna.hw.control.run_queue import RunQueue
from cnna.hw.control.sequencer import ProgramWrite
from cnna.hw.control.status_registers import ALWAYS, COPYING, general_registers, is_writable, kept_mask, reports_layout
from cnna.hw.control.writes import ProgramWrites, Refusal, slices
from cnna.hw.dma.segments import BEAT_SHIFT, SEGMENT_BASES, SEGMENT_SIZES
from cnna.hw.dma.streams import CopyRequest
from cnna.spec.config import Config
from cnna.spec.identity import capability_words
from cnna.spec.machine import BUS_BITS
from cnna.spec.regmap import ENGINES, PLACES, REGISTERS, RUN_REGISTERS, SEGMENTS, there

CTRL = REGISTERS["CTRL"]


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
                "launch": Out(1),  # as start, but by the queue
                "queued": Out(1),  # the program that runs or is about to comes from the queue
                "pending": Out(1),  # a program does
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
        active = {name: Signal(32, init=REGISTERS[name].pack(), name=f"active_{name.lower()}") for name in RUN_REGISTERS}
        self._copies(m, held)
        queue = self._connect_queue(m)
        self._write(m, slave, writes, queue, held, active)
        words = self._words(m, writes, queue, held)
        add_reads(m, slave, queue, words, slices(CTRL, held["CTRL"])["live"])
        m.d.comb += [
            self.irq_enable.eq(slices(CTRL, held["CTRL"])["irq_enable"]),
            self.watchdog.eq(held["WATCHDOG"]),
            self.run_limit.eq(active["RUN_LIMIT"]),
            self.program_base.eq(Cat(active["PROG_BASE_LO"], active["PROG_BASE_HI"])),
            self.program_count.eq(active["PROG_COUNT"]),
        ]
        for number, name in enumerate(SEGMENTS):
            low, high, size = (active[f"SEG_{name.upper()}_{part}"] for part in ("LO", "HI", "BYTES"))
            m.d.comb += [self.segments[number].eq(Cat(low, high)), self.sizes[number].eq(size[BEAT_SHIFT:])]
        return m

    def _connect_queue(self, m: Module) -> RunQueue:
        """Adds the queue of runs, and connects it to what this module has as ports."""
        m.submodules.queue = queue = RunQueue()
        for name in ("busy", "running", "stop", "resetting", "soft_reset", "clear"):
            m.d.comb += getattr(queue, name).eq(getattr(self, name))
        m.d.comb += [self.launch.eq(queue.launch), self.queued.eq(queue.queued), self.pending.eq(queue.pending.any())]
        return queue

    def _words(self, m: Module, writes: ProgramWrites, queue: RunQueue, held: dict[str, Signal]) -> dict[int, Value]:
        """What each register reads, by offset."""
        words: dict[str, Value] = {name: Const(word, 32) for name, word in capability_words(self.config).items()}
        status = Signal(32)  # a clock late: the engines derive it from signals deep inside them
        m.d.sync += status.eq(self.reports["STATUS"])
        words |= {name: self.reports[name] for name, _ in self.reports.shape()} | {"STATUS": status}
        words |= held
        words |= {register.name: writes.shadow[number] for number, register in enumerate(writes.shadowed)}
        states = {"pending": queue.pending, "dropped": queue.dropped, "places": Const(PLACES), "queued": queue.queued}
        words |= {"FINISHED": queue.finished, "QUEUE": Cat(states[f.name] | Const(0, f.bits) for f in REGISTERS["QUEUE"].fields)}
        return {register.offset: words.get(register.name, Const(0, 32)) for register in there(self.config.codebook)}

    def _write(
        self,
        m: Module,
        slave: AxiLiteSlave,
        writes: ProgramWrites,
        queue: RunQueue,
        held: dict[str, Signal],
        active: dict[str, Signal],
    ) -> None:
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
        run = Signal()  # a run register
        ahead = Signal()  # for the next queued start
        asks = Signal()  # for a queued start
        go = Signal()
        acts = Signal()  # the write
        mine_hit = hit & mine.replicate(len(self.general))
        own = mine_hit & acts.replicate(len(self.general))  # what is written
        wrong = Signal()
        gone = Signal()
        m.d.comb += gone.eq(self.stop | self.resetting | ~self.busy)  # the program that the write belonged to is over
        occupied = self.busy | self.pending
        fields = slices(CTRL, request.value)
        queues = fields["queue"] & ~fields["start"] & ~fields["begin"] & ~fields["soft_reset"]
        m.d.comb += go.eq(Mux(asks, queue.answered, ~queue.holds))
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
                    run.eq(Cat(hit for register, hit in hits.items() if register.name in RUN_REGISTERS).any()),
                ]
                m.next = "DECIDE"
            with m.State("DECIDE"):
                m.next = "ACT"
                m.d.sync += mine.eq(whole & writable & (always | ~occupied))
                m.d.sync += ahead.eq(whole & run & occupied & ~queue.full)
                m.d.sync += asks.eq(whole & hit[self.general.index(CTRL)] & queues)
                with m.If(whole & ~always & self.by_host & ~gone):
                    m.next = "PLAY"
                if self.config.streams:
                    with m.If((hit & sum(1 << self.general.index(register) for register in COPYING)).any()):
                        m.d.sync += mine.eq(whole)
                        m.next = "ACT"
            with m.State("ACT"):
                m.d.comb += [queue.ask.eq(asks), answer.valid.eq(go)]
                m.d.comb += answer.payload.eq((~mine & ~ahead) | wrong | (asks & queue.refused))
                with m.If(go):
                    m.d.comb += [acts.eq(1), queue.apart.eq(ahead)]
                    m.next = "IDLE"
            self._play(m, slave, writes, request, gone)
        engaged = occupied | queue.dirty
        with m.If(mine_hit[self.general.index(CTRL)]):
            m.d.comb += wrong.eq((fields["start"] | fields["begin"]) & engaged & ~fields["soft_reset"])
        self._act(m, own, request.value, engaged, held)
        self._start_copy(m, own, mine_hit, request.value, wrong)
        word = Mux(queue.put, queue.word, request.value)
        for number, name in enumerate(RUN_REGISTERS):
            register = REGISTERS[name]
            index = self.general.index(register)
            with m.If(hit[index] & queue.apart):
                m.d.sync += held[name].eq(request.value & kept_mask(register))
            with m.If(own[index] | (queue.put & (queue.index == number))):
                m.d.sync += active[name].eq(word & kept_mask(register))

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

    def _act(self, m: Module, hit: Value, value: Value, engaged: Value, held: dict[str, Signal]) -> None:
        """Writes the register of the general block that `hit` names, if any. While `engaged`, no program may start."""
        for number, register in enumerate(self.general):
            with m.If(hit[number]):
                if register.name in held:
                    m.d.sync += held[register.name].eq(value & kept_mask(register))
                if register.name == "CTRL":
                    fields = slices(register, value)
                    m.d.sync += [
                        self.soft_reset.eq(fields["soft_reset"]),
                        self.start.eq(fields["start"] & ~engaged & ~fields["soft_reset"]),
                        self.begin.eq(fields["begin"] & ~fields["start"] & ~engaged & ~fields["soft_reset"]),
                    ]
                if register.name == "STATUS":
                    m.d.sync += self.clear_done.eq(slices(register, value)["done"])

    def _copies(self, m: Module, held: dict[str, Signal]) -> None:
        """Drives the requests for copies by the stream ports."""
        for name, request in self._requests().items():
            m.d.sync += request.start.eq(0)
            high = slices(REGISTERS[f"{name}_HI"], held[f"{name}_HI"])["address"]
            m.d.comb += [request.address.eq(Cat(held[f"{name}_LO"], high)), request.bytes.eq(held[f"{name}_BYTES"])]

    def _start_copy(self, m: Module, own: Value, hit: Value, value: Value, wrong: Signal) -> None:
        """Starts the copy that `own` names, unless it is busy or the accelerator is about to halt or reset it.

        Then a start of the copy that `hit` names is `wrong`.
        """
        for name, request in self._requests().items():
            register = REGISTERS[f"{name}_START"]
            busy = slices(REGISTERS[f"{name}_STATUS"], self.reports[f"{name}_STATUS"])["busy"]
            index, start = self.general.index(register), slices(register, value)["start"]
            refused = busy | self.resetting | self.stop
            with m.If(hit[index] & start):
                m.d.comb += wrong.eq(refused)
            with m.If(own[index] & start):
                m.d.sync += request.start.eq(~refused)

    def _requests(self) -> dict[str, wiring.PureInterface]:
        return {"STREAM_IN": self.stream_in, "STREAM_OUT": self.stream_out} if self.config.streams else {}
