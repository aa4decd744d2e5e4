"""What the report says of feature memory and DDR over time is what the program's commands do."""

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.cost.cost import ddr_bytes
from cnna.compiler.cost.engine_steps import command_groups
from cnna.compiler.predict.bank_clocks import plane_words, source_words
from cnna.compiler.predict.timeline import in_a_row, predicted_bars
from cnna.compiler.report.over_time import ddr_over_time, memory_over_time
from cnna.spec.config import preset
from cnna.spec.program.commands import commands

from ... import networks
from ...agreement import artifact_of


@pytest.fixture(scope="module", params=[(3, "tiny", 2), (5, "tiny", 1), (3, "tinyx2", 1)], ids=str)
def played(request):
    seed, config, batch = request.param
    artifact = artifact_of(compile_graph(networks.network(seed), preset(config), batch).piece())
    return artifact, in_a_row((program, predicted_bars(program)) for program in artifact.programs)


def test_all_bytes_of_the_program_are_there(played):
    """Bytes of short commands would be lost between two stretches, or those of long ones counted twice."""
    artifact, bars = played
    wanted = {}
    for command in (command for program in artifact.programs for command in commands(program.program)):
        amount = ddr_bytes(command.engine, vars(command.f), artifact.config)
        wanted[command.engine] = wanted.get(command.engine, 0) + amount
    found = ddr_over_time(artifact, bars)
    size = (found[-1]["end"] - found[0]["begin"]) / len(found)
    for engine, amount in wanted.items():
        assert sum(entry["bytes"].get(engine, 0) for entry in found) * size == pytest.approx(amount, rel=0.02, abs=2 * size)


def words_of(command, config):
    """The words that a conv or vector command reads, and those that it writes, block by block."""
    fields, groups = vars(command.f), (0, command_groups(vars(command.f), config))
    sources = fields["blocks"] * (config.depth if command.engine == "conv" else 1)
    read = np.concatenate([source_words(fields, config, block, groups).ravel() for block in range(sources)])
    made = fields["dst_blocks"] if command.engine == "conv" else fields["blocks"]
    return set(read[read >= 0].tolist()), set(plane_words("dst", fields, config, (0, made), groups).ravel().tolist()) - {-1}


def test_a_tensor_lies_there_from_its_first_write_to_its_last_read(played):
    """A map would vanish before a later layer reads it, or seem to take memory that is free."""
    artifact, bars = played
    found = memory_over_time(artifact, bars)
    entries = [entry for program in artifact.programs for entry in program.manifest["commands"]]
    owner, begun, used = {}, {}, {}
    for command, entry, bar in zip(commands(artifact.programs[0].program), entries, bars, strict=True):
        if command.engine in ("conv", "vector"):
            read, written = words_of(command, artifact.config)
            for word in read & owner.keys():
                used[owner[word]] = max(used.get(owner[word], 0), bar.end)
            for word in written:
                owner[word] = entry["tensor"]
                begun.setdefault(entry["tensor"], bar.begin)
    assert begun
    for tensor, begin in begun.items():
        own = [entry for entry in found if entry["tensor"] == tensor]
        assert min(entry["begin"] for entry in own) == begin
        assert max(entry["end"] for entry in own) >= used.get(tensor, 0)
    assert all(0 <= entry["low"] < entry["high"] <= artifact.config.deck_words for entry in found)


def test_two_tensors_share_no_word_at_one_time(played):
    """A tensor that others have overwritten would still be drawn; a clock or two may differ at the border of two commands."""
    artifact, bars = played
    found = memory_over_time(artifact, bars)
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            if one["tensor"] != other["tensor"] and one["low"] < other["high"] and other["low"] < one["high"]:
                first, then = sorted((one, other), key=lambda entry: entry["begin"])
                assert first["end"] - then["begin"] <= 0.02 * bars[-1].end
