"""Turns kernels and their places into commands, in an order that is right when they run one by one.

Loads, weights, the pass itself and stores of a tile follow each other; the engines' queues and `hazards`' waits let them overlap.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt

from cnna.compiler.allocate import Allocation
from cnna.compiler.cost import moving_clocks
from cnna.compiler.kernels import (
    ConvKernel,
    ConvPart,
    Kernel,
    Lowered,
    Range,
    VectorKernel,
    VectorPart,
)
from cnna.compiler.layout import Box, DdrPlace, Place
from cnna.compiler.tile import Tile, box_of, staged_place, tiles, views_of
from cnna.compiler.walks import plane, shift, signed, source
from cnna.hw.config import BEAT_BYTES, Config
from cnna.hw.regmap import SEGMENTS, VECTOR_OPS, command_fields

WEIGHT_RING, VECTOR_RING = 0, 1
LEAST_RUN = 16  # words of a run that a block is cut into: shorter ones are too many for their bursts


@dataclass(frozen=True)
class Access:
    """Words or beats that a command reads or writes: all of them in every unit, or `unit_blocks` blocks of the box a unit."""

    place: Place | DdrPlace
    box: Box
    unit_blocks: int = 0


@dataclass(frozen=True)
class Command:
    """One command before its waits. fields as `regmap.command_fields`; origin: image, block, row, column of `tensor`."""

    engine: str
    fields: Mapping[str, int]
    layer: int
    tensor: str | None
    origin: tuple[int, int, int, int]
    units: int = 0
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()


@dataclass(frozen=True)
class Context:
    """What every command is made from. streams: offset in the constant segment of each (kernel, part)."""

    lowered: Lowered
    allocation: Allocation
    streams: Mapping[tuple[int, int], int]
    config: Config


def schedule(context: Context) -> list[Command]:
    """All commands in program order."""
    lowered, allocation = context.lowered, context.allocation
    commands: list[Command] = []
    last_writer = {kernel.dest.map: number for number, kernel in enumerate(lowered.kernels)}
    loads, stores = _ports(lowered, lowered.inputs, allocation), _ports(lowered, lowered.outputs, allocation)
    for number, kernel in enumerate(lowered.kernels):
        for name in loads:
            if allocation.lifetimes[name][0] == number:
                commands += _whole_map(context, "load", name, kernel.layer, _tensor_of(lowered, name))
        commands += _kernel_commands(context, number, kernel)
        for name in stores:
            if last_writer[name] == number:
                commands += _whole_map(context, "store", name, kernel.layer, _tensor_of(lowered, name))
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
                yield from _move(context, "load", view.map, box, places[role], kernel.layer, tensor)
        if isinstance(kernel, ConvKernel):
            for index, chunks in enumerate(kernel.parts):
                yield from _conv_commands(context, kernel, chunks, context.streams[number, index], tile, places)
        else:
            for index, rectangle in enumerate(kernel.parts):
                cut = _newest_block(context.lowered, number, kernel)
                yield from _vector_commands(context, kernel, rectangle, context.streams[number, index], tile, cut, places)
        if "dest" in tiling.staging:
            box = held["dest"][0]
            yield from _move(context, "store", kernel.dest.map, box, places["dest"], kernel.layer, kernel.tensor)


# --- load and store ---


def _whole_map(context: Context, engine: str, name: str, layer: int, tensor: str | None) -> Iterator[Command]:
    map_ = context.lowered.maps[name]
    box = Box(map_.images, (0, map_.blocks), (0, map_.height), (0, map_.width))
    return _move(context, engine, name, box, context.allocation.features[name], layer, tensor)


def _move(context: Context, engine: str, name: str, box: Box, place: Place, layer: int, tensor: str | None) -> Iterator[Command]:
    """Loads or stores a box of whole rows, one command an image."""
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
        yield Command(engine, fields, layer, tensor, origin, 1, reads, writes)


def joined_run(words: int, blocks: int, config: Config) -> int:
    """Words of a run where a block's `words` lie together on both sides: the fewest clocks, then the longest.

    Runs go to the ports in turn, so that there should be one for each, and their words in different banks.
    """
    most, aligned = command_fields("load")["run"].limits[1], config.beat_words

    def clocks(run: int) -> float:
        return moving_clocks({"run": run, "runs": words // run, "fm_run": run, "blocks": blocks, "fm_block": words}, config)

    lengths = [run for n in range(1, isqrt(words) + 1) if words % n == 0 for run in (n, words // n)]
    legal = [run for run in lengths if run <= most and (run % aligned == 0 or run == words) and run >= min(words, LEAST_RUN)]
    return min(legal, key=lambda run: (clocks(run), -run))


# --- the array ---


def _conv_commands(
    context: Context, kernel: ConvKernel, part: ConvPart, stream: int, tile: Tile, places: Mapping[str, Place]
) -> Iterator[Command]:
    """A part's chunks within a tile: one weight stream and one pass, or a pass a chunk if its weights outgrow the ring."""
    config = context.config
    first = max(part.first_chunk, tile.blocks[0] // config.chunk_blocks)
    last = min(part.first_chunk + part.chunks, -(-tile.blocks[1] // config.chunk_blocks))
    if first >= last:
        return
    width = context.lowered.maps[kernel.dest.map].width
    pixels = (tile.images[1] - tile.images[0]) * (tile.rows[1] - tile.rows[0]) * width
    groups, unit = -(-pixels // config.pix), part.stream.unit_words
    streaming = unit > config.ring_words and groups > 1
    stripe = config.stripe_bytes

    def weights(chunk: int, skipped: int, words: int, repeat: int) -> Command:
        fields = {
            "ring": WEIGHT_RING,
            "seg": SEGMENTS.index("constant"),
            "ddr": stream + ((chunk - part.first_chunk) * unit + skipped) * stripe,
            "port": part.stream.data.shape[1],
            "beats": words * stripe // BEAT_BYTES,
            "repeat": repeat,
        }
        return Command("weight", fields, kernel.layer, None, (0, 0, 0, 0))

    if not streaming:
        yield weights(first, 0, (last - first) * unit, 1)
        yield _conv(context, kernel, part, tile, (first, last), 0, places)
        return
    for chunk in range(first, last):  # one at a time: the sequencer must not stand before a full ring with the pass behind it
        head = part.stream.param_words
        yield weights(chunk, 0, head, 1)
        yield weights(chunk, head, unit - head, groups)
        yield _conv(context, kernel, part, tile, (chunk, chunk + 1), 1, places)


def _conv(
    context: Context, kernel: ConvKernel, part: ConvPart, tile: Tile, chunks: Range, stream: int, places: Mapping[str, Place]
) -> Command:
    config, maps = context.config, context.lowered.maps
    step = config.chunk_blocks
    blocks = (max(tile.blocks[0], chunks[0] * step), min(tile.blocks[1], chunks[1] * step))
    output = Box(tile.images, shift(blocks, kernel.dest.block), tile.rows, (0, maps[kernel.dest.map].width))
    first = kernel.source.block + part.first_block
    walk, source_box = source(kernel, maps, kernel.source, (first, first + part.blocks), output, places["source"])
    add = kernel.add
    fields = {
        **walk,
        "blocks": part.blocks,
        "chunks": chunks[1] - chunks[0],
        "stream": stream,
        "mid_zero": kernel.mid.zero,
        "mid_clamp_low": kernel.mid.low,
        "mid_clamp_high": kernel.mid.high,
        **plane("dst", places["dest"], output),
        "dst_blocks": blocks[1] - blocks[0],
        "res_enable": int(kernel.second is not None),
        "add_a": add.factor_a if add else 2,
        "add_b": add.factor_b if add else 0,
        "add_offset": add.offset if add else 0,
        "add_shift": add.shift if add else 1,
        "out_zero": kernel.out.zero,
        "out_clamp_low": kernel.out.low,
        "out_clamp_high": kernel.out.high,
    }
    reads = [Access(places["source"], source_box)]
    if kernel.second is not None:
        residual = Box(tile.images, shift(blocks, kernel.second.block), tile.rows, output.columns)
        fields |= plane("res", places["second"], residual)
        reads.append(Access(places["second"], residual, step))
    writes = (Access(places["dest"], output, step),)
    origin = _origin(kernel, output)
    return Command("conv", fields, kernel.layer, kernel.tensor, origin, chunks[1] - chunks[0], tuple(reads), writes)


# --- the vector engine ---


def _newest_block(lowered: Lowered, number: int, kernel: VectorKernel) -> int:
    """The block of the kernel from which on its source is the work of the last kernel that wrote there; 0: all of it is.

    0 for a uniform kernel too: a second command would bring its parameters a second time, behind the array's weights.
    """
    source = kernel.source
    if kernel.uniform:
        return 0
    for other in reversed(lowered.kernels[:number]):
        if other.dest.map == source.map and other.dest.block < source.block + source.blocks:
            return max(other.dest.block - source.block, 0) if other.dest.block + other.dest.blocks > source.block else 0
    return 0


def _vector_commands(
    context: Context, kernel: VectorKernel, part: VectorPart, stream: int, tile: Tile, cut: int, places: Mapping[str, Place]
) -> Iterator[Command]:
    """A part's rectangle within a tile; image by image or block by block where the two operands' steps differ.

    What lies before block `cut` has been there for longer, so that it has commands of its own, which need not wait for the rest.
    """
    rows = (max(part.rows[0], tile.rows[0]), min(part.rows[1], tile.rows[1]))
    if rows[0] >= rows[1]:
        return
    a, b = places["source"], places.get("second", places["source"])
    for images in _split(tile.images, a.image_words == b.image_words):
        for blocks in _cut(tile.blocks, cut) if a.block_words == b.block_words else _split(tile.blocks, False):
            yield _vector_weights(context, kernel, part, stream, blocks)
            yield _vector(context, kernel, part, Tile(images, rows, blocks), places)


def _split(span: Range, together: bool) -> list[Range]:
    return [span] if together else [(n, n + 1) for n in range(*span)]


def _cut(span: Range, at: int) -> list[Range]:
    return [(span[0], at), (at, span[1])] if span[0] < at < span[1] else [span]


def _vector_weights(context: Context, kernel: VectorKernel, part: VectorPart, stream: int, blocks: Range) -> Command:
    unit, count = part.stream.unit_words, 1 if kernel.uniform else blocks[1] - blocks[0]
    fields = {
        "ring": VECTOR_RING,
        "seg": SEGMENTS.index("constant"),
        "ddr": stream + (0 if kernel.uniform else blocks[0] * unit * BEAT_BYTES),
        "port": part.stream.data.shape[1],
        "beats": unit * count,
        "repeat": 1,
    }
    return Command("weight", fields, kernel.layer, None, (0, 0, 0, 0))


def _vector(context: Context, kernel: VectorKernel, part: VectorPart, tile: Tile, places: Mapping[str, Place]) -> Command:
    config, maps = context.config, context.lowered.maps
    output = Box(tile.images, shift(tile.blocks, kernel.dest.block), tile.rows, part.columns)
    walk, source_box = source(kernel, maps, kernel.source, shift(tile.blocks, kernel.source.block), output, places["source"])
    reads = [Access(places["source"], source_box, config.chunk_blocks)]
    if kernel.second is not None:
        other = Box(tile.images, shift(tile.blocks, kernel.second.block), tile.rows, part.columns)
        start = places["second"].address(other.images[0], other.blocks[0], other.rows[0], other.columns[0])
        walk |= {"kernel_width": 2, "src_kx": signed(start - walk["src"]), "stride_dilation_x": 0}
        reads.append(Access(places["second"], other, config.chunk_blocks))
    blocks = tile.blocks[1] - tile.blocks[0]
    fields = {
        "op": VECTOR_OPS.index(kernel.op),
        **walk,
        "blocks": blocks,
        "uniform": int(kernel.uniform),
        "add_b": kernel.factor_b,
        "out_zero": kernel.out.zero,
        "out_clamp_low": kernel.out.low,
        "out_clamp_high": kernel.out.high,
        **plane("dst", places["dest"], output),
    }
    writes = (Access(places["dest"], output, config.chunk_blocks),)
    units = -(-blocks // config.chunk_blocks)
    return Command("vector", fields, kernel.layer, kernel.tensor, _origin(kernel, output), units, tuple(reads), writes)


def _origin(kernel: Kernel, output: Box) -> tuple[int, int, int, int]:
    block = output.blocks[0] - kernel.dest.block + kernel.tensor_block
    return output.images[0], block, output.rows[0], output.columns[0]


def stream_keys(lowered: Lowered) -> Sequence[tuple[int, int]]:
    """(kernel, part) of every stream, in the order of the kernels."""
    return [(number, part) for number, kernel in enumerate(lowered.kernels) for part in range(len(kernel.parts))]
