"""Ports whose beats share a bank go on one behind the other, in a load and in a store."""

import pytest

from cnna.hw.config import BEAT_BYTES, preset
from cnna.hw.load import Load
from cnna.hw.readmaster import ReadMaster
from cnna.hw.regmap import command_fields
from cnna.hw.store import Store
from cnna.hw.writemaster import WriteMaster
from cnna.sim.axi_memory import Memory, serve_reads, serve_writes

from .load_store_rig import DDR_BYTES, PACES, bench, lanes_taken, send


@pytest.mark.parametrize("engine", ["load", "store"])
def test_ports_in_one_bank_go_on_one_behind_the_other(engine):
    """All four ports begin in one bank and walk through the banks alike: each is held up once, not at every word."""
    config, run, taken = preset("zcu102"), 60, []
    command = dict.fromkeys(command_fields(engine), 0) | {"run": run, "runs": 4, "blocks": 1}
    command |= {"ddr_run": run * BEAT_BYTES, "fm_run": 4 * config.banks}
    memory = Memory(DDR_BYTES, PACES["fast"])
    dut = Load(config) if engine == "load" else Store(config)
    masters, serve = (lambda: ReadMaster(1), serve_reads) if engine == "load" else (WriteMaster, serve_writes)
    simulator = bench(config, dut, masters, serve, memory, PACES["fast"])
    request = (dut.write if engine == "load" else dut.read).request

    async def featmem(ctx):
        ctx.set(request.ready, 1)
        clock = 0
        while sum(count for _, count in taken) < 4 * run:
            if ctx.get(request.valid):
                taken.append((clock, len(lanes_taken(ctx, config, request.payload))))
            await ctx.tick()
            clock += 1

    async def drive(ctx):
        await send(ctx, dut, [command])

    simulator.add_testbench(featmem)
    simulator.add_testbench(drive)
    simulator.run()
    assert taken[-1][0] - taken[0][0] < run + 10
