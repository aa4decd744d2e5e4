"""What the accelerator is doing: idle, running a program, stopped by an error, or in a soft reset.

It makes the soft reset and stands outside of it: the read and write masters finish what is outstanding, then domain `core` is
reset. A start or begin after an error does a soft reset first.
"""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.spec.regmap import ENGINES

QUIET_CLOCKS = 8  # for which the masters must have been idle: a burst under way shows itself sooner
RESET_CLOCKS = 4


class Control(wiring.Component):
    """`clear` pulses as a program begins, once `sequencer_idle` is set. `play` follows it if the sequencer plays the program.

    A program may end in the clock in which an error stops it; then it counts as stopped, not as done.
    """

    start: In(1)
    begin: In(1)
    launch: In(1)  # a start by the queue
    queued: In(1)  # from the clock after `launch` until its program has ended
    soft_reset: In(1)
    clear_done: In(1)
    irq_enable: In(1)
    end: In(1)  # the program's last write was taken
    engines: In(len(ENGINES))  # busy, one bit for each engine
    error: In(1)  # `faults` has stopped the accelerator
    masters_idle: In(1)
    sequencer_idle: In(1)
    busy: Out(1)  # a program runs or is about to
    running: Out(1)
    by_host: Out(1)
    done: Out(1)
    resetting: Out(1)
    halt: Out(1)
    reset: Out(1)  # of domain `core`
    clear: Out(1)
    play: Out(1)
    drop: Out(1)  # tells the sequencer to drop what it still holds
    interrupt: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        waiting = Signal()  # for the program to begin
        ended = Signal()
        settled = Signal()
        quiet = Signal()  # a clock ago no engine was busy
        masters_idle = Signal()  # a clock ago no master was at work
        done = Signal(name="done")
        m.d.comb += self.done.eq(done & ~self.error)
        m.d.sync += [quiet.eq(~self.engines.any()), masters_idle.eq(self.masters_idle)]
        m.d.comb += [self.halt.eq(self.resetting | self.error), self.busy.eq(self.running | waiting)]
        m.d.sync += self.interrupt.eq(self.irq_enable & (self.done | self.error))
        m.d.sync += [self.clear.eq(0), self.play.eq(self.clear & ~self.by_host)]
        m.d.sync += [settled.eq(ended & quiet), self.drop.eq(ended | self.error)]
        with m.If(self.clear_done):
            m.d.sync += done.eq(0)
        with m.If(self.error):
            m.d.sync += [self.running.eq(0), done.eq(0)]
        with m.Elif(settled & quiet & self.running):
            m.d.sync += [self.running.eq(0), done.eq(1)]
        with m.If(self.end & self.running):  # otherwise it is the END of a program that a reset has just stopped
            m.d.sync += ended.eq(1)
        self._reset(m, waiting, masters_idle)
        with m.If(self.start | self.begin | self.launch):
            m.d.sync += [waiting.eq(1), self.by_host.eq(self.begin), ended.eq(0), settled.eq(0)]
        with m.If(waiting & ~self.resetting & ~self.error & self.sequencer_idle & ~self.drop):
            m.d.sync += [waiting.eq(0), self.clear.eq(1), self.running.eq(1), done.eq(done & self.queued & ~self.clear_done)]
        with m.If(self.soft_reset):
            m.d.sync += [self.resetting.eq(1), self.running.eq(0), done.eq(0), waiting.eq(0), ended.eq(0)]
        return m

    def _reset(self, m: Module, waiting: Signal, masters_idle: Signal) -> None:
        """Resets `core` once the masters have been idle for QUIET_CLOCKS."""
        clocks = Signal(range(QUIET_CLOCKS + RESET_CLOCKS + 1))
        m.d.sync += self.reset.eq(clocks >= QUIET_CLOCKS)
        with m.If(~self.resetting | (~masters_idle & ~self.reset)):
            m.d.sync += clocks.eq(0)
        with m.Elif(clocks == QUIET_CLOCKS + RESET_CLOCKS):
            m.d.sync += [clocks.eq(0), self.resetting.eq(0)]
        with m.Else():
            m.d.sync += clocks.eq(clocks + 1)
        with m.If(waiting & self.error):
            m.d.sync += self.resetting.eq(1)
