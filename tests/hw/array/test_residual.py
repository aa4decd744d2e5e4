"""The residual add against `arith.combine`; under Verilator."""

import numpy as np
import pytest

from cnna.hw.array.residual import NAMES, ResidualAdd, add_layout
from cnna.spec.arith import combine
from cnna.spec.config import preset

from ...rigs import bench

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
    """Operands out of step, a command's constants reaching into the next one's items, or a residual added where there is none."""
    rng = np.random.default_rng(6)
    width = CONFIG.half * CONFIG.ci
    commands = [command(rng, enable) for enable in (1, 0, 1, 1, 0)]
    clocks = (len(commands) * (ITEMS + 2) + 20) * 4
    dut = ResidualAdd(CONFIG)
    inputs = {name: np.zeros(clocks, np.int64) for name in ("command__valid", "mid__valid", "residual__valid")}
    rows = {
        "command__payload": np.zeros((clocks, len(packed(commands[0]))), np.uint8),
        "mid__payload": np.zeros((clocks, width + 1), np.uint8),
        "residual__payload": np.zeros((clocks, -(-dut.residual.p.shape().size // 8)), np.uint8),
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
    found = bench.run(dut, {**inputs, **rows, "o__ready": np.ones(clocks, np.int64)})
    for name, count in (("command", len(commands)), ("mid", len(commands) * ITEMS)):
        taken = (found[f"{name}__ready"][:, 0] == 1) & (inputs[f"{name}__valid"] == 1)
        assert taken.sum() == count, f"{name} refused"
    got = found["o__payload"][found["o__valid"][:, 0] == 1].view(np.int8)
    np.testing.assert_array_equal(got, np.concatenate(wanted))


def test_an_item_waits_for_its_residual():
    """`late` is what the stall counter sees; without the residual nothing may come out."""
    rng = np.random.default_rng(7)
    clocks, come = 100, 60
    clock = np.arange(clocks)
    found = bench.run(
        ResidualAdd(CONFIG),
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
