"""Turns kernels and their places into commands, in an order that is correct when they run one by one.

Loads, weights, the pass itself and stores of a tile follow each other; the engines' queues and `hazards`' waits let them overlap.
`load_store`, `array_commands` and `vector_commands` make the commands.
"""

from collections.abc import Iterator, Sequence

from cnna.compiler.lower.kernels import ConvKernel, Kernel, Lowered
from cnna.compiler.lower.layout import Box, Place
from cnna.compiler.plan.allocate import Allocation
from cnna.compiler.plan.array_commands import conv_commands
from cnna.compiler.plan.command import Command, Context
from cnna.compiler.plan.load_store import move, whole_map
from cnna.compiler.plan.tile import box_of, staged_place, tiles, views_of
from cnna.compiler.plan.vector_commands import newest_block, vector_commands


def schedule(context: Context) -> list[Command]:
    """All commands in program order."""
    lowered, allocation = context.lowered, context.allocation
    commands: list[Command] = []
    last_writer = {kernel.dest.map: number for number, kernel in enumerate(lowered.kernels)}
    loads, stores = _ports(lowered, lowered.inputs, allocation), _ports(lowered, lowered.outputs, allocation)
    for number, kernel in enumerate(lowered.kernels):
        for name in loads:
            if allocation.lifetimes[name][0] == number:
                commands += whole_map(context, "load", name, kernel.layer, _tensor_of(lowered, name))
        commands += _kernel_commands(context, number, kernel)
        for name in stores:
            if last_writer[name] == number:
                commands += whole_map(context, "store", name, kernel.layer, _tensor_of(lowered, name))
    return commands


def _ports(lowered: Lowered, ports: Sequence[str], allocation: Allocation) -> list[str]:
    """The maps on chip that are ports, or images of them."""
    return [name for port in dict.fromkeys(ports) for name in allocation.features if lowered.whole(name) == port]


def _tensor_of(lowered: Lowered, map_: str) -> str | None:
    """The graph's tensor that a map is the whole of, for its images."""
    whole = lowered.whole(map_)
    return whole if whole in lowered.views else None


def _kernel_commands(context: Context, number: int, kernel: Kernel) -> Iterator[Command]:
    """The commands of one kernel, tile by tile; copies of staged operands take turns, and what is there is not loaded again."""
    tiling, maps, config = context.allocation.tilings[number], context.lowered.maps, context.config
    turns: dict[str, int] = dict.fromkeys(tiling.staging, 0)
    held: dict[str, tuple[Box, Place]] = {}
    for tile in tiles(kernel, tiling, maps[kernel.dest.map].height):
        places: dict[str, Place] = {}
        for role, view in views_of(kernel).items():
            if role not in tiling.staging:
                places[role] = context.allocation.features[view.map]
                continue
            box = box_of(kernel, role, tile, maps[view.map], config.chunk_blocks)
            if role != "dest" and role in held and held[role][0] == box:
                places[role] = held[role][1]
                continue
            bases = tiling.staging[role]
            places[role] = staged_place(bases[turns[role] % len(bases)], box, maps[view.map])
            turns[role] += 1
            held[role] = (box, places[role])
            if role != "dest":
                tensor = _tensor_of(context.lowered, view.map)
                yield from move(context, "load", view.map, box, places[role], kernel.layer, tensor)
        if isinstance(kernel, ConvKernel):
            for index, chunks in enumerate(kernel.parts):
                yield from conv_commands(context, kernel, chunks, context.streams[number, index], tile, places)
        else:
            for index, rectangle in enumerate(kernel.parts):
                cut = newest_block(context.lowered, number, kernel)
                yield from vector_commands(context, kernel, rectangle, context.streams[number, index], tile, cut, places)
        if "dest" in tiling.staging:
            box = held["dest"][0]
            yield from move(context, "store", kernel.dest.map, box, places["dest"], kernel.layer, kernel.tensor)


def stream_keys(lowered: Lowered) -> Sequence[tuple[int, int]]:
    """(kernel, part) of every stream, in the order of the kernels."""
    return [(number, part) for number, kernel in enumerate(lowered.kernels) for part in range(len(kernel.parts))]
