"""The residual add against `arith.combine`; under Verilator."""

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.array.residual import NAMES, ResidualAdd, add_layout
from cnna.spec.arith import combine
from cnna.spec.config import preset

from ...rigs import bench
from ...rigs.block import make_block
from ...rigs.paced import PacedStream, run_paced
from ...rigs.streams import PACES

pytestmark = pytest.mark.cosim

CONFIG = preset("tiny")
ITEMS = 30  # of a command; the streams below bring one every fourth clock, and none is refused


def command(rng, enable):
    """Random members of a command, by NAMES."""
    low, high = sorted(rng.integers(-128, 128, 2).tolist())
    factors = rng.integers(-(1 << 24), 1 << 24, 2).tolist()
    return dict(
        zip(NAMES, (enable, *factors, int(rng.integers(-(1 << 30), 1 << 30)), int(rng.integers(20, 26)), 3, low, high), strict=True)
    )


def packed(values):
    """A command as bytes."""
    total, at = 0, 0
    for name, shape in add_layout().members.items():
        total |= (values[name] & ((1 << shape.width) - 1)) << at
        at += shape.width
    return np.frombuffer(total.to_bytes(-(-at // 8), "little"), np.uint8)


def test_commands_add_their_own_residual_or_none():
    """Operands would get out of step, one command's constants reach the next one's items, or a residual be added without need."""
    rng = np.random.default_rng(6)
    width = CONFIG.half * CONFIG.ci
    commands = [command(rng, enable) for enable in (1, 0, 1, 1, 0)]
    clocks = (len(commands) * (ITEMS + 2) + 20) * 4
    block = make_block(ResidualAdd, CONFIG)
    inputs = {name: np.zeros(clocks, np.int64) for name in ("command__valid", "mid__valid", "residual__valid")}
    rows = {
        "command__payload": np.zeros((clocks, len(packed(commands[0]))), np.uint8),
        "mid__payload": np.zeros((clocks, width + 1), np.uint8),
        "residual__payload": np.zeros((clocks, -(-block.component.residual.p.shape().size // 8)), np.uint8),
    }
    a, r = (rng.integers(-128, 128, (len(commands), ITEMS, width)).astype(np.int8) for _ in range(2))
    wanted = []
    for number, values in enumerate(commands):
        start = (number * (ITEMS + 2)) * 4 + 8
        inputs["command__valid"][start - 4], rows["command__payload"][start - 4] = 1, packed(values)
        for item in range(ITEMS):
            at = start + 4 * item
            inputs["mid__valid"][at] = 1
            inputs["residual__valid"][at] = values["res_enable"]
            rows["mid__payload"][at] = [*a[number, item].view(np.uint8), item == ITEMS - 1]
            rows["residual__payload"][at, :width] = r[number, item].view(np.uint8)  # there even where it must not count
        b = r[number] if values["res_enable"] else np.int8(0)
        add = [values[name] for name in NAMES[1:]]
        wanted.append(combine(a[number], add[0], b, add[1], *add[2:]))
    found = bench.run(block, {**inputs, **rows, "o__ready": np.ones(clocks, np.int64)})
    for name, count in (("command", len(commands)), ("mid", len(commands) * ITEMS)):
        taken = (found[f"{name}__ready"][:, 0] == 1) & (inputs[f"{name}__valid"] == 1)
        assert taken.sum() == count, f"{name} refused"
    got = found["o__payload"][found["o__valid"][:, 0] == 1].view(np.int8)
    np.testing.assert_array_equal(got, np.concatenate(wanted))


def test_an_item_waits_for_its_residual():
    """The stall counter sees `late`; without the residual no item may come out."""
    rng = np.random.default_rng(7)
    clocks, come = 100, 60
    clock = np.arange(clocks)
    found = bench.run(
        make_block(ResidualAdd, CONFIG),
        {
            "command__valid": (clock == 2).astype(np.int64),
            "command__payload": np.tile(packed(command(rng, 1)), (clocks, 1)),
            "mid__valid": ((clock >= 10) & (clock <= come)).astype(np.int64),
            "residual__valid": (clock == come).astype(np.int64),
            "o__ready": np.ones(clocks, np.int64),
        },
    )
    np.testing.assert_array_equal(found["late"][:, 0], (clock >= 10) & (clock < come))
    np.testing.assert_array_equal(found["mid__ready"][:, 0], clock == come)
    assert found["o__valid"].sum() == 1


class PacedAdd(wiring.Component):
    """A ResidualAdd behind three `PacedStream`s. The bench fills these first, then says when each may offer its next item."""

    def __init__(self) -> None:
        self.add = ResidualAdd(CONFIG)
        self.streams = {
            name: PacedStream(getattr(self.add, name).payload.shape(), depth)
            for name, depth in (("command", 8), ("mid", 256), ("residual", 256))
        }
        ports = {"o": Out(self.add.signature.members["o"].signature)}
        for name, source in self.streams.items():
            ports |= {f"{name}_push": In(1), f"{name}_item": In(source.shape), f"{name}_offer": In(1)}
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.add = self.add
        wiring.connect(m, self.add.o, wiring.flipped(self.o))
        for name, source in self.streams.items():
            m.submodules[name] = source
            wiring.connect(m, source.o, getattr(self.add, name))
            m.d.comb += [
                source.push.eq(getattr(self, f"{name}_push")),
                source.item.eq(getattr(self, f"{name}_item")),
                source.offer.eq(getattr(self, f"{name}_offer")),
            ]
        return m


@pytest.mark.parametrize("pace", PACES)
def test_adds_under_back_pressure(pace):
    """With sources and a sink that pause, an item would be lost, doubled, changed while it waits, or get another one's residual."""
    rng, manner = np.random.default_rng(8), PACES[pace]
    width, enables = CONFIG.half * CONFIG.ci, (1, 0, 1, 1, 0)
    commands = [command(rng, enable) for enable in enables]
    fill = len(enables) * ITEMS  # clocks before anything is offered: every item stands in its stream by then
    clocks = fill + 50 + int(2 * fill / (manner.offer * manner.accept))
    block = make_block(PacedAdd)
    dut = block.component
    a, r = (rng.integers(-128, 128, (len(enables), ITEMS, width)).astype(np.int8) for _ in range(2))
    lasts = np.arange(ITEMS) == ITEMS - 1
    rows = {
        "command": np.array([packed(values) for values in commands]),
        "mid": np.concatenate([np.column_stack([one.view(np.uint8), lasts]) for one in a]),
        "residual": np.concatenate([one.view(np.uint8) for one, enable in zip(r, enables, strict=True) if enable]),
    }
    inputs = {"o__ready": (rng.random(clocks) < manner.accept).astype(np.int64)}
    for name, items in rows.items():
        inputs[f"{name}_push"] = (np.arange(clocks) < len(items)).astype(np.int64)
        inputs[f"{name}_item"] = np.zeros((clocks, -(-dut.streams[name].item.shape().size // 8)), np.uint8)
        inputs[f"{name}_item"][: len(items), : items.shape[1]] = items
        inputs[f"{name}_offer"] = ((rng.random(clocks) < manner.offer) & (np.arange(clocks) > fill)).astype(np.int64)
    found = run_paced(block, inputs, pace)
    taken = found["o__valid"][:, 0] & inputs["o__ready"] == 1
    wanted = []
    for number, values in enumerate(commands):
        b = r[number] if values["res_enable"] else np.int8(0)
        add = [values[name] for name in NAMES[1:]]
        wanted.append(combine(a[number], add[0], b, add[1], *add[2:]))
    np.testing.assert_array_equal(found["o__payload"][taken].view(np.int8), np.concatenate(wanted))
