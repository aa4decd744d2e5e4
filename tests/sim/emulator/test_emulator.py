"""The emulator against layers computed here in the plain way: [n, c, h, w] loops over taps, without walks or words."""

import numpy as np
import pytest

from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec import arith
from cnna.spec.config import preset
from cnna.spec.errors import RunError
from cnna.spec.program.commands import UnsoundError, tables_of
from cnna.spec.regmap import ERRORS, REGISTERS, VECTOR_OPS, offset

from ..programs import CONFIGS, DST, RES, Program, pack_params, plane, run, source_members, stripes, to_words


def window_sum(x, weights, stride, pads, dilation, zero):
    """int32 [n, cout, ho, wo]: plain convolution of x int8 with weights [cout, cin, kh, kw], padding reads `zero`."""
    top, left, bottom, right = pads
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=zero)
    kh, kw = weights.shape[2:]
    ho = (padded.shape[2] - (kh - 1) * dilation - 1) // stride + 1
    wo = (padded.shape[3] - (kw - 1) * dilation - 1) // stride + 1
    total = 0
    for ky in range(kh):
        for kx in range(kw):
            y, z = ky * dilation, kx * dilation
            part = padded[:, :, y : y + (ho - 1) * stride + 1 : stride, z : z + (wo - 1) * stride + 1 : stride]
            total = total + np.einsum("nchw,oc->nohw", part, weights[:, :, ky, kx].astype(np.int64))
    return total


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("stream", [0, 1])
@pytest.mark.parametrize("residual", [False, True])
def test_conv_is_a_convolution_with_requantiser_and_residual(config, stream, residual):
    """Wrong gathers, padding, weight order, parameters, chunking or residual operands would show here."""
    rng = np.random.default_rng(config.pix * 100 + stream * 10 + residual)
    images, cin, cout, height, width = 2, config.ci + 3, 2 * config.co - 1, 6, 5
    kernel, stride, pads, dilation, zero = (3, 2), 2, (1, 1, 0, 1), 1, -7
    x = rng.integers(-128, 128, (images, cin, height, width), np.int8)
    weights = rng.integers(-127, 128, (cout, cin, *kernel), np.int8)
    bias = rng.integers(-50000, 50000, cout)
    mult, shift = rng.integers(2**23, 2**24, cout), rng.integers(34, 38, cout)
    sums = window_sum(x, weights, stride, pads, dilation, zero)
    out = sums.shape[2:]
    mid = arith.requantise(sums.transpose(0, 2, 3, 1) + bias, mult, shift, 5, -100, 120).transpose(0, 3, 1, 2)
    r = rng.integers(-128, 128, mid.shape, np.int8)
    add = (5_000_000, -3_000_000, 123_456, 23) if residual else (2, 0, 0, 1)
    golden = arith.combine(mid, add[0], r, add[1], add[2], add[3], 3 if residual else 0, -120, 110)

    blocks, out_blocks, chunks = -(-cin // config.ci), -(-cout // config.ci), 2
    groups = -(-images * out[0] * out[1] // config.pix)
    ring = b""
    for c in range(chunks):
        part = range(c * config.co, min((c + 1) * config.co, cout))
        full = np.zeros((config.co, blocks * config.ci, *kernel), np.int8)
        full[: len(part), :cin] = weights[list(part)]
        full = full.reshape(config.co, blocks, config.ci, *kernel).transpose(1, 3, 4, 0, 2)
        numbers = [np.pad(v[list(part)], (0, config.co - len(part)), constant_values=1) for v in (bias, mult, shift)]
        params = pack_params(*numbers).ljust(config.param_words * config.ring_word_bytes, b"\0")
        ring += params + full.tobytes() * (groups if stream else 1)
    program = Program()
    beats = len(ring) // config.ports // 16
    program.go("weight", port=beats * 16, beats=beats, repeat=1)
    size = out[0] * out[1]
    step = {"x": 1, "row": 0, "image": (out_blocks - 1) * size, "block": size}
    program.go(
        "conv",
        **source_members(height, width, out, images, kernel, stride, pads, dilation, blocks * height * width, zero),
        blocks=blocks,
        chunks=chunks,
        stream=stream,
        mid_zero=5,
        mid_clamp_low=-100,
        mid_clamp_high=120,
        dst=DST,
        dst_blocks=out_blocks,
        **{f"dst_{name}": value for name, value in step.items()},
        res_enable=int(residual),
        res=RES,
        **{f"res_{name}": value for name, value in step.items()},
        **dict(zip(("add_a", "add_b", "add_offset", "add_shift"), add, strict=True)),
        out_zero=3 if residual else 0,
        out_clamp_low=-120,
        out_clamp_high=110,
    )
    device = EmulatorDevice(config, 1 << 22)
    operand = to_words(config, r, 0).reshape(-1, config.ci)
    device.state.features[RES : RES + len(operand)] = operand.view(np.uint8)
    run(device, program, stripes(config, ring), to_words(config, x, zero))
    assert np.array_equal(plane(device, DST, images, out_blocks, out, cout), golden)
    assert device.state.weights.empty


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("op", VECTOR_OPS)
def test_vector_operations(config, op):
    """Wrong taps, padding, parameters for each block or operand order would show here."""
    rng = np.random.default_rng(VECTOR_OPS.index(op))
    images, channels, height, width, zero = 2, 2 * config.ci, 5, 7, {"max": -128, "minimum": 127}.get(op, 4)
    elementwise = op in ("elementwise", "product")
    kernel, stride, pads = ((1, 2), 1, (0, 0, 0, 0)) if elementwise else ((3, 3), 2, (1, 1, 1, 1))
    x = rng.integers(-128, 128, (images, channels, height, width), np.int8)
    x2 = rng.integers(-128, 128, x.shape, np.int8)
    weights = rng.integers(-127, 128, (channels, 1, *kernel), np.int8)
    bias = rng.integers(-3000, 3000, channels)
    mult, shift = rng.integers(2**23, 2**24, channels), rng.integers(30, 33, channels)
    size = (height, width) if elementwise else ((height + 1) // 2, (width + 1) // 2)

    def by_channel(v):
        return np.asarray(v)[:, None, None]

    if op in ("max", "minimum"):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=zero)
        best = (np.max if op == "max" else np.min)(
            [padded[:, :, a : a + height : 2, b : b + width : 2] for a in range(3) for b in range(3)], axis=0
        )
        mult, shift = mult >> 1, rng.integers(22, 25, channels)
        golden = arith.combine(best, by_channel(mult), 0, 0, by_channel(bias), by_channel(shift), 2, -90, 100)
    elif op == "product":  # tap 1, the other tensor, has the zero point PAD
        products = (x.astype(np.int32) - 127) * (x2.astype(np.int32) - zero)
        golden = arith.requantise(products + by_channel(bias), by_channel(mult), by_channel(shift), 2, -90, 100)
    elif elementwise:
        mult, shift = -(mult >> 1), rng.integers(22, 25, channels)
        golden = arith.combine(x, by_channel(mult), x2, 777_777, by_channel(bias), by_channel(shift), 2, -90, 100)
    else:
        one = np.ones_like(weights) if op == "average" else weights
        sums = np.concatenate([window_sum(x[:, c : c + 1], one[c : c + 1], 2, pads, 1, zero) for c in range(channels)], axis=1)
        golden = arith.requantise(sums + by_channel(bias), by_channel(mult), by_channel(shift), 2, -90, 100)

    blocks, taps, ring = 2, kernel[0] * kernel[1], b""
    for b in range(blocks):
        part = slice(b * config.ci, (b + 1) * config.ci)
        ring += pack_params(bias[part], mult[part], shift[part])
        if op == "depthwise":
            words = np.zeros((taps, config.vector_word_bytes), np.int8)
            words[:, : config.ci] = weights[part, 0].reshape(config.ci, taps).T
            ring += words.tobytes()
    members = source_members(height, width, size, images, kernel, stride, pads, 1, blocks * height * width, zero)
    area, out_area = height * width, size[0] * size[1]
    if elementwise:  # tap 1 is the other tensor, behind all images of the first
        members |= {"src_kx": images * blocks * area, "stride_dilation_x": 0}
    program = Program()
    program.go("weight", ring=1, beats=len(ring) // 16, repeat=1)
    program.go(
        "vector",
        **members,
        op=VECTOR_OPS.index(op),
        b_zero=127,
        blocks=blocks,
        add_b=777_777,
        out_zero=2,
        out_clamp_low=-90,
        out_clamp_high=100,
        dst=DST,
        dst_x=1,
        dst_image=(blocks - 1) * out_area,
        dst_block=out_area,
    )
    device = EmulatorDevice(config, 1 << 20)
    run(device, program, ring, np.concatenate([to_words(config, v, zero) for v in (x, x2)]))
    assert np.array_equal(plane(device, DST, images, blocks, size, channels), golden)
    assert device.state.vector_ring.empty


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_load_and_store_move_runs(config):
    """Wrong run or block steps, or a store that writes beyond its bytes, would show here."""
    rng = np.random.default_rng(3)
    data = rng.integers(0, 256, 4096, np.uint8)
    program = Program()
    program.go("load", ddr=64, fm=100, run=5, runs=3, ddr_run=96, fm_run=7, blocks=2, ddr_block=512, fm_block=40)
    program.go("store", ddr=2048, fm=100, run=5, runs=3, ddr_run=112, fm_run=7, blocks=2, ddr_block=400, fm_block=40)
    device = EmulatorDevice(config, 1 << 16, logging=True)
    run(device, program, data.tobytes())
    golden, n = data.copy(), 5 * config.ci
    for block in range(2):
        for row in range(3):
            to, start = 2048 + block * 400 + row * 112, 64 + block * 512 + row * 96
            golden[to : to + n] = data[start : start + n]
    segment = device.state.segments[0]
    assert device.load(segment, 4096) == golden.tobytes()
    loaded, stored = device.log
    assert loaded.words.shape == stored.words.shape == (2, 3, 5, config.ci)
    assert np.array_equal(loaded.words, stored.words)
    assert int(stored.addresses[1, 2, 4]) == segment + 2048 + 400 + 224 + 4 * config.ci


def test_an_unmet_wait_names_the_command():
    """A deadlock must be an error, not a wrong answer."""
    program = Program()
    program.go("load", run=1, wait_store_count=1, wait_store_enable=1)
    with pytest.raises(RunError, match=r"load command 0 .*unit 1 of store"):
        run(EmulatorDevice(preset("tiny"), 1 << 16), program)


def test_an_engine_waits_for_its_own_units_in_order():
    """A later command may wait for an earlier one of the same engine; the earlier one must not wait for itself."""
    program = Program()
    program.go("load", run=1)
    program.go("load", run=1, wait_load_count=1, wait_load_enable=1)
    device = EmulatorDevice(preset("tiny"), 1 << 16)
    run(device, program)
    assert device.read(offset("DONE_LOAD")) == 2


@pytest.mark.parametrize(
    ("writes", "cause", "where"),
    [
        ([("LOAD_RUN", 0)], "illegal_value", "LOAD_RUN"),
        ([("LOAD_FM", 1), ("ID", 0)], "illegal_register", "ID"),
        ([("PROG_COUNT", 4)], "illegal_register", "PROG_COUNT"),
    ],
)
def test_an_illegal_write_stops_with_its_cause(writes, cause, where):
    """The registers must tell which write failed and why, as the RTL's do."""
    program, device = Program(), EmulatorDevice(preset("tiny"), 1 << 16)
    for name, value in writes:
        program.write(name, value)
    run(device, program)
    assert REGISTERS["STATUS"].unpack(device.read(offset("STATUS")))["error"] == 1
    assert ERRORS[REGISTERS["ERROR"].unpack(device.read(offset("ERROR")))["cause"]] == cause
    assert device.read(offset("ERROR_INFO")) == offset(where)
    assert device.read(offset("PC")) == len(writes) - 1


@pytest.mark.parametrize(
    ("go", "cause", "where", "what"),
    [
        ({"engine": "load", "run": 1 << 15}, "illegal_value", "LOAD_GO", "words of feature memory"),
        ({"engine": "store", "ddr": 8}, "illegal_value", "STORE_GO", "no multiple of 16"),
        (
            {"engine": "load", "run": 1, "wait_store_enable": 1, "wait_store_count": 1},
            "watchdog",
            None,
            "waits for unit 1 of store",
        ),
    ],
)
def test_a_command_that_cannot_be_carried_out_stops_with_a_cause(go, cause, where, what):
    """A driver that polls STATUS, as behind a board, would wait for its time-out: neither done nor error would ever be set."""
    program, device = Program(), EmulatorDevice(preset("tiny"), 1 << 16)
    program.go(**go)
    with pytest.raises(RunError, match=what):
        run(device, program)
    status = REGISTERS["STATUS"].unpack(device.read(offset("STATUS")))
    assert (status["busy"], status["done"], status["error"]) == (0, 0, 1)
    assert ERRORS[REGISTERS["ERROR"].unpack(device.read(offset("ERROR")))["cause"]] == cause
    assert device.read(offset("ERROR_INFO")) == (offset(where) if where else 0)


@pytest.mark.parametrize("go", ["LOAD_GO", "WEIGHT_GO", "CONV_GO", "VECTOR_GO", "STORE_GO", "END"])
@pytest.mark.parametrize("value", [0, 2, 0xFFFFFFFE])
def test_a_go_without_its_bit_does_nothing(go, value):
    """The RTL looks at bit 0: the emulator would carry out what the accelerator does not, or end a program that goes on."""
    program, device = Program(), EmulatorDevice(preset("tiny"), 1 << 16, logging=True)
    program.write(go, value)
    program.go("load", run=1)
    run(device, program)
    assert REGISTERS["STATUS"].unpack(device.read(offset("STATUS")))["done"]
    assert (len(device.log), device.read(offset("DONE_LOAD")), device.read(offset("PC"))) == (1, 1, len(program.writes))
    with pytest.raises(
        UnsoundError, match=rf"^write 0 of program.bin sets {go} to {value:#x}, which does nothing: bit 0 must be 1$"
    ):
        tables_of(program.bytes())


@pytest.mark.parametrize("engine", ["load", "weight", "store"])
def test_a_command_outside_its_segment_says_so_however_long_it_is(engine):
    """The accelerator looks at places before it works: its ERROR is `outside_segment` where it would also run for too long."""
    program, device = Program(), EmulatorDevice(preset("tiny"), 1 << 16)
    program.go(engine, **({"beats": 5000} if engine == "weight" else {"run": 16, "runs": 1000, "ddr_run": 64}))
    for name, value in (("RUN_LIMIT", 100), ("SEG_CONSTANT_BYTES", 64)):
        device.write(offset(name), value)
    run(device, program)
    assert ERRORS[REGISTERS["ERROR"].unpack(device.read(offset("ERROR")))["cause"]] == "outside_segment"
    assert device.read(offset("ERROR_INFO")) == offset(f"{engine.upper()}_SEG")


def test_the_offset_of_an_illegal_write_has_16_bits():
    """The register ERROR_INFO has no more."""
    program, device = Program(), EmulatorDevice(preset("tiny"), 1 << 16)
    program.writes.append((0x7_0204, 0))
    run(device, program)
    assert ERRORS[REGISTERS["ERROR"].unpack(device.read(offset("ERROR")))["cause"]] == "illegal_register"
    assert device.read(offset("ERROR_INFO")) == 0x204


@pytest.mark.parametrize(("clocks", "cause"), [(1000, "watchdog"), (0, "none")])
def test_a_program_without_an_end_stops_as_the_accelerator_does(clocks, cause):
    """STATUS would say busy for ever, where the watchdog of the RTL ends the program, if there is one."""
    program, device = Program(), EmulatorDevice(preset("tiny"), 1 << 16)
    program.go("load", run=1)
    base = device.allocate(len(program.bytes()))
    device.store(base, program.bytes())
    for name in ("PROG_BASE", "SEG_CONSTANT"):
        device.write(offset(f"{name}_LO"), base & 0xFFFFFFFF)
        device.write(offset(f"{name}_HI"), base >> 32)
    for name, value in (("PROG_COUNT", len(program.writes)), ("WATCHDOG", clocks), ("CTRL", 1)):
        device.write(offset(name), value)
    assert ERRORS[REGISTERS["ERROR"].unpack(device.read(offset("ERROR")))["cause"]] == cause
    assert REGISTERS["STATUS"].unpack(device.read(offset("STATUS")))["busy"] == (cause == "none")


def test_a_load_outside_memory_is_a_bad_response():
    """An address that no memory has must stop the accelerator as DECERR does, and a soft reset must clear it."""
    program, device = Program(), EmulatorDevice(preset("tiny"), 1 << 16)
    program.go("load", run=1, ddr=1 << 30)
    run(device, program)
    assert ERRORS[REGISTERS["ERROR"].unpack(device.read(offset("ERROR")))["cause"]] == "read_response"
    device.write(offset("CTRL"), REGISTERS["CTRL"].pack(soft_reset=1))
    assert device.read(offset("ERROR")) == 0


def test_bits_above_the_last_field_are_ignored():
    """The RTL has no flip-flops there: a driver that reads back what it wrote must see the same on both."""
    device = EmulatorDevice(preset("tiny"), 1 << 16)
    for name, kept in (("PROG_BASE_HI", 0xFF), ("SEG_INPUT_LO", 0xFFFFFFFF)):
        device.write(offset(name), 0xFFFFFFFF)
        assert device.read(offset(name)) == kept


def test_nothing_is_outstanding_and_there_are_no_streams():
    """A driver would see bursts that the emulator does not have, or wait for ever for a copy that nobody carries out."""
    device = EmulatorDevice(preset("tiny"), 1 << 16)
    assert device.read(offset("OUTSTANDING_READS")) == device.read(offset("OUTSTANDING_WRITES")) == 0
    assert REGISTERS["MEMORY"].unpack(device.read(offset("MEMORY")))["streams"] == 0
    for name in ("STREAM_IN_BYTES", "STREAM_OUT_START"):
        with pytest.raises(RunError, match=f"{name} cannot be written: configuration tiny has no streams"):
            device.write(offset(name), 1)
        assert device.read(offset(name)) == 0
