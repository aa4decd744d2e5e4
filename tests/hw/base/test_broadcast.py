"""The way of commands to the parts of an engine."""

import numpy as np
from amaranth.lib import data
from amaranth.sim import Simulator

from cnna.hw.base.broadcast import Broadcast, Share, members

COMMAND = data.StructLayout({"kind": 1, "number": 8})


def test_every_part_gets_every_command_that_it_wants_once():
    """A part that missed a command, or got one twice, would run out of step with the others; each takes it at its own time."""
    number = data.StructLayout({"number": 8})
    shares = {
        "whole": members(COMMAND),
        "part": members(number),
        "some": Share(number, lambda share, command: [share.number.eq(command.number)], wanted=lambda command: command.kind),
    }
    dut, rng = Broadcast(COMMAND, shares), np.random.default_rng(4)
    commands = [(int(rng.integers(2)), number) for number in range(100)]

    async def drive(ctx):
        at, got, taken = 0, {name: [] for name in shares}, 0
        for _ in range(3000):
            ctx.set(dut.command.valid, int(at < len(commands)))
            if at < len(commands):
                ctx.set(dut.command.p.kind, commands[at][0])
                ctx.set(dut.command.p.number, commands[at][1])
            for name, share in shares.items():
                part = getattr(dut, name)
                ready = rng.random() < 0.3
                ctx.set(part.ready, int(ready))
                if ready and ctx.get(part.valid):
                    got[name].append(ctx.get(part.p.number))
                    assert share.layout is not COMMAND or ctx.get(part.p.kind) == commands[got[name][-1]][0]
            taken += ctx.get(dut.taken)
            at += ctx.get(dut.command.valid & dut.command.ready)
            await ctx.tick()
        everything = [number for _, number in commands]
        assert taken == len(commands)
        assert got == {"whole": everything, "part": everything, "some": [number for kind, number in commands if kind]}

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
