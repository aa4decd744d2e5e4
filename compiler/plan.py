"""Places, commands and program of lowered kernels; of a batch, in the way that is predicted to take the fewest clocks."""

from collections.abc import Mapping
from dataclasses import dataclass

from cnna.compiler import cost
from cnna.compiler.allocate import Allocation, allocate
from cnna.compiler.emit import emit
from cnna.compiler.hazards import add_waits
from cnna.compiler.kernels import Lowered, Stream
from cnna.compiler.schedule import Command, Context, schedule, stream_keys
from cnna.compiler.segment import cuts, segment
from cnna.compiler.weights import constant_segment
from cnna.host.errors import ModelError
from cnna.hw.config import Config

TRIED = 4  # cuts of a batch that are compiled and compared


@dataclass(frozen=True, eq=False)
class Plan:
    """A finished program, and what it was made from. cut: kernels that run image by image, 0 unless there is a batch."""

    lowered: Lowered
    allocation: Allocation
    commands: list[Command]
    program: bytes
    constants: bytes
    cut: int


def plan(lowered: Lowered, config: Config, name: str) -> Plan:
    """The quickest program that is found. ModelError: none fits, as `allocate` and `emit`."""
    streams = [part.stream for kernel in lowered.kernels for part in kernel.parts]
    constants, offsets = constant_segment(streams)
    known = dict(zip(streams, offsets, strict=True))
    found: list[tuple[int, Plan]] = []
    refused: ModelError | None = None

    def attempt(cut: int, apart: bool) -> None:
        nonlocal refused
        try:
            made = _plan(lowered, cut, apart, constants, known, config, name)
        except ModelError as error:  # the limits of one command may be met by another cut
            refused = refused or error
            return
        found.append((cost.total_cycles(cost.timeline(made.program, config)), made))

    for cut in cuts(lowered, config, TRIED):
        attempt(cut, apart=True)
    attempt(min(found, key=lambda item: item[0])[1].cut if found else 0, apart=False)
    if refused and not found:
        raise refused
    return min(found, key=lambda item: item[0])[1]


def _plan(
    lowered: Lowered, cut: int, apart: bool, constants: bytes, known: Mapping[Stream, int], config: Config, name: str
) -> Plan:
    """The program with that cut, its maps in regions apart or not."""
    cut_up = segment(lowered, cut)
    allocation = allocate(cut_up, config, name, apart)
    streams = {(kernel, part): known[cut_up.kernels[kernel].parts[part].stream] for kernel, part in stream_keys(cut_up)}
    plain = schedule(Context(cut_up, allocation, streams, config))
    commands = add_waits(plain, allocation.segments, config)
    return Plan(cut_up, allocation, commands, emit(commands), constants, cut)
