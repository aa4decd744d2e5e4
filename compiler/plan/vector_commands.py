"""Makes the commands of the vector engine: for each rectangle of a kernel and each tile, a parameter stream and a pass."""

from collections.abc import Iterator, Mapping

from cnna.compiler.lower.kernels import Lowered, Phase, Range, VectorKernel, VectorPart
from cnna.compiler.lower.layout import Box, FeaturePlace
from cnna.compiler.plan.command import (
    Access,
    PlanContext,
    PlannedCommand,
    distance,
    place_in_tensor,
    plane,
    shift,
    signed,
    source,
    spread,
)
from cnna.compiler.plan.tile import Tile
from cnna.spec.codebook import PLAIN
from cnna.spec.config import Config
from cnna.spec.regmap import SEGMENTS, VECTOR_OPS

VECTOR_RING = 1


def newest_block(lowered: Lowered, number: int, kernel: VectorKernel) -> int:
    """The first block of a kernel's source that the last kernel to write there has written. 0 if that kernel wrote all blocks.

    It is 0 for a uniform kernel too, because a second command would fetch its parameters again, behind the array's weights.
    """
    source = kernel.source
    if kernel.uniform:
        return 0
    for other in reversed(lowered.kernels[:number]):
        if other.dest.map == source.map and other.dest.block < source.block + source.blocks:
            return max(other.dest.block - source.block, 0) if other.dest.block + other.dest.blocks > source.block else 0
    return 0


def vector_commands(
    context: PlanContext,
    kernel: VectorKernel,
    part: VectorPart,
    phase: Phase,
    stream: int,
    tile: Tile,
    cut: int,
    places: Mapping[str, FeaturePlace],
    load: bool,
) -> Iterator[PlannedCommand]:
    """The commands for a part's rectangle within a tile. The rows of the tile are those of the phase.

    If the steps of the two operands differ, each image or each block has a command of its own. A flat operand has any step for
    blocks, but none for images. The blocks before `cut` were written earlier. They get commands of their own, which need not wait
    for the other blocks.

    load: the first of these commands takes the kernel's table. It lies in front of the part's stream, or `schedule` brings it.
    """
    rows = (max(part.rows[0], tile.rows[0]), min(part.rows[1], tile.rows[1]))
    if rows[0] >= rows[1]:
        return
    a, b = places["source"], places.get("second", places["source"])
    for images in _split(tile.images, a.image_words == b.image_words and not kernel.flat):
        other = kernel.second or kernel.source
        turns = (kernel.source.block - other.block) % context.config.depth == 0  # both change the deck at the same blocks
        together = turns and (kernel.flat or a.block_words == b.block_words)
        for blocks in _cut(tile.blocks, cut) if together else _split(tile.blocks, False):
            yield _vector_weights(context.config, kernel, part, phase, stream, blocks, load)
            yield _vector(context, kernel, part, phase, Tile(images, rows, blocks), places, load)
            load = False


def _split(range_: Range, together: bool) -> list[Range]:
    return [range_] if together else [(n, n + 1) for n in range(*range_)]


def _cut(range_: Range, at: int) -> list[Range]:
    return [(range_[0], at), (at, range_[1])] if range_[0] < at < range_[1] else [range_]


def _vector_weights(
    config: Config, kernel: VectorKernel, part: VectorPart, phase: Phase, stream: int, blocks: Range, load: bool
) -> PlannedCommand:
    unit, count = part.stream.unit_words, blocks[1] - blocks[0]
    spared = part.stream.param_words * (count - 1) if kernel.uniform else 0
    table, skipped = part.stream.table_words, 0 if kernel.uniform else blocks[0] * unit  # uniform blocks have equal words
    assert not (load and skipped), f"the table of '{kernel.name}' lies elsewhere"
    fields = {
        "ring": VECTOR_RING,
        "seg": SEGMENTS.index("constant"),
        "ddr": stream + (0 if load else table + skipped) * config.vector_word_bytes,
        "port": part.stream.length,
        "code": PLAIN,
        "beats": (unit * count - spared + (table if load else 0)) * config.vector_word_beats,
        "repeat": 1,
    }
    return PlannedCommand("weight", fields, phase.layer, None, (0, 0, 0, 0))


def _vector(
    context: PlanContext,
    kernel: VectorKernel,
    part: VectorPart,
    phase: Phase,
    tile: Tile,
    places: Mapping[str, FeaturePlace],
    load: bool,
) -> PlannedCommand:
    config, maps = context.config, context.lowered.maps
    output = Box(tile.images, shift(tile.blocks, kernel.dest.block), tile.rows, part.columns)
    written, read = spread(phase, output), shift(tile.blocks, kernel.source.block)
    walk, source_box = source(phase.window, kernel.pad, maps[kernel.source.map], read, output, places["source"])
    reads = [Access(places["source"], source_box, config.chunk_blocks)]
    if kernel.second is not None:
        rows, columns = ((0, 1), (0, 1)) if kernel.flat else (tile.rows, part.columns)
        other = Box(tile.images, shift(tile.blocks, kernel.second.block), rows, columns)
        walk |= _two_operands(kernel, walk["src"], places["second"], other, config)
        reads.append(Access(places["second"], other, config.chunk_blocks))
    blocks = tile.blocks[1] - tile.blocks[0]
    fields = {
        "op": VECTOR_OPS.index(kernel.op),
        **walk,
        "blocks": blocks,
        "uniform": int(kernel.uniform),
        "table_use": int(kernel.table),
        "table_load": int(load),
        "add_b": kernel.factor_b,
        "b_zero": kernel.zero,
        "b_flat": int(kernel.flat),
        "b_block": signed(places["second"].block_words) if kernel.flat else 0,
        "out_zero": kernel.out.zero,
        "out_clamp_low": kernel.out.low,
        "out_clamp_high": kernel.out.high,
        **plane("dst", places["dest"], written),
    }
    fields |= _window(fields, part.apart, config)
    writes = (Access(places["dest"], written, config.chunk_blocks),)
    units = -(-blocks // config.chunk_blocks)
    origin, step = place_in_tensor(kernel, phase, output)
    return PlannedCommand("vector", fields, phase.layer, phase.tensor or None, origin, units, tuple(reads), writes, step)


def _window(fields: Mapping[str, int], apart: int, config: Config) -> dict[str, int]:
    """How a command takes several taps a step. Unless its words lie evenly apart all through, each row begins with a new group."""
    image = fields["src_image"] if fields["images"] > 1 else 0  # lanes behind the last pixel of one image have words as well
    even = fields["src_row"] == 0 and image == 0
    width = fields["out_width"]
    more = -width % config.pix if apart and not even else 0
    found = {"window_apart": apart, "window_columns": width if more else 0, "out_width": width + more, "src_image": image}
    return found | {f"{name}_row": signed(fields[f"{name}_row"] - more * fields[f"{name}_x"]) for name in ("src", "dst")}


def _two_operands(kernel: VectorKernel, source: int, place: FeaturePlace, second: Box, config: Config) -> dict[str, int]:
    """Tap 0 at the first operand, tap 1 at the other. source: the address of the first word of the kernel's source."""
    start = place.address(second.images[0], second.blocks[0], second.rows[0], second.columns[0])
    first, other = (start, source) if kernel.flat else (source, start)
    return {"kernel_width": 2, "src": first, "src_kx": distance(first, other, config), "stride_dilation_x": 0}
