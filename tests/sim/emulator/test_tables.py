"""The tables behind the requantisers in the emulator: where they act, which one counts, and what a program must not do."""

from types import SimpleNamespace

import numpy as np
import pytest

from cnna.sim.emulator import engines, walk
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.sim.emulator.state import EmulatorState
from cnna.spec import arith
from cnna.spec.checks.program import checked
from cnna.spec.config import BEAT_BYTES, Config, preset
from cnna.spec.errors import RunError
from cnna.spec.program.commands import Command, UnsoundError
from cnna.spec.regmap import SEGMENTS, VECTOR_OPS, offset

from ...configurations import ODD
from ...rigs.engine_cases import Cases
from ..programs import Program, run

TINY = preset("tiny")
SEGMENT_BYTES = dict.fromkeys(SEGMENTS, 1 << 20)
LOAD, USE = {"table_load": 1}, {"table_use": 1}


def played(cases: Cases, commands: list[SimpleNamespace], ring: np.ndarray) -> EmulatorState:
    """The state after these commands on features that are always the same; `log` holds what each command wrote."""
    config = cases.config
    state = EmulatorState(config, np.zeros(16, np.uint8), 0, log=[])
    state.features[:-1] = np.random.default_rng(5).integers(0, 256, (config.feature_words, config.ci), np.uint8)
    (state.weights if cases.engine == "conv" else state.vector_ring).append(ring)
    for number, f in enumerate(commands):
        engines.ENGINE_RUNS[cases.engine](state, Command(number, number, cases.engine, f))
    return state


def written(state: EmulatorState, number: int | None = None) -> np.ndarray:
    """The words that commands wrote, uint8; or the command of that number alone."""
    assert state.log is not None
    return np.concatenate([part.words for part in state.log if number in (None, part.command.number)])


def test_the_index_is_the_byte():
    """An index that counts from -128 would use the other half of the table."""
    table = np.arange(256).astype(np.uint8).view(np.int8)
    x = np.arange(-128, 128).astype(np.int8)
    assert np.array_equal(arith.look_up(table, x), x)
    assert np.array_equal(arith.look_up(np.roll(table, 1), x), np.roll(x, 1))


@pytest.mark.parametrize("config", [TINY, ODD, preset("zcu102")], ids=lambda c: c.name)
def test_the_array_looks_up_before_the_residual_add(config: Config):
    """A table behind the add, or of other ring words than the first, would give other sums."""
    cases = Cases(config, "conv", np.random.default_rng(3))
    f = cases.conv(res_enable=1, table_load=1, table_use=1, stream=0)
    ring = np.concatenate(cases.ring)
    table = cases.ring[0].reshape(-1)[:256].view(np.int8)
    clamps = {"out_clamp_low": -128, "out_clamp_high": 127}
    plain = SimpleNamespace(**(vars(f) | engines.IDENTITY | clamps | {"res_enable": 0, "table_load": 0, "table_use": 0}))
    mid = written(played(cases, [plain], ring[config.table_words :])).view(np.int8)
    state = played(cases, [f], ring)
    blocks = np.arange(mid.shape[1])
    planes = walk.plane(f, "res", np.arange(walk.pixels(f)))[:, None] + blocks * f.res_block
    residual = played(cases, [], ring).read(planes)
    wanted = arith.combine(
        table[mid.view(np.uint8)],
        *(f.add_a, residual, f.add_b, f.add_offset, f.add_shift),
        *(f.out_zero, f.out_clamp_low, f.out_clamp_high),
    )
    assert np.array_equal(written(state).view(np.int8), wanted)
    assert state.weights.empty


@pytest.mark.parametrize("op", range(len(VECTOR_OPS)))
def test_the_vector_engine_looks_up_what_it_writes(op: int):
    """One operation without the table, or with a clamp behind it, would be a wrong activation."""
    cases = Cases(TINY, "vector", np.random.default_rng(op))
    f = cases.vector(op=op, table_load=1, table_use=1)
    ring = np.concatenate(cases.ring)
    table = ring[: TINY.vector_table_words].reshape(-1)
    plain = SimpleNamespace(**(vars(f) | {"table_load": 0, "table_use": 0}))
    before = written(played(cases, [plain], ring[TINY.vector_table_words :]))
    assert np.array_equal(written(played(cases, [f], ring)), table[before])


@pytest.mark.parametrize("engine", ["conv", "vector"])
def test_a_table_stays_until_the_next(engine: str):
    """A layer of several commands loads its table once, and commands between them may use none."""
    cases = Cases(TINY, engine, np.random.default_rng(7))
    kinds = ({**LOAD, "table_use": 0}, USE, {"table_use": 0}, USE, {**LOAD, **USE}, USE)
    first = getattr(cases, engine)()
    params, cases.ring = np.concatenate(cases.ring), []
    tables, ring = [], []
    for kind in kinds:
        if "table_load" in kind:
            words, size = (TINY.table_words, TINY.ring_word_bytes) if engine == "conv" else (TINY.vector_table_words, BEAT_BYTES)
            tables.append(cases.rng.integers(0, 256, (words, size), np.uint8))
            ring.append(tables[-1])
        ring.append(params)
    commands = [SimpleNamespace(**(vars(first) | kind)) for kind in kinds]
    state = played(cases, commands, np.concatenate(ring))
    found = [written(state, number) for number in range(len(kinds))]
    if engine == "conv":
        assert np.array_equal(found[1], found[3])
        assert np.array_equal(found[4], found[5])
    else:
        one, two = (table.reshape(-1) for table in tables)
        for number, table in ((1, one), (3, one), (4, two), (5, two)):
            assert np.array_equal(found[number], table[found[0]])
    assert np.array_equal(found[0], found[2])
    assert not np.array_equal(found[1], found[4])


def copies(*kinds: dict[str, int], beats: int | None = None) -> tuple[Program, bytes]:
    """Vector commands that copy word 0 to word 1, and the beats of what they take: a table of -x for each that loads one."""
    ring = b""
    for kind in kinds:
        ring += bytes(-x & 0xFF for x in range(256)) if kind.get("table_load") else b""
        ring += arith.pack_params(np.zeros(TINY.ci), 2, 1).astype("<u8").tobytes()
    program = Program()
    program.go("weight", ring=1, beats=len(ring) // 16 if beats is None else beats, repeat=1)
    ends = {"out_clamp_low": -128, "out_clamp_high": 127}
    for kind in kinds:
        program.go("vector", op=3, in_width=1, in_height=1, dst=1, dst_x=1, **ends, **kind)
    return program, ring


def test_start_and_reset_forget_tables():
    """A program that runs only after some other one would pass, and fail on the next day."""
    device = EmulatorDevice(TINY, 1 << 20)
    device.state.features[0] = 5
    run(device, *copies({**LOAD, **USE}))
    assert device.state.features[1].view(np.int8).tolist() == [-5] * TINY.ci
    with pytest.raises(RunError, match=r"vector command 1 .*uses a table that nothing before it loads"):
        run(device, *copies(USE))
    device.write(offset("CTRL"), 4)
    assert not device.state.tables


def test_a_start_sets_the_table_registers_to_0():
    """A program from before these registers would use the table of the one that ran before it, or wait for ring words."""
    device = EmulatorDevice(TINY, 1 << 20)
    device.state.features[0] = 5
    run(device, *copies({**LOAD, **USE}))
    program, ring = copies({})
    program.writes = [write for write in program.writes if write[0] != offset("VECTOR_TABLE")]
    run(device, program, ring)
    assert device.state.features[1].view(np.int8).tolist() == [5] * TINY.ci


@pytest.mark.parametrize(
    ("kinds", "beats", "words"),
    [
        ([LOAD, USE, {**LOAD, **USE}], None, None),
        ([USE], None, r"commands\[1\] \(vector\) uses a table that nothing before it loads"),
        ([{}, USE, LOAD], None, r"commands\[2\] \(vector\) uses a table"),
        ([LOAD, USE], 2 + 2, r"commands\[1\] \(vector\) takes ring words that nothing before it brings"),
        ([LOAD, USE], 16 + 2 + 3, "brings ring words that no vector command takes"),
    ],
)
def test_a_program_brings_and_loads_its_tables(kinds: list[dict[str, int]], beats: int | None, words: str | None):
    """The accelerator would wait for ever for the words of a table, or look results up in what an earlier program left."""
    program, _ = copies(*kinds, beats=beats)
    program.write("END", 1)
    if words is None:
        assert len(checked(program.bytes(), TINY, SEGMENT_BYTES)["vector"].numbers) == len(kinds)
        return
    with pytest.raises(UnsoundError, match=words):
        checked(program.bytes(), TINY, SEGMENT_BYTES)


@pytest.mark.parametrize("table", [0, 1])
def test_a_conv_command_takes_its_table_from_the_weight_ring(table: int):
    """A table that is not counted among the words of the ring would let a program end in a deadlock."""
    words = TINY.param_words + 1 + table * TINY.table_words
    for brought in (words - 1, words):
        program = Program()
        program.go("weight", beats=brought * TINY.ring_word_bytes // BEAT_BYTES, repeat=1)
        program.go("conv", in_width=1, in_height=1, dst=1, dst_blocks=1, add_shift=1, table_load=table)
        program.write("END", 1)
        if brought == words:
            checked(program.bytes(), TINY, SEGMENT_BYTES)
        else:
            with pytest.raises(UnsoundError, match="takes ring words that nothing before it brings"):
                checked(program.bytes(), TINY, SEGMENT_BYTES)
