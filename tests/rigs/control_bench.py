"""Control and faults together, as top connects them, in the Amaranth simulator."""

from amaranth import Module, ResetInserter
from amaranth.sim import Simulator

from cnna.hw.control.control import Control
from cnna.hw.control.faults import Faults

PORTS = 2


def run(test):
    """Runs `test(ctx, control, faults)`; faults are cleared by control's reset."""
    control, faults, top = Control(), Faults(PORTS), Module()
    top.submodules.control = control
    top.submodules.faults = ResetInserter(control.reset)(faults)
    top.d.comb += [control.error.eq(faults.error), faults.running.eq(control.running), faults.clear.eq(control.clear)]
    simulator = Simulator(top)
    simulator.add_clock(1e-6)

    async def main(ctx):
        ctx.set(control.masters_idle, 1)
        ctx.set(control.sequencer_idle, 1)
        await ctx.tick()
        await test(ctx, control, faults)

    simulator.add_testbench(main)
    simulator.run()


async def pulse(ctx, signal):
    """Sets a signal for one clock."""
    ctx.set(signal, 1)
    await ctx.tick()
    ctx.set(signal, 0)


async def within(ctx, signal, clocks):
    """Clocks until the signal is set. AssertionError: it is not set in time."""
    for clock in range(clocks):
        if ctx.get(signal):
            return clock
        await ctx.tick()
    raise AssertionError(f"{signal.name} was not set within {clocks} clocks")
