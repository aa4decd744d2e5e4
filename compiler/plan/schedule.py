"""Turns kernels and their places into commands, in an order that is correct if the commands run one by one.

The loads of a tile come first, then its weights, its pass and its stores. The engines' queues, with the waits of `hazards`, let
them overlap. `move` makes the commands of load and store, which move boxes of whole rows between DDR and feature memory.
`array_commands` and `vector_commands` make the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

from cnna.compiler.cost.cost import moving_clocks
from cnna.compiler.lower.kernels import ConvKernel, ConvPart, Kernel, Lowered, Part, Phase, VectorPart, phases, views_of
from cnna.compiler.lower.layout import Box, FeaturePlace
from cnna.compiler.plan.allocate import Allocation
from cnna.compiler.plan.array_commands import WEIGHT_RING, conv_commands
from cnna.compiler.plan.command import Access, PlanContext, PlannedCommand, signed
from cnna.compiler.plan.tile import Tile, box_of, staged_place, tiles
from cnna.compiler.plan.vector_commands import VECTOR_RING, newest_block, vector_commands
from cnna.spec.codebook import PLAIN
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.regmap import SEGMENTS, command_fields

LEAST_RUN = 16  # the fewest words of a run into which a block is cut, because shorter runs need too many bursts
KEPT_RUNS = 4096  # lengths that `joined_run` keeps: the plans of a network move the same boxes again and again


def schedule(context: PlanContext) -> list[PlannedCommand]:
    """All commands in program order."""
    lowered, allocation = context.lowered, context.allocation
    commands: list[PlannedCommand] = []
    last_writer = {kernel.dest.map: number for number, kernel in enumerate(lowered.kernels)}
    loads, stores = _ports(lowered, lowered.inputs, allocation), _ports(lowered, lowered.outputs, allocation)
    for number, kernel in enumerate(lowered.kernels):
        for name in loads:
            if allocation.lifetimes[name][0] == number:
                commands += whole_map(context, "load", name, kernel.layer, _tensor_of(lowered, name))
        commands += _known_commands(context, number, kernel)
        for name in stores:
            if last_writer[name] == number:
                commands += whole_map(context, "store", name, kernel.layer, _tensor_of(lowered, name))
    return commands


def _ports(lowered: Lowered, ports: Sequence[str], allocation: Allocation) -> list[str]:
    """The maps on chip that are ports, or single images of ports."""
    return [name for port in dict.fromkeys(ports) for name in allocation.features if lowered.whole(name) == port]


def _tensor_of(lowered: Lowered, map_: str) -> str | None:
    """The tensor of the graph that fills the whole map; None if there is none."""
    whole = lowered.whole(map_)
    return whole if whole in lowered.views else None


def _known_commands(context: PlanContext, number: int, kernel: Kernel) -> Sequence[PlannedCommand]:
    """As `_kernel_commands`, which make the same ones for a kernel that plans have in the same places and tiles."""
    allocation, tiling = context.allocation, context.allocation.tilings[number]
    cut = 0 if isinstance(kernel, ConvKernel) else newest_block(context.lowered, number, kernel)
    names = [view.map for view in views_of(kernel).values()]
    lie = [(context.lowered.maps[name], allocation.features.get(name), allocation.ddr.get(name)) for name in names]
    tiles = tiling.images, tiling.rows, tiling.blocks, *tiling.staging.items()
    streaming = [part.stream.unit_words > context.config.ring_words for part in kernel.parts]
    own = type(kernel), *vars(kernel).values(), *lie, *tiles, cut, *streaming
    if own not in context.known:
        context.known[own] = list(_kernel_commands(context, number, kernel, cut))
    return context.known[own]


def _kernel_commands(context: PlanContext, number: int, kernel: Kernel, cut: int) -> Iterator[PlannedCommand]:
    """The commands of one kernel, tile by tile. The copies of a staged operand are used in turn, and nothing is loaded twice.

    cut: as of `vector_commands`.
    """
    tiling, maps, config = context.allocation.tilings[number], context.lowered.maps, context.config
    turns: dict[str, int] = dict.fromkeys(tiling.staging, 0)
    held: dict[str, tuple[Box, FeaturePlace]] = {}
    load = kernel.table
    passes = _Passes.of(context, number, kernel, cut)
    for tile in tiles(kernel, tiling, maps[kernel.dest.map].height):
        places: dict[str, FeaturePlace] = {}
        for role, view in views_of(kernel).items():
            if role not in tiling.staging:
                places[role] = context.allocation.features[view.map]
                continue
            box = box_of(kernel, role, tile, maps, config.chunk_blocks)
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
        yield from _passes(context, passes, tile, places, load)
        load = False
        if "dest" in tiling.staging:
            box = held["dest"][0]
            yield from move(context, "store", kernel.dest.map, box, places["dest"], kernel.layer, kernel.tensor)


@dataclass(frozen=True, eq=False)
class _Passes:
    """What all tiles of a kernel have in common. streams: where each part's stream lies, by `id`. cut: as of `vector_commands`."""

    kernel: Kernel
    streams: Mapping[int, int]
    cut: int
    phases: Mapping[Phase, tuple[Part, ...]]

    @classmethod
    def of(cls, context: PlanContext, number: int, kernel: Kernel, cut: int) -> "_Passes":
        """Of kernel `number`."""
        streams = {id(part): context.streams[number, index] for index, part in enumerate(kernel.parts)}
        return cls(kernel, streams, cut, phases(kernel, context.lowered.maps[kernel.dest.map]))


def _passes(
    context: PlanContext, common: _Passes, tile: Tile, places: Mapping[str, FeaturePlace], load: bool
) -> Iterator[PlannedCommand]:
    """The engine's commands of one tile, part by part. load: the first one takes the kernel's table.

    The commands of a kernel follow each other, so the engine keeps the table until the last of them.
    """
    kernel, streams = common.kernel, common.streams
    for phase, parts in common.phases.items():
        own = Tile(tile.images, phase.rows_within(tile.rows), tile.blocks)
        if own.rows[0] >= own.rows[1]:
            continue
        for part in parts:
            if isinstance(kernel, ConvKernel) and isinstance(part, ConvPart):
                made = list(conv_commands(context, kernel, part, phase, streams[id(part)], own, places, load))
            else:
                assert not isinstance(kernel, ConvKernel)
                assert isinstance(part, VectorPart)
                made = list(vector_commands(context, kernel, part, phase, streams[id(part)], own, common.cut, places, load))
            if load and made and not part.stream.table_words:  # the tile does not touch the part behind the table
                yield _table(context.config, kernel, phase, streams)
            load = load and not made
            yield from made


def _table(config: Config, kernel: Kernel, phase: Phase, streams: Mapping[int, int]) -> PlannedCommand:
    """Brings a kernel's table alone, from the front of the stream of one of its parts. streams: where each part's stream lies."""
    part = next(part for part in kernel.parts if part.stream.table_words)
    array = isinstance(kernel, ConvKernel)
    stripe = config.stripe_bytes if array else config.vector_word_bytes
    fields = {
        "ring": WEIGHT_RING if array else VECTOR_RING,
        "seg": SEGMENTS.index("constant"),
        "ddr": streams[id(part)],
        "port": part.stream.length,
        "code": PLAIN,
        "beats": part.stream.table_words * stripe // BEAT_BYTES,
        "repeat": 1,
    }
    return PlannedCommand("weight", fields, phase.layer, None, (0, 0, 0, 0))


def stream_keys(lowered: Lowered) -> Sequence[tuple[int, int]]:
    """(kernel, part) of every stream, in the order of the kernels."""
    return [(number, part) for number, kernel in enumerate(lowered.kernels) for part in range(len(kernel.parts))]


def whole_map(context: PlanContext, engine: str, name: str, layer: int, tensor: str | None) -> Iterator[PlannedCommand]:
    """Loads or stores a map, with one command for each image."""
    map_ = context.lowered.maps[name]
    box = Box(map_.images, (0, map_.blocks), (0, map_.height), (0, map_.width))
    return move(context, engine, name, box, context.allocation.features[name], layer, tensor)


def move(
    context: PlanContext, engine: str, name: str, box: Box, place: FeaturePlace, layer: int, tensor: str | None
) -> Iterator[PlannedCommand]:
    """Loads or stores a box of whole rows, with one command for each image."""
    config, ddr, width = context.config, context.allocation.ddr[name], box.columns[1]
    rows, blocks = box.rows[1] - box.rows[0], box.blocks[1] - box.blocks[0]
    run, step, ddr_step = width, place.pitch, ddr.row_bytes
    if place.pitch == width and ddr.row_bytes == width * config.ci:
        run = step = joined_run(rows * width, blocks, config)
        ddr_step = run * config.ci
    for image in range(*box.images):
        part = Box((image, image + 1), box.blocks, box.rows, box.columns)
        fields = {
            "seg": SEGMENTS.index(ddr.segment),
            "ddr": ddr.address(image, box.blocks[0], box.rows[0]),
            "fm": place.address(image, box.blocks[0], box.rows[0], 0),
            "run": run,
            "runs": rows * width // run,
            "ddr_run": ddr_step,
            "fm_run": step,
            "blocks": blocks,
            "ddr_block": ddr.block_bytes,
            "fm_block": signed(place.block_words),
        }
        inside, outside = (Access(place, part),), (Access(ddr, part),)
        reads, writes = (outside, inside) if engine == "load" else (inside, outside)
        origin = (image, box.blocks[0], box.rows[0], 0)
        yield PlannedCommand(engine, fields, layer, tensor, origin, 1, reads, writes)


@lru_cache(KEPT_RUNS)
def joined_run(words: int, blocks: int, config: Config) -> int:
    """The length of a run if the `words` of a block are contiguous on both sides: of those with the fewest clocks, the longest.

    Runs go to the ports in turn, so there should be one for each port.
    """
    most, aligned = command_fields("load")["run"].limits[1], config.beat_words

    def clocks(run: int) -> float:
        return moving_clocks({"run": run, "runs": words // run, "fm_run": run, "blocks": blocks, "fm_block": words}, config)

    lengths = [run for n in range(1, isqrt(words) + 1) if words % n == 0 for run in (n, words // n)]
    legal = [run for run in lengths if run <= most and (run % aligned == 0 or run == words) and run >= min(words, LEAST_RUN)]
    return min(legal, key=lambda run: (clocks(run), -run))
