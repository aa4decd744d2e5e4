"""Commands of load and store: a box of whole rows between DDR and feature memory."""

from collections.abc import Iterator
from math import isqrt

from cnna.compiler.cost.cost import moving_clocks
from cnna.compiler.lower.layout import Box, Place
from cnna.compiler.plan.command import Access, Command, Context
from cnna.compiler.plan.walks import signed
from cnna.spec.config import Config
from cnna.spec.regmap import SEGMENTS, command_fields

LEAST_RUN = 16  # words of a run that a block is cut into: shorter ones are too many for their bursts


def whole_map(context: Context, engine: str, name: str, layer: int, tensor: str | None) -> Iterator[Command]:
    """Loads or stores a map, one command an image."""
    map_ = context.lowered.maps[name]
    box = Box(map_.images, (0, map_.blocks), (0, map_.height), (0, map_.width))
    return move(context, engine, name, box, context.allocation.features[name], layer, tensor)


def move(context: Context, engine: str, name: str, box: Box, place: Place, layer: int, tensor: str | None) -> Iterator[Command]:
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

    Runs go to the ports in turn, so that there should be one for each.
    """
    most, aligned = command_fields("load")["run"].limits[1], config.beat_words

    def clocks(run: int) -> float:
        return moving_clocks({"run": run, "runs": words // run, "fm_run": run, "blocks": blocks, "fm_block": words}, config)

    lengths = [run for n in range(1, isqrt(words) + 1) if words % n == 0 for run in (n, words // n)]
    legal = [run for run in lengths if run <= most and (run % aligned == 0 or run == words) and run >= min(words, LEAST_RUN)]
    return min(legal, key=lambda run: (clocks(run), -run))
