"""Ports whose beats share a bank proceed one after the other, in a load and in a store."""

import numpy as np
import pytest
from amaranth import Cat, Module, Signal, Value
from amaranth.lib import stream
from amaranth.sim import Simulator

from cnna.hw.dma.load import Load
from cnna.hw.dma.runs import bank_conflicts
from cnna.hw.dma.store import Store, ask_layout
from cnna.spec.config import BEAT_BYTES, Config, preset
from cnna.spec.regmap import command_fields

from ...rigs.axi_memory import BusMemory
from ...rigs.fields import Fields
from ...rigs.load_store_rig import DDR_BYTES, PACES, SEED, EngineBench, lanes_taken, send

SEVERAL_WORDS = Config("several", pix=4, ci=8, co=8, ports=4, regions=2, bank_words=128, ring_words=64, vector_ring_words=256)


@pytest.mark.parametrize("config", [preset("zcu102"), SEVERAL_WORDS], ids=lambda c: c.name)
def test_a_beat_waits_for_nothing_but_words_of_lower_ports(config):
    """A port without a beat, or lanes without a word, would hold others up for good, whatever address they show."""
    rng, lanes, m = np.random.default_rng(SEED), config.beat_words, Module()
    beats = [stream.Signature(ask_layout(config)).create(path=(f"port{port}",)) for port in range(config.ports)]
    found = Signal(config.ports)
    m.d.comb += found.eq(Cat(bank_conflicts(config, beats)))
    simulator = Simulator(m)

    async def offer(ctx):
        for _ in range(300):
            expected, asked = 0, set()
            for port, beat in enumerate(beats):
                valid, active, first = (int(rng.integers(top)) for top in (2, 1 << lanes, config.feature_words - lanes))
                ctx.set(beat.valid, valid)
                ctx.set(beat.payload.active, active)
                for lane in range(lanes):
                    ctx.set(beat.payload.address[lane], first + lane)
                banks = {(first + lane) % config.banks for lane in range(lanes) if active >> lane & 1}
                expected |= bool(banks & asked) << port
                asked |= banks if valid else set()
            await ctx.delay(1e-6)
            assert ctx.get(found) == expected

    simulator.add_testbench(offer)
    simulator.run()


@pytest.mark.parametrize("engine", ["load", "store"])
def test_ports_in_one_bank_go_on_one_behind_the_other(replay, engine):
    """All four ports begin in one bank and walk through the banks alike. Each must wait once, not at every word."""
    config, run, taken = preset("zcu102"), 60, []
    command = dict.fromkeys(command_fields(engine), 0) | {"run": run, "runs": 4, "blocks": 1}
    command |= {"ddr_run": run * BEAT_BYTES, "fm_run": 4 * config.banks}
    memory = BusMemory(DDR_BYTES, PACES["fast"])
    simulation = replay(EngineBench, Load if engine == "load" else Store, config)
    dut = simulation.design.dut
    request = (dut.write if engine == "load" else dut.read).request

    async def featmem(ctx):
        ctx.set(request.ready, 1)
        clock, payload, fields = 0, Value.cast(request.payload), Fields(request.payload.shape())
        while sum(count for _, count in taken) < 4 * run:
            if ctx.get(request.valid):
                taken.append((clock, len(lanes_taken(config, fields.read(ctx.get(payload))))))
            await ctx.tick()
            clock += 1

    async def drive(ctx):
        await send(ctx, dut, [command])

    simulation.run(featmem, drive, before=simulation.design.surroundings(memory))
    assert taken[-1][0] - taken[0][0] < run + 10
