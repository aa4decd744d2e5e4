"""Load and store engines with their read and write masters, against numpy, on a memory that stalls at random."""

import numpy as np
import pytest
from amaranth.hdl import Value

from cnna.hw.dma.load import Load
from cnna.hw.dma.store import Store

from ...rigs.axi_memory import BusMemory
from ...rigs.fields import Fields
from ...rigs.load_store_rig import CONFIGS, DDR_BYTES, PACES, SEED, WORDS, EngineBench, Traffic, lanes_taken, send

STANDSTILL = 400  # clocks in which feature memory takes no load, in every 1,000


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("pace", PACES)
def test_load_fills_feature_memory(replay, config, pace):
    """A word of a run would miss its place, commands change their order, or `unit` come before a command's words."""
    traffic, memory = Traffic(config, SEED), BusMemory(DDR_BYTES, PACES[pace])
    simulation = replay(EngineBench, Load, config)
    dut, words, units = simulation.design.dut, np.zeros((WORDS, config.ci), np.uint8), []
    expected = words.copy()
    after = []
    for command in traffic.commands:
        for address, word in traffic.runs(command):
            data = memory.bytes[address : address + command["run"] * config.ci]
            expected[word : word + command["run"]] = data.reshape(-1, config.ci)
        after.append(expected.copy())

    async def featmem(ctx):
        rng, pulses = np.random.default_rng(SEED), []
        payload, fields = Value.cast(dut.write.request.payload), Fields(dut.write.request.payload.shape())
        clock = 0
        while True:
            ready = int(rng.random() < 0.7 and clock % 1000 >= STANDSTILL)
            ctx.set(dut.write.request.ready, ready)
            ctx.set(dut.write.done, int(bool(pulses) and pulses[0] <= clock))
            if pulses and pulses[0] <= clock:
                pulses.pop(0)
            if ready and ctx.get(dut.write.request.valid):
                request = fields.read(ctx.get(payload))
                for lane in lanes_taken(config, request):
                    word = request.words[lane].to_bytes(config.ci, "little")
                    words[request.address[lane]] = np.frombuffer(word, np.uint8)
                if request.last:
                    pulses.append(clock + 3)
            await ctx.tick()
            clock += 1

    async def drive(ctx):
        await send(ctx, dut, traffic.commands)

    async def watch(ctx):
        while len(units) < len(traffic.commands):
            await ctx.tick().until(dut.unit)
            np.testing.assert_array_equal(words[after[len(units)] != 0], after[len(units)][after[len(units)] != 0])
            units.append(True)
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.busy)
        assert ctx.get(dut.number) == len(traffic.commands)

    simulation.run(drive, watch, before=(*simulation.design.surroundings(memory), featmem))
    assert len(units) == len(traffic.commands)
    np.testing.assert_array_equal(words, expected)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("pace", PACES)
def test_store_writes_ddr(replay, config, pace):
    """DDR would lack a word of a run or have another byte changed, or a unit's pulse would come before its B responses."""
    traffic, memory = Traffic(config, SEED), BusMemory(DDR_BYTES, PACES[pace])
    simulation = replay(EngineBench, Store, config)
    dut, units, standing = simulation.design.dut, [], [0] * config.ports
    words = np.random.default_rng(SEED).integers(0, 256, (1 << 13, config.ci), dtype=np.uint8)
    initial, expected, after = memory.bytes.copy(), memory.bytes.copy(), []
    for command in traffic.commands:
        for address, word in traffic.runs(command):
            expected[address : address + command["run"] * config.ci] = words[word : word + command["run"]].reshape(-1)
        after.append(expected.copy())

    async def featmem(ctx):
        rng, answers, clock = np.random.default_rng(SEED), [], 0
        request, response = dut.read.request, dut.read.response
        payload, asked = Value.cast(request.payload), Fields(request.payload.shape())
        answer, given = Value.cast(response.payload), Fields(response.payload.shape())
        while True:
            ready = int(rng.random() < 0.7)
            ctx.set(request.ready, ready)
            ctx.set(response.valid, 0)
            if answers and answers[0][0] <= clock and rng.random() < 0.8:
                _, tag, read = answers.pop(0)
                ctx.set(response.valid, 1)
                for port in range(config.ports):
                    standing[port] += tag >> port * config.beat_words & 1
                ctx.set(answer, given.pack({"tag": tag, "words": read}))
            if ready and ctx.get(request.valid):
                asks = asked.read(ctx.get(payload))
                taken = lanes_taken(config, asks)
                read = [
                    int.from_bytes(words[address % len(words)].tobytes(), "little") if lane in taken else 0x55
                    for lane, address in enumerate(asks.address)
                ]
                answers.append((clock + 6, asks.tag, read))
            await ctx.tick()
            clock += 1

    async def drive(ctx):
        await send(ctx, dut, traffic.commands)

    async def promise(ctx):
        while True:
            for port, client in enumerate(dut.clients):
                if ctx.get(client.burst.valid) and ctx.get(client.burst.ready):
                    standing[port] -= ctx.get(client.burst.payload.beats)
                    assert standing[port] >= 0, "a burst was offered before its beats were there"
            await ctx.tick()

    async def watch(ctx):
        while len(units) < len(traffic.commands):
            await ctx.tick().until(dut.unit)
            due = after[len(units)] != initial
            np.testing.assert_array_equal(memory.bytes[due], after[len(units)][due])
            units.append(True)
        await ctx.tick().repeat(2)
        assert not ctx.get(dut.busy)

    simulation.run(drive, watch, before=(*simulation.design.surroundings(memory), promise, featmem))
    assert len(units) == len(traffic.commands)
    np.testing.assert_array_equal(memory.bytes, expected)
