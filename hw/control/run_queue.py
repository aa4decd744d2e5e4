"""The queue of runs: keeps queued starts, begins their programs, and moves what each of them needs.

A start takes the *run registers* (`regmap.RUN_REGISTERS`). The host's words stand in `regfile.py`, beside *active* copies that the
engines read. While a program runs or waits, the host writes its words alone. A copier moves words, one a clock, through the read
pipeline of `reads.py`, and a host's reads wait meanwhile:

- *snapshot*: the host's words into a place of the queue; the write that queues a start is answered at its end;
- *launch*: a place into the active copies, and counters and PC, which the next program clears, into `last`. A launch interrupts
  a snapshot, which then begins again, so that no host delays the next program;
- *restore*: the host's words into the active copies, once nothing runs or is pending and they may differ. Until then a host's
  write waits (`holds`), so that no start takes the words of an earlier one. In the clock before `holds` a start counts as one
  while busy (`dirty`).

An error drops all that is pending, and what is asked for behind it, until a reset; a soft reset clears the queue. `docs/queue.md`
has the clocks.
"""

import itertools

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cnna.spec.regmap import PLACES, REGISTERS, RUN_REGISTERS, offset

PIPELINE_CLOCKS = 3  # from `at` to `value`
RUN_WORDS = tuple(offset(name) // 4 for name in RUN_REGISTERS)
HELD = (*(name for name, register in REGISTERS.items() if register.block == "counters"), "PC")  # the words of `last`, in order
HELD_WORDS = tuple(offset(name) // 4 for name in HELD)
AT_BITS = 10  # of a register's offset in words
DROPPED_BITS = 8
COUNT_BITS = 5  # of a word's number, and of the clocks before the first one, which count from -PIPELINE_CLOCKS

assert PLACES == 2
assert len(RUN_WORDS) == 16
assert len(HELD) + PIPELINE_CLOCKS <= 1 << COUNT_BITS


class RunQueue(wiring.Component):
    """`ask` stays set until `answered` pulses, with `refused` if no place was free. After an error a start is dropped and counted.

    `launch` starts a program as CTRL.start does, but with the active copies as the queue has set them. `queued` is set from then on
    until the program has ended. `finished` counts programs that set done.
    """

    busy: In(1)  # a program runs or is about to
    running: In(1)
    stop: In(1)
    resetting: In(1)
    soft_reset: In(1)
    clear: In(1)
    ask: In(1)  # for a queued start
    answered: Out(1)
    refused: Out(1)
    full: Out(1)  # no place is free, nor is about to be; a clock late
    apart: In(1)  # the host writes a run register, and not its active copy
    dirty: Out(1)  # active copies may differ from the host's words
    holds: Out(1)  # no write may act: they do, and nothing runs or is pending, or a launch is about to free a place; a clock late
    reading: In(1)  # a host's read is under way
    claimed: Out(1)  # no host's read may begin
    copying: Out(1)  # the pipeline reads `at`
    at: Out(AT_BITS)
    value: In(32)
    put: Out(1)  # `word` into an active copy
    index: Out(4)
    word: Out(32)
    shown: In(COUNT_BITS)  # number of the word in `last`, two clocks later
    last: Out(32)
    pending: Out(range(PLACES + 1))
    dropped: Out(DROPPED_BITS)
    finished: Out(32)
    queued: Out(1)
    launch: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        wants = Signal()  # to launch
        failed = Signal()  # a start is dropped
        failing = Signal()  # a clock late
        filled = Signal()
        settled = Signal()  # no program is about to begin
        some = Signal()  # something is pending
        due = Signal()  # to restore
        written = Signal()  # a clock after `apart`
        launching = Signal()
        restoring = Signal()
        snapping = Signal()
        ends = Signal()  # what the copier does
        count = Signal(COUNT_BITS)
        m.d.comb += [
            some.eq(self.pending.any()),
            filled.eq(self.pending == PLACES),
            settled.eq(self.busy | self.stop | self.resetting),
            failed.eq(self.stop & ~self.resetting),
            wants.eq(some & ~settled & ~self.launch),
            due.eq(self.dirty & ~self.busy & ~some),
            snapping.eq(~launching & ~restoring),
        ]
        m.d.sync += [self.holds.eq(due | (filled & ~settled)), self.full.eq(filled & settled), failing.eq(failed)]
        with m.If(~self.claimed):
            m.d.sync += [launching.eq(wants), restoring.eq(due)]
            m.d.sync += self.claimed.eq(wants | due | (self.ask & ~self.answered & ~filled & ~failing))
        with m.Elif(~self.copying):
            m.d.sync += [self.at.eq(Mux(launching, HELD_WORDS[0], RUN_WORDS[0])), count.eq(-PIPELINE_CLOCKS)]
            m.d.sync += self.copying.eq(~self.reading)
        with m.Else():
            m.d.comb += ends.eq(count == Mux(launching, len(HELD) - 1, 15))
            m.d.sync += [self._step(m), count.eq(count + 1)]
            with m.If(ends):
                m.d.sync += [self.claimed.eq(0), self.copying.eq(0)]
            with m.Elif(wants & snapping):
                m.d.sync += [launching.eq(1), self.copying.eq(0)]
        with m.If(launching & ~some):
            m.d.sync += [self.claimed.eq(0), self.copying.eq(0)]
        m.d.sync += written.eq(self.apart)
        with m.If(written | launching):
            m.d.sync += self.dirty.eq(1)
        with m.Elif(ends & restoring):
            m.d.sync += self.dirty.eq(0)
        m.d.sync += [
            self.launch.eq(ends & launching & some & ~self.soft_reset),
            self.answered.eq((ends & snapping) | (~self.claimed & self.ask & ~self.answered & (self.full | failing))),
            self.refused.eq(~self.claimed & filled),
            self.queued.eq(self.launch | (self.queued & self.busy)),
        ]
        head = self._count(m, ends & snapping & ~failed, self.answered & ~self.refused & failing)
        self._memories(m, count, head, snapping, launching)
        return m

    def _step(self, m: Module) -> Value:
        """Takes `at` to the next register."""
        jumps = [pair for words in (RUN_WORDS, HELD_WORDS) for pair in itertools.pairwise(words) if pair[1] != pair[0] + 1]
        following = Signal(AT_BITS)
        m.d.comb += following.eq(self.at + 1)
        for one, other in jumps:
            with m.If(self.at == one):
                m.d.comb += following.eq(other)
        return self.at.eq(following)

    def _count(self, m: Module, commits: Value, lost: Value) -> Signal:
        """Counts what is pending, dropped and finished. Returns the place of the next start."""
        head = Signal()
        ran = Signal()  # a program ran a clock ago
        stopped = Signal()
        m.d.sync += [ran.eq(self.running), stopped.eq(self.stop), head.eq(head ^ self.launch)]
        with m.If(self.clear | self.soft_reset):
            m.d.sync += self.dropped.eq(0)
        with m.Elif(self.stop & ~stopped):
            m.d.sync += self.dropped.eq(self.pending)
        with m.Elif(lost & ~self.dropped.all()):
            m.d.sync += self.dropped.eq(self.dropped + 1)
        with m.If(self.soft_reset | (self.stop & ~stopped)):
            m.d.sync += self.pending.eq(0)
        with m.Else():
            m.d.sync += self.pending.eq(self.pending + commits - self.launch)
        with m.If(ran & ~self.running & ~self.stop & ~self.resetting):
            m.d.sync += self.finished.eq(self.finished + 1)
        return head

    def _memories(self, m: Module, count: Signal, head: Signal, snapping: Signal, launching: Signal) -> None:
        """The places, and what is held of the program that finished last."""
        m.submodules.places = places = Memory(shape=32, depth=16 * PLACES, init=[])
        m.submodules.held = held = Memory(shape=32, depth=1 << COUNT_BITS, init=[])
        into, out = places.write_port(), places.read_port(domain="comb")
        keep, shown = held.write_port(), held.read_port(domain="comb")
        number, run_word = count[:4], self.copying & ~count[4]
        asked = Signal(COUNT_BITS)
        m.d.comb += [
            into.en.eq(run_word & snapping),
            into.addr.eq(Cat(number, head ^ self.pending[0])),
            into.data.eq(self.value),
            out.addr.eq(Cat(number, head)),
            self.put.eq(run_word & ~snapping),
            self.index.eq(number),
            self.word.eq(Mux(launching, out.data, self.value)),
            keep.en.eq(self.copying & launching & ~count[3:].all()),
            keep.addr.eq(count),
            keep.data.eq(self.value),
            shown.addr.eq(asked),
        ]
        m.d.sync += [asked.eq(self.shown), self.last.eq(shown.data)]
