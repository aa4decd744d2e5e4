"""Makes the commands of the array: for each kernel part of a convolution and each tile, a weight stream and a pass."""

from collections.abc import Iterator, Mapping

from cnna.compiler.lower.kernels import ConvKernel, ConvPart, Phase, Range
from cnna.compiler.lower.layout import Box, FeaturePlace
from cnna.compiler.plan.command import Access, PlanContext, PlannedCommand, place_in_tensor, plane, shift, source, spread
from cnna.compiler.plan.tile import Tile
from cnna.spec.codebook import BOOKS, CODES, PLAIN, word_beats
from cnna.spec.config import BEAT_BYTES
from cnna.spec.regmap import SEGMENTS

WEIGHT_RING = 0


def conv_commands(
    context: PlanContext,
    kernel: ConvKernel,
    part: ConvPart,
    phase: Phase,
    stream: int,
    tile: Tile,
    places: Mapping[str, FeaturePlace],
    load: bool,
) -> Iterator[PlannedCommand]:
    """The commands for the chunks of a part in a tile. The rows of the tile are those of the phase.

    This is one weight stream and one pass. If the weights of a chunk exceed the ring, or come as codes, each chunk has a pass of
    its own.

    load: the first of these commands takes the kernel's table. It lies in front of the part's stream, or `schedule` brings it.
    """
    config, table = context.config, part.stream.table_words
    first = max(part.first_chunk, tile.blocks[0] // config.chunk_blocks)
    last = min(part.first_chunk + part.chunks, -(-tile.blocks[1] // config.chunk_blocks))
    if first >= last:
        return
    pixels = (tile.images[1] - tile.images[0]) * (tile.rows[1] - tile.rows[0]) * phase.size[1]
    groups, unit = -(-pixels // config.pix), part.stream.unit_words
    streaming = unit > config.ring_words and groups > 1
    word, head, books = config.stripe_bytes // BEAT_BYTES, part.stream.param_words, part.stream.book_beats
    code_beats = word_beats(config) if books else word
    unit_beats = head * word + books + (unit - head) * code_beats

    assert not load or first == part.first_chunk, f"the table of '{kernel.name}' lies elsewhere"

    def weights(chunk: int, skipped: int, beats: int, repeat: int = 1, code: int = PLAIN) -> PlannedCommand:
        """Brings beats of the part's stream, `skipped` beats behind a chunk's first."""
        start = table * word + (chunk - part.first_chunk) * unit_beats + skipped
        if load and start == table * word:
            start, beats = 0, table * word + beats
        fields = {
            "ring": WEIGHT_RING,
            "seg": SEGMENTS.index("constant"),
            "ddr": stream + start * BEAT_BYTES,
            "port": part.stream.length,
            "beats": beats,
            "repeat": repeat,
            "code": code,
        }
        return PlannedCommand("weight", fields, phase.layer, None, (0, 0, 0, 0))

    if not streaming and not books:
        yield weights(first, 0, (last - first) * unit_beats)
        yield _conv(context, kernel, part, phase, tile, (first, last), 0, places, load)
        return
    for chunk in range(first, last):  # one by one: the pass that empties the ring must come before the stream of the next chunk
        yield weights(chunk, 0, head * word)
        if books:
            yield weights(chunk, head * word, books, code=BOOKS)
        behind = head * word + books
        yield weights(chunk, behind, unit_beats - behind, groups if streaming else 1, CODES if books else PLAIN)
        yield _conv(context, kernel, part, phase, tile, (chunk, chunk + 1), int(streaming), places, load and chunk == first)


def _conv(
    context: PlanContext,
    kernel: ConvKernel,
    part: ConvPart,
    phase: Phase,
    tile: Tile,
    chunks: Range,
    stream: int,
    places: Mapping[str, FeaturePlace],
    load: bool,
) -> PlannedCommand:
    config, maps = context.config, context.lowered.maps
    step = config.chunk_blocks
    blocks = (max(tile.blocks[0], chunks[0] * step), min(tile.blocks[1], chunks[1] * step))
    output = Box(tile.images, shift(blocks, kernel.dest.block), tile.rows, (0, phase.size[1]))
    written, first = spread(phase, output), kernel.source.block + part.first_block
    read = maps[kernel.source.map]
    walk, source_box = source(phase.window, kernel.pad, read, (first, first + part.blocks), output, places["source"])
    fields = {
        **walk,
        "blocks": config.sets(part.blocks),
        "chunks": chunks[1] - chunks[0],
        "stream": stream,
        "mid_zero": kernel.mid.zero,
        "mid_clamp_low": kernel.mid.low,
        "mid_clamp_high": kernel.mid.high,
        "table_use": int(kernel.table),
        "table_load": int(load),
        **plane("dst", places["dest"], written),
        "dst_blocks": blocks[1] - blocks[0],
        **_second_rounding(kernel),
    }
    reads = [Access(places["source"], source_box)]
    if kernel.second is not None:
        residual = Box(tile.images, shift(blocks, kernel.second.block), tile.rows, output.columns)
        fields |= plane("res", places["second"], residual)
        reads.append(Access(places["second"], residual, step))
    writes = (Access(places["dest"], written, step),)
    units = chunks[1] - chunks[0]
    origin, place_step = place_in_tensor(kernel, phase, output)
    return PlannedCommand("conv", fields, phase.layer, phase.tensor or None, origin, units, tuple(reads), writes, place_step)


def _second_rounding(kernel: ConvKernel) -> dict[str, int]:
    """The fields of the residual add and the output stage. Without an add, x * 2 / 2 keeps every value."""
    add = kernel.add
    return {
        "res_enable": int(kernel.second is not None),
        "add_a": add.factor_a if add else 2,
        "add_b": add.factor_b if add else 0,
        "add_offset": add.offset if add else 0,
        "add_shift": add.shift if add else 1,
        "out_zero": kernel.out.zero,
        "out_clamp_low": kernel.out.low,
        "out_clamp_high": kernel.out.high,
    }
