"""Programs contain exactly their commands, in no more writes than needed."""

import numpy as np
import pytest

from cnna.compiler.lower.lower import lower
from cnna.compiler.lower.weights import constant_segment
from cnna.compiler.plan.allocate import allocate
from cnna.compiler.plan.command import PlanContext
from cnna.compiler.plan.emit import emit, emitted
from cnna.compiler.plan.hazards import add_waits
from cnna.compiler.plan.schedule import schedule, stream_keys
from cnna.spec.config import Config
from cnna.spec.errors import ModelError
from cnna.spec.program.commands import commands, program_writes
from cnna.spec.regmap import CLEARED, ENGINES, REGISTERS, offset

from ... import networks

LITTLE = Config("little", pix=2, ci=4, co=8, ports=1, regions=1, bank_words=512, ring_words=64, vector_ring_words=256)


@pytest.fixture(scope="module")
def scheduled():
    """The commands of a network with bands, convolutions and vector passes."""
    lowered = lower(networks.network(7), LITTLE)
    allocation, keys = allocate(lowered, LITTLE, "case"), stream_keys(lowered)
    offsets = constant_segment([lowered.kernels[k].parts[p].stream for k, p in keys]).offsets
    plain = schedule(PlanContext(lowered, allocation, dict(zip(keys, offsets, strict=True)), LITTLE))
    return add_waits(plain, allocation.segments, LITTLE)


def test_decoding_gives_the_commands_back(scheduled):
    """A field of a command would not reach its engine."""
    found = list(commands(emit(scheduled)))
    assert len(found) == len(scheduled)
    for made, command in zip(found, scheduled, strict=True):
        assert made.engine == command.engine
        assert {name: getattr(made.f, name) for name in command.fields} == dict(command.fields)


def test_what_is_said_beside_a_program_is_what_it_decodes_to(scheduled):
    """The estimate of a plan would be that of another program."""
    program, said = emitted(scheduled)
    assert said == list(commands(program))


def test_no_register_is_written_again_with_its_value(scheduled):
    """The sequencer plays one write a clock, so a repeated value would only cost time."""
    held = {}
    for register, value in program_writes(emit(scheduled))[:-1]:
        if register not in {offset(f"{engine.upper()}_GO") for engine in ENGINES}:
            assert held.get(register) != value
            held[register] = value


def test_the_first_command_of_an_engine_sets_every_register(scheduled):
    """Shadow registers keep the values of the program before, but a start clears a few."""
    seen = set()
    for register, _ in program_writes(emit(scheduled)):
        seen.add(register)
        for engine in ENGINES:
            if register == offset(f"{engine.upper()}_GO"):
                own = {r.offset for r in REGISTERS.values() if r.block == engine}
                assert own - {offset(name) for name in CLEARED} <= seen


def test_the_last_write_ends_the_program(scheduled):
    writes = np.frombuffer(emit(scheduled), "<u4").reshape(-1, 2)
    assert writes[-1, 0] == offset("END")
    assert (writes[:-1, 0] != offset("END")).all()


def test_at_most_two_weight_streams_stand_before_their_reader(scheduled):
    """The queue holds two commands: with a third, the sequencer would wait for a reader that it has not sent yet."""
    waiting = 0
    for command in scheduled:
        waiting = waiting + 1 if command.engine == "weight" else 0 if command.engine in ("conv", "vector") else waiting
        assert waiting <= 2


def test_a_value_beyond_its_field_is_refused_by_layer(scheduled):
    """A layer beyond the registers is the model's fault: there must be one line, and no traceback."""
    load = next(command for command in scheduled if command.engine == "load")
    with pytest.raises(ModelError, match=r"layer 0.*LOAD_RUN.*is not within"):
        emit([load._replace(fields={**load.fields, "run": 1 << 17})])
