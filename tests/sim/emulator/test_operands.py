"""Products, minima and flat taps of the vector engine in the emulator, against formulas over plain arrays."""

import numpy as np
import pytest

from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec import arith
from cnna.spec.checks.program import checked
from cnna.spec.config import preset
from cnna.spec.errors import RunError
from cnna.spec.program.commands import UnsoundError
from cnna.spec.regmap import SEGMENTS, VECTOR_OPS, offset

from ..programs import CONFIGS, DST, Program, pack_params, plane, run, source_members, to_words

TINY = preset("tiny")
SIZE, BLOCKS = (5, 7), 2
AREA = SIZE[0] * SIZE[1]
ENDS = [(-128, -128), (-128, 127), (127, -128), (127, 127), (-3, 90)]  # zero points of both operands
SUMMED = ("depthwise", "average", "product")
RESULT = {"out_zero": 2, "out_clamp_low": -120, "out_clamp_high": 119, "add_b": -654_321}


def parameters(op: str, channels: int):
    """(offset, factor, shift) of channels, with results mostly within int8."""
    rng = np.random.default_rng(VECTOR_OPS.index(op))
    low, high = (30, 38) if op in SUMMED else (21, 24)
    factor = rng.integers(2**23, 2**24, channels)
    return rng.integers(-3000, 3000, channels), factor if op in SUMMED else factor >> 1, rng.integers(low, high, channels)


def members(distance: int, **others: int) -> dict[str, int]:
    """A command over one image whose tap 0 is at SRC, and whose tap 1 is `distance` words behind it."""
    walk = source_members(*SIZE, SIZE, 1, (1, 2), 1, (0, 0, 0, 0), 1, BLOCKS * AREA, 0)
    dest = {"dst": DST, "dst_x": 1, "dst_block": AREA, "blocks": BLOCKS}
    return walk | dest | RESULT | {"src_kx": distance, "stride_dilation_x": 0} | others


def program_of(config, op: str, **others: int) -> tuple[Program, bytes]:
    """A program of one command, and its ring: parameters by block."""
    parts = [part.reshape(BLOCKS, -1) for part in parameters(op, BLOCKS * config.ci)]
    ring = b"".join(pack_params(*block) for block in zip(*parts, strict=True))
    program = Program()
    program.go("weight", ring=1, beats=len(ring) // 16, repeat=1)
    program.go("vector", **({"op": VECTOR_OPS.index(op)} | others))
    return program, ring


def answered(config, op: str, words: np.ndarray, **others: int) -> np.ndarray:
    """int8 [1, channels, height, width] of a command on feature words from SRC on."""
    program, ring = program_of(config, op, **others)
    device = EmulatorDevice(config, 1 << 20)
    run(device, program, ring, words)
    return plane(device, DST, 1, BLOCKS, SIZE, BLOCKS * config.ci)


def rounded(op: str, value: np.ndarray, b: np.ndarray | int = 0) -> np.ndarray:
    """What a sum, or operands, of [1, channels, h, w] give."""
    offset_, factor, shift = (part[:, None, None] for part in parameters(op, value.shape[1]))
    low, high = RESULT["out_clamp_low"], RESULT["out_clamp_high"]
    if op in SUMMED:
        return arith.requantise(value + offset_, factor, shift, RESULT["out_zero"], low, high)
    return arith.combine(value, factor, b, RESULT["add_b"], offset_, shift, RESULT["out_zero"], low, high)


def drawn(config, seed: int, size: tuple[int, int] = SIZE) -> np.ndarray:
    """int8 [1, channels, *size], with many values at the ends."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (1, BLOCKS * config.ci, *size), np.int8)
    return np.where(rng.random(x.shape) < 0.3, rng.choice(np.array([-128, 127], np.int8), x.shape), x)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize(("zero_a", "zero_b"), ENDS)
def test_products_are_exact_at_every_zero_point(config, zero_a, zero_b):
    """A product in 16 bits would overflow at 255 * 255; exchanged zero points would show at unequal ones."""
    a, b = drawn(config, 1), drawn(config, 2)
    words = np.concatenate([to_words(config, v, 0).reshape(-1, config.ci) for v in (b, a)])
    found = answered(config, "product", words, **members(BLOCKS * AREA, pad=zero_a, b_zero=zero_b))
    assert np.array_equal(found, rounded("product", (a.astype(int) - zero_a) * (b.astype(int) - zero_b)))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("op", ["product", "elementwise", "max", "minimum"])
def test_a_flat_operand_serves_all_pixels(config, op):
    """A scale for each channel is one word a block: of another pixel or block it would scale other channels."""
    a, b = drawn(config, 3), drawn(config, 4, (1, 1))
    words = np.concatenate([to_words(config, v, 0).reshape(-1, config.ci) for v in (b, a)])
    # IN and FIRST leave column 0 outside, which would be PAD in every channel.
    place = {"src_block": AREA, "b_flat": 1, "b_block": 1, "b_zero": -7, "pad": 11, "first_x": -1, "stride_dilation_x": 1}
    found = answered(config, op, words, **members(BLOCKS, **place))
    wide = np.broadcast_to(b, a.shape).astype(int)
    if op == "product":
        wanted = rounded(op, (a.astype(int) - 11) * (wide + 7))
    elif op == "elementwise":
        wanted = rounded(op, wide, a)
    else:
        wanted = rounded(op, (np.maximum if op == "max" else np.minimum)(a, wide))
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({}, None),
        ({"kernel_width": 1}, r"commands\[1\] \(vector\) is a product of other than two operands"),
        ({"kernel_width": 3}, "is a product of other than two operands"),
        ({"kernel_height": 2}, "is a product of other than two operands"),
        ({"src": TINY.feature_words - 2, "src_kx": 2 - TINY.feature_words}, "has an address outside feature memory"),
        ({"src": TINY.feature_words - 2, "src_kx": 2 - TINY.feature_words, "b_flat": 1, "b_block": 1}, None),
        ({"src": TINY.feature_words - 2, "src_kx": 2 - TINY.feature_words, "b_flat": 1, "b_block": 2}, "outside feature memory"),
        ({"src": 0, "src_kx": TINY.feature_words - AREA, "b_flat": 1, "b_block": 1}, "has an address outside feature memory"),
    ],
)
def test_a_product_has_two_operands_in_feature_memory(others: dict[str, int], words: str | None):
    """The accelerator would multiply taps of other groups, or read words that do not exist, without a fault."""
    program, ring = program_of(TINY, "product", **members(BLOCKS * AREA) | others)
    unfinished = list(program.writes)
    program.write("END", 1)
    sizes = dict.fromkeys(SEGMENTS, 1 << 20)
    device = EmulatorDevice(TINY, 1 << 20)
    if words is None:
        checked(program.bytes(), TINY, sizes)
        return
    with pytest.raises(UnsoundError, match=words):
        checked(program.bytes(), TINY, sizes)
    program.writes = unfinished
    with pytest.raises(RunError, match=words.removeprefix(r"commands\[1\] \(vector\) ")):
        run(device, program, ring)


def test_a_start_forgets_a_flat_operand():
    """A program from before VECTOR_B would read one word for all pixels if the one before it did."""
    device = EmulatorDevice(TINY, 1 << 20)
    a = drawn(TINY, 5)
    single = {"kernel_width": 1, "add_b": 0}
    for flat in (1, 0):
        program, ring = program_of(TINY, "elementwise", **members(0, **single, b_flat=flat, b_zero=9, b_block=1))
        if not flat:
            program.writes = [write for write in program.writes if write[0] != offset("VECTOR_B")]
        run(device, program, ring, to_words(TINY, a, 0))
        found = plane(device, DST, 1, BLOCKS, SIZE, BLOCKS * TINY.ci)
        assert np.array_equal(found, found[..., :1, :1] * np.ones_like(found)) == bool(flat)
    assert np.array_equal(found, rounded("elementwise", a))
