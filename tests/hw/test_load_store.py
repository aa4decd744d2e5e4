"""Load and store engines with their read and write masters, against numpy, on a memory that stalls at random."""

from dataclasses import dataclass

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from cnna.hw.config import BEAT_BYTES, Config, preset
from cnna.hw.load import Load
from cnna.hw.readmaster import ReadMaster
from cnna.hw.regmap import ADDRESS_BITS, command_fields
from cnna.hw.store import Store
from cnna.hw.writemaster import WriteMaster
from cnna.sim.axi_memory import Memory, Pace, serve_reads, serve_writes

CONFIGS = (
    preset("tiny"),
    Config("three", pix=4, ci=8, co=24, ports=3, regions=1, bank_words=256, ring_words=64, vector_ring_words=256),
    preset("zcu102"),
)
PACES = {"fast": Pace(latency=20), "stalled": Pace(ready=0.4, valid=0.6, latency=3), "slow": Pace(0.9, 0.9, latency=90)}
SEGMENTS = (0x8000, 0x10000, 0x18000, 0x0)
DDR_BYTES = 0x20000
SEED = 3
LONG_BEATS = 300
STANDSTILL = 400  # clocks in which feature memory takes no load, in every 1,000
DEADLINE_CLOCKS = 10_000
WORDS = 4096  # of feature memory that the tests touch


@dataclass
class Traffic:
    """Commands and their places: rows of a few words, in blocks, none overlapping another in DDR or feature memory."""

    config: Config
    seed: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.commands: list[dict[str, int]] = []
        ddr, words = int(rng.integers(8)) * BEAT_BYTES, int(rng.integers(40))
        long = LONG_BEATS * self.config.beat_words - 1  # crosses 4 KiB, and is more than a port's FIFO holds
        sizes = [(int(rng.choice([1, 2, 5, 17, 70])), int(rng.integers(1, 6)), int(rng.integers(1, 4))) for _ in range(3)]
        for run, runs, blocks in [(5, 4, 3), (long, 1, 1), *sizes]:
            row_bytes = -(-run * self.config.ci // BEAT_BYTES) * BEAT_BYTES + int(rng.integers(3)) * BEAT_BYTES
            pitch = run + int(rng.integers(3))
            command = dict.fromkeys(command_fields("load"), 0)
            command |= {"seg": int(rng.integers(4)), "ddr": ddr, "fm": words, "run": run, "runs": runs, "blocks": blocks}
            command |= {"ddr_run": row_bytes, "ddr_block": runs * row_bytes + 32, "fm_run": pitch, "fm_block": runs * pitch + 1}
            if rng.random() < 0.3:  # the blocks backwards
                command |= {"fm": words + (blocks - 1) * command["fm_block"], "fm_block": -command["fm_block"]}
            self.commands.append(command)
            ddr += blocks * command["ddr_block"]
            words += blocks * (runs * pitch + 1)
        assert ddr < 0x8000
        assert words < WORDS

    def runs(self, command):
        """(byte address, first word) of each run, by the formulas of docs/architecture.md."""
        base = SEGMENTS[command["seg"]] + command["ddr"]
        for j in range(command["blocks"]):
            for i in range(command["runs"]):
                word = command["fm"] + j * command["fm_block"] + i * command["fm_run"]
                yield base + j * command["ddr_block"] + i * command["ddr_run"], word % (1 << ADDRESS_BITS)


async def send(ctx, dut, commands):
    """Queues the commands."""
    for command in commands:
        ctx.set(dut.command.payload, command)
        ctx.set(dut.command.valid, 1)
        await ctx.tick().until(dut.command.ready)
    ctx.set(dut.command.valid, 0)


def bench(config, dut, masters, serve, memory, pace):
    """A simulator of the engine with a master and memory port for each of its clients."""
    top = Module()
    top.submodules.dut = dut
    buses = []
    for port, client in enumerate(dut.clients):
        top.submodules[f"master{port}"] = master = masters()
        connect(top, client, master.clients[0] if hasattr(master, "clients") else master.client)
        buses.append(master.bus)
    simulator = Simulator(top)
    simulator.add_clock(1e-6)

    async def start(ctx):
        for number, base in enumerate(SEGMENTS):
            ctx.set(dut.segments[number], base)

    async def deadline(ctx):
        for _ in range(DEADLINE_CLOCKS):
            await ctx.tick()
        raise AssertionError(f"not finished after {DEADLINE_CLOCKS} clocks")

    simulator.add_testbench(start)
    simulator.add_testbench(deadline, background=True)
    for port, bus in enumerate(buses):

        async def run(ctx, bus=bus, port=port):
            await serve(ctx, bus, memory, port)

        simulator.add_testbench(run, background=True)
    return simulator


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("pace", PACES)
def test_load_fills_feature_memory(config, pace):
    """Every word of every run arrives at its place, in the order of commands, and `unit` comes after a command's words."""
    traffic, memory = Traffic(config, SEED), Memory(DDR_BYTES, PACES[pace])
    dut, words, units = Load(config), np.zeros((WORDS, config.ci), np.uint8), []
    expected = words.copy()
    after = []
    for command in traffic.commands:
        for address, word in traffic.runs(command):
            data = memory.bytes[address : address + command["run"] * config.ci]
            expected[word : word + command["run"]] = data.reshape(-1, config.ci)
        after.append(expected.copy())
    simulator = bench(config, dut, lambda: ReadMaster(1), serve_reads, memory, pace)

    async def featmem(ctx):
        rng, pulses = np.random.default_rng(SEED), []
        clock = 0
        while True:
            ready = int(rng.random() < 0.7 and clock % 1000 >= STANDSTILL)
            ctx.set(dut.write.request.ready, ready)
            ctx.set(dut.write.done, int(bool(pulses) and pulses[0] <= clock))
            if pulses and pulses[0] <= clock:
                pulses.pop(0)
            if ready and ctx.get(dut.write.request.valid):
                request = dut.write.request.payload
                for lane in range(len(dut.write.request.payload.active)):
                    if ctx.get(request.active) >> lane & 1:
                        word = ctx.get(request.words[lane]).to_bytes(config.ci, "little")
                        words[ctx.get(request.address[lane])] = np.frombuffer(word, np.uint8)
                if ctx.get(request.last):
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

    simulator.add_testbench(featmem, background=True)
    simulator.add_testbench(drive)
    simulator.add_testbench(watch)
    simulator.run()
    assert len(units) == len(traffic.commands)
    np.testing.assert_array_equal(words, expected)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("pace", PACES)
def test_store_writes_ddr(config, pace):
    """DDR holds every word of every run and not a byte more has changed; a unit's B responses came before its pulse."""
    traffic, memory = Traffic(config, SEED), Memory(DDR_BYTES, PACES[pace])
    dut, units, standing = Store(config), [], [0] * config.ports
    words = np.random.default_rng(SEED).integers(0, 256, (1 << 13, config.ci), dtype=np.uint8)
    initial, expected, after = memory.bytes.copy(), memory.bytes.copy(), []
    for command in traffic.commands:
        for address, word in traffic.runs(command):
            expected[address : address + command["run"] * config.ci] = words[word : word + command["run"]].reshape(-1)
        after.append(expected.copy())
    simulator = bench(config, dut, WriteMaster, serve_writes, memory, pace)

    async def featmem(ctx):
        rng, answers, clock = np.random.default_rng(SEED), [], 0
        request, response = dut.read.request, dut.read.response
        while True:
            ready = int(rng.random() < 0.7)
            ctx.set(request.ready, ready)
            ctx.set(response.valid, 0)
            if answers and answers[0][0] <= clock and rng.random() < 0.8:
                _, tag, read = answers.pop(0)
                ctx.set(response.valid, 1)
                for port in range(config.ports):
                    standing[port] += tag >> port * config.beat_words & 1
                ctx.set(response.payload.tag, tag)
                for lane, word in enumerate(read):
                    ctx.set(response.payload.words[lane], word)
            if ready and ctx.get(request.valid):
                payload = request.payload
                read = [
                    int.from_bytes(words[ctx.get(payload.address[lane]) % len(words)].tobytes(), "little")
                    if ctx.get(payload.active) >> lane & 1
                    else 0x55
                    for lane in range(len(payload.active))
                ]
                answers.append((clock + 6, ctx.get(payload.tag), read))
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

    simulator.add_testbench(promise, background=True)
    simulator.add_testbench(featmem, background=True)
    simulator.add_testbench(drive)
    simulator.add_testbench(watch)
    simulator.run()
    assert len(units) == len(traffic.commands)
    np.testing.assert_array_equal(memory.bytes, expected)
