"""A load or store engine with its masters on a memory that stalls at random, and commands for it, for the tests of both."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from amaranth import Elaboratable, Module
from amaranth.lib.wiring import connect

from cnna.hw.axi.read_master import ReadMaster
from cnna.hw.axi.write_master import WriteMaster
from cnna.hw.dma.load import Load
from cnna.hw.dma.store import Store
from cnna.spec.config import BEAT_BYTES, Config, preset
from cnna.spec.regmap import ADDRESS_BITS, command_fields

from .axi_memory import BusPace, serve_reads, serve_writes

CONFIGS = (
    preset("tiny"),
    Config("three", pix=4, ci=8, co=24, ports=3, regions=1, bank_words=256, ring_words=64, vector_ring_words=256),
    preset("zcu102"),
)
PACES = {"fast": BusPace(latency=20), "stalled": BusPace(ready=0.4, valid=0.6, latency=3), "slow": BusPace(0.9, 0.9, latency=90)}
SEGMENTS = (0x8000, 0x10000, 0x18000, 0x0)
DDR_BYTES = 0x20000
SEED = 3
LONG_BEATS = 300
WORDS = 4096  # of feature memory that the tests use


@dataclass
class Traffic:
    """Commands and their places: rows of a few words, in blocks, that do not overlap in DDR or in feature memory."""

    config: Config
    seed: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.commands: list[dict[str, int]] = []
        ddr, words = int(rng.integers(8)) * BEAT_BYTES, int(rng.integers(40))
        long = LONG_BEATS * self.config.beat_words - 1  # crosses 4 KiB, and exceeds a port's FIFO
        sizes = [(int(rng.choice([1, 2, 5, 17, 70])), int(rng.integers(1, 6)), int(rng.integers(1, 4))) for _ in range(3)]
        for run, runs, blocks in [(5, 4, 3), (long, 1, 1), *sizes]:
            row_bytes = -(-run * self.config.ci // BEAT_BYTES) * BEAT_BYTES + int(rng.integers(3)) * BEAT_BYTES
            pitch = run + int(rng.integers(3))
            command = dict.fromkeys(command_fields("load"), 0)
            command |= {"seg": int(rng.integers(4)), "ddr": ddr, "fm": words, "run": run, "runs": runs, "blocks": blocks}
            command |= {"ddr_run": row_bytes, "ddr_block": runs * row_bytes + 32, "fm_run": pitch, "fm_block": runs * pitch + 1}
            if rng.random() < 0.3:  # the blocks in reverse order
                command |= {"fm": words + (blocks - 1) * command["fm_block"], "fm_block": -command["fm_block"]}
            self.commands.append(command)
            ddr += blocks * command["ddr_block"]
            words += blocks * (runs * pitch + 1)
        assert ddr < 0x8000
        assert words < WORDS

    def runs(self, command):
        """(byte address, first word) of each run, by the formulas of docs/engines.md."""
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


def lanes_taken(config, request):
    """The active lanes of a request; lanes that share a bank would hold up all of it, side by side until their runs end."""
    lanes = [lane for lane in range(len(request.address)) if request.active >> lane & 1]
    banks = {request.address[lane] % config.banks for lane in lanes}
    assert len(banks) == len(lanes), "lanes of one request share a bank"
    return lanes


class EngineBench(Elaboratable):
    """An engine, Load or Store, with a master for each of its clients. `buses`: the masters' AXI ports."""

    def __init__(self, engine: type[Load] | type[Store], config: Config) -> None:
        self.dut = engine(config)
        self.masters = [ReadMaster(1) if engine is Load else WriteMaster() for _ in self.dut.clients]
        self.buses = [master.bus for master in self.masters]
        self.serve = serve_reads if engine is Load else serve_writes

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = self.dut
        for port, (client, master) in enumerate(zip(self.dut.clients, self.masters, strict=True)):
            m.submodules[f"master{port}"] = master
            connect(m, client, master.clients[0] if isinstance(master, ReadMaster) else master.client)
        return m

    def surroundings(self, memory):
        """The processes that set the engine's segments and serve its memory ports."""

        async def start(ctx):
            for number, base in enumerate(SEGMENTS):
                ctx.set(self.dut.segments[number], base)

        return [start, *(partial(self.serve, bus=bus, memory=memory, seed=port) for port, bus in enumerate(self.buses))]
