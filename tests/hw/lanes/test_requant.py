"""The requantising lanes against `arith`: random items, ties, extremes of every field, gaps."""

from dataclasses import dataclass, fields

import numpy as np
import pytest

from cnna.hw.lanes.requant import LATENCY, LOW_BITS, Lanes, Modes
from cnna.spec.arith import SHIFT_LIMIT, combine, requantise

from ...rigs import bench
from ...rigs.block import make_block

pytestmark = pytest.mark.cosim

LANES = 6  # a whole bundle and a part of one
INT32 = np.iinfo(np.int32)
INT8_ENDS, INT32_ENDS = (-128, -1, 0, 1, 127), (INT32.min, -1, 0, 1, (1 << 17) - 1, 1 << 17, INT32.max)
FACTOR_ENDS = (-(1 << 25), -1, 0, 1, (1 << 25) - 1)  # of combine's factors, signed 26 bit
TAG_BITS = 11


@dataclass(frozen=True)
class Items:
    """n items. Arrays are [n, LANES], those of `common` [n, 1]."""

    acc: np.ndarray
    a: np.ndarray
    b: np.ndarray
    offset: np.ndarray
    factor: np.ndarray
    shift: np.ndarray
    factor_b: np.ndarray
    zero: np.ndarray
    low: np.ndarray
    high: np.ndarray
    combine: np.ndarray

    def ports(self, lanes: Lanes) -> dict[str, np.ndarray]:
        """What stands at the lanes' ports, an item a clock."""
        words = self.offset & 0xFFFFFFFF | (self.factor & (1 << 26) - 1) << 32 | self.shift << 58
        ports = {"params": np.ascontiguousarray(words[:, : lanes.sets]).view(np.uint8)} | {
            name: getattr(self, name)[:, 0] for name in ("zero", "low", "high")
        }
        if lanes.operands:
            ports["factor_b"] = self.factor_b[:, 0]
        if not lanes.sums:
            return ports | {"a": self.a.astype(np.int8).view(np.uint8), "b": self.b.astype(np.int8).view(np.uint8)}
        if lanes.operands:
            ports["combine"] = self.combine[:, 0]
        placed = self.a & (1 << LOW_BITS) - 1 | self.b << LOW_BITS
        return ports | {"acc": np.where(self.combine, placed, self.acc).astype(np.int32).view(np.uint8)}

    def golden(self) -> np.ndarray:
        """int8[n, LANES]."""
        sums = requantise(self.acc + self.offset, self.factor, self.shift, self.zero, self.low, self.high)
        operands = (self.a, self.factor, self.b, self.factor_b, self.offset, self.shift, self.zero, self.low, self.high)
        return np.where(self.combine, combine(*operands), sums)


def _magnitudes(rng: np.random.Generator, size: tuple[int, int], bits: np.ndarray | int) -> np.ndarray:
    """Integers of either sign below 2**bits (at most 31), as many of each length."""
    return (np.exp2(rng.random(size) * np.minimum(bits, 31)) * rng.choice([-1, 1], size)).astype(np.int64)


def _some(rng: np.random.Generator, share: float, ends: tuple[int, ...], others: np.ndarray) -> np.ndarray:
    """`others`, with a share of them replaced by values from `ends`."""
    return np.where(rng.random(others.shape) < share, rng.choice(ends, others.shape), others)


def _sums(rng: np.random.Generator, n: int, sets: int) -> dict[str, np.ndarray]:
    """acc, offset, factor and shift to requantise. A third are ties: a factor 2^23, and a sum with an odd number of halves."""
    size, common = (n, LANES), (n, sets)
    tie, halves = rng.random((n, 1)) < 0.3, _laned(rng.integers(0, 21, common))
    shift = np.where(tie, 24 + halves, _laned(rng.integers(0, SHIFT_LIMIT, common)))
    factor = _laned(_some(rng, 0.1, (0, 1 << 23, (1 << 24) - 1), rng.integers(1 << 23, 1 << 24, common)))
    factor = np.where(tie, 1 << 23, factor)
    near = _magnitudes(rng, size, np.clip(shift - 14, 0, 31))  # most of these answers are not clamped
    total = np.where(tie, (2 * rng.integers(-300, 300, size) + 1) << halves, _some(rng, 0.2, INT32_ENDS, near))
    offset = _laned(_some(rng, 0.2, INT32_ENDS, rng.integers(INT32.min, INT32.max, common)))
    return {"acc": np.clip(total - offset, INT32.min, INT32.max), "offset": offset, "factor": factor, "shift": shift}


def _operands(rng: np.random.Generator, n: int, sets: int) -> dict[str, np.ndarray]:
    """a, b, offset, factor, factor_b and shift to combine. The offset makes the first lanes ties where it can."""
    size, common = (n, LANES), (n, sets)
    a, b = (_some(rng, 0.2, INT8_ENDS, rng.integers(-128, 128, size)) for _ in "ab")
    factor, factor_b = (_laned(_some(rng, 0.1, FACTOR_ENDS, _magnitudes(rng, wide, 25))) for wide in (common, (n, 1)))
    shift = _laned(rng.integers(0, SHIFT_LIMIT, common))
    halves = (2 * rng.integers(-300, 300, size) + 1) << np.clip(shift - 1, 0, 30)
    tied = np.clip(halves - (a * factor + b * factor_b), INT32.min, INT32.max)[:, :sets]
    offset = np.where(rng.random((n, 1)) < 0.5, tied, _some(rng, 0.3, INT32_ENDS, _magnitudes(rng, common, 31)))
    return {"a": a, "b": b, "offset": _laned(offset), "factor": factor, "factor_b": factor_b, "shift": shift}


def _laned(values: np.ndarray) -> np.ndarray:
    """The parameters of each lane, from sets of parameters: [n, sets] to [n, LANES]."""
    return np.tile(values, (1, LANES // values.shape[1]))


def _items(rng: np.random.Generator, n: int, modes: Modes, sets: int) -> Items:
    combined = rng.random((n, 1)) < {Modes.REQUANTISE: 0, Modes.COMBINE: 1, Modes.BOTH: 0.5}[modes]
    sums, operands = _sums(rng, n, sets), _operands(rng, n, sets)
    mixed = {name: np.where(combined, operands.get(name, 0), sums.get(name, 0)) for name in sums | operands}
    mixed |= {name: operands[name] for name in ("a", "b", "factor_b")}  # what only a combining item looks at: never 0
    bounds = np.sort(rng.integers(-128, 128, (n, 2)), axis=1)
    bounds = np.where(rng.random((n, 1)) < 0.6, [[-128, 127]], bounds)
    zero = _some(rng, 0.5, INT8_ENDS, rng.integers(-128, 128, (n, 1)))
    values = {**mixed, "zero": zero, "low": bounds[:, :1], "high": bounds[:, 1:], "combine": combined}
    thin = ("zero", "low", "high", "combine")
    return Items(**{f.name: values[f.name][:, :1] if f.name in thin else values[f.name] for f in fields(Items)})


@pytest.mark.parametrize("sets", [1, 2, LANES])
@pytest.mark.parametrize("modes", Modes)
def test_lanes_equal_golden(modes: Modes, sets: int) -> None:
    """A lane would round, clamp or take parameters otherwise than `arith`, or mix the fields of two items."""
    rng, block, n = np.random.default_rng(1), make_block(Lanes, LANES, modes, TAG_BITS, sets=sets), 6000
    lanes = block.component
    items = _items(rng, n, modes, sets)
    valid, tag = rng.integers(0, 2, n), rng.integers(0, 1 << TAG_BITS, n)
    found = bench.run(block, {**items.ports(lanes), "valid": valid, "tag": tag})
    late = slice(LATENCY, None)
    np.testing.assert_array_equal(bench.integers(found["o_valid"], 8)[late, 0], valid[:-LATENCY])
    np.testing.assert_array_equal(bench.integers(found["o_tag"], 16)[late, 0], tag[:-LATENCY])
    golden = items.golden()[:-LATENCY]
    np.testing.assert_array_equal(bench.integers(found["o"], 8, signed=True)[late], golden)
    inside = (golden > items.low[:-LATENCY]) & (golden < items.high[:-LATENCY])
    assert inside.mean() > 0.15  # or these items would test little but the clamp


@pytest.mark.parametrize("modes", [Modes.COMBINE, Modes.BOTH])
def test_a_reset_leaves_the_halves_as_they_are(modes: Modes) -> None:
    """After a reset of an even or odd number of clocks, a lane would get what belongs to the other one of its pair."""
    rng, block, n = np.random.default_rng(2), make_block(Lanes, LANES, modes, TAG_BITS, sets=1), 3000
    items = _items(rng, n, modes, 1)
    ones = np.ones(n, np.int64)
    found = bench.run(block, {**items.ports(block.component), "valid": ones, "rst": rng.random(n) < 0.1})
    golden = items.golden()[:-LATENCY]
    np.testing.assert_array_equal(bench.integers(found["o"], 8, signed=True)[LATENCY:], golden)
    assert 0 < found["o_valid"][LATENCY:].mean() < 1
