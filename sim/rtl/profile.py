"""Clocks and DDR bytes of every layer, and when its weights came, from what the testbench has recorded.

A clock in which the array works on a command, or waits during it, counts for the layer of that command. If the array has no
command, the clock counts for the layer of the first unfinished command of any engine, in program order. So the cycles of all layers
add up to the accelerator's counter.
"""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from cnna.sim.rtl.linked_models import PHASES
from cnna.spec.artifact import ProgramPiece
from cnna.spec.codebook import BOOKS
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.errors import RunError
from cnna.spec.program.commands import WRITE_BYTES, Command, commands
from cnna.spec.regmap import ENGINES, STALLS

Layer = dict[str, Any]  # cycles, stalls by cause, ddr_read_bytes, ddr_write_bytes
IDLE = 1 + STALLS.index("idle")  # a state: 0 if the array works, 1 + n for stall number n


def layers(piece: ProgramPiece, phases: Sequence[Sequence[int]]) -> list[Layer]:
    """The figures of each layer of the manifest, in its order. phases: rows of `linked_models.PHASES`."""
    config, manifest = piece.config, piece.manifest
    program = list(commands(piece.program))
    owner = [int(entry["layer"]) for entry in manifest["commands"]]
    found: list[Layer] = [
        {"cycles": 0, "stalls": dict.fromkeys(STALLS, 0), "ddr_read_bytes": 0, "ddr_write_bytes": 0} for _ in manifest["layers"]
    ]
    queues = {engine: [c for c in program if c.engine == engine] for engine in ENGINES}
    ends = {engine: _ends(queue, config) for engine, queue in queues.items()}
    for row in phases:
        at = dict(zip(PHASES, row, strict=True))
        layer = found[owner[_command(at, queues, ends)]]
        layer["cycles"] += at["clocks"]
        if at["state"]:
            layer["stalls"][STALLS[at["state"] - 1]] += at["clocks"]
    _add_traffic(found, program, owner, config)
    return found


def _ends(queue: list[Command], config: Config) -> list[int]:
    """For each command of the engine: the units that the engine has finished when the command ends."""
    total, found = 0, []
    for command in queue:
        total += command.units(config.chunk_blocks)
        found.append(total)
    return found


def _command(at: dict[str, int], queues: dict[str, list[Command]], ends: dict[str, list[int]]) -> int:
    """The number of the command to which a phase belongs."""
    begun = at["conv_started"] + at["untouched"]  # includes a command of which the array has taken no step yet
    if at["state"] != IDLE and begun:
        return queues["conv"][begun - 1].number
    waiting = [queues["conv"][begun].number] if begun < len(queues["conv"]) else []
    for engine in ("load", "vector", "store"):
        waiting += [c.number for c, end in zip(queues[engine], ends[engine], strict=True) if end > at[f"done_{engine}"]][:1]
    if waiting:
        return min(waiting)
    return max(queue[-1].number for queue in queues.values() if queue)  # the end of the program, while results drain


def _add_traffic(found: list[Layer], program: list[Command], owner: list[int], config: Config) -> None:
    """Adds the DDR bytes of each command, in whole beats. The bytes of the program count for the layers of its commands."""
    fetched = 0
    for command, index in zip(program, owner, strict=True):
        f, layer = command.f, found[index]
        if command.engine == "weight":
            layer["ddr_read_bytes"] += f.beats * f.repeat * BEAT_BYTES * (1 if f.ring else config.ports)
        elif command.engine in ("load", "store"):
            beats = -(-f.run * config.ci // BEAT_BYTES) * f.runs * f.blocks
            layer["ddr_read_bytes" if command.engine == "load" else "ddr_write_bytes"] += beats * BEAT_BYTES
        upto = (command.pc + 1) * WRITE_BYTES // BEAT_BYTES * BEAT_BYTES
        layer["ddr_read_bytes"] += upto - fetched
        fetched = upto
    end = -(-(program[-1].pc + 2) * WRITE_BYTES // BEAT_BYTES) * BEAT_BYTES  # includes the END write
    found[owner[-1]]["ddr_read_bytes"] += end - fetched


def weight_clocks(piece: ProgramPiece, brought: NDArray[Any]) -> list[tuple[int, int]]:
    """The clocks of the first and the last beat of each weight command, in program order. brought: array of `BROUGHT`.

    A column of a ring takes the beats of one command after another, so counting them tells whose they are. A beat of codes counts
    once, although the column gets two beats of weights. Books stay in the decoder: their clocks are those at which the codes behind
    them begin. RunError: there are fewer or more beats than the program asks for.
    """
    vector = piece.config.ports  # the bit of the vector ring's one column, above those of the array's
    taken = [brought["clock"][(brought["columns"] >> column & 1).astype(bool)] for column in range(vector + 1)]
    counts, books = [0] * (vector + 1), 0
    found: list[tuple[int, int]] = []
    for command in commands(piece.program):
        if command.engine != "weight":
            continue
        if command.f.code == BOOKS:
            books += 1
            continue
        columns = [vector] if command.f.ring else range(vector)
        spans = []
        for column in columns:
            first, counts[column] = counts[column], counts[column] + command.f.beats * command.f.repeat
            spans.append(taken[column][first : counts[column]])
        if not all(span.size == command.f.beats * command.f.repeat for span in spans):
            break
        first, last = int(min(span[0] for span in spans)), int(max(span[-1] for span in spans))
        found += [*[(first, first)] * books, (first, last)]
        books = 0
    if counts != [clocks.size for clocks in taken]:
        raise RunError(f"the weight rings took {[clocks.size for clocks in taken]} beats; the program asks for others")
    return found
