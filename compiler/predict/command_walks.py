"""What a command of the array or the vector engine takes at least: the clocks of its groups, and the latencies around them.

`predict` simulates commands with these figures, and `least_left` adds them up.
"""

from typing import Final

import numpy as np

from cnna.compiler.cost.engine_steps import Fields
from cnna.compiler.predict.bank_clocks import WALK, WRITES, walk_clocks, write_clocks
from cnna.compiler.predict.known_stretches import KnownStretches, WalkGroups
from cnna.spec.config import Config

START_CLOCKS: Final = 130  # from start until the program's first write takes effect
READ_CLOCKS = {"conv": 19, "vector": 14}  # from the clock at which a wait is met to the first step
WRITE_CLOCKS = {"conv": 44, "vector": 39}  # from a unit's last step until other engines see it, besides the cascades' clocks
GROUPED = tuple(dict.fromkeys((*WALK, *WRITES)))  # the fields on which `walk_groups` depends


def walk_groups(fields: Fields, blocks: int, made: int, config: Config, known: KnownStretches) -> WalkGroups:
    """The groups of a walk: of so many blocks that are read and written. Many tiles and layers have equal ones.

    A group takes one clock a step, or longer if its reads or the writes of its results need more. known: has them, or gets them.
    """
    key = blocks, made, *[fields.get(name, 0) for name in GROUPED]
    found = known.groups.get(key)
    if found is None:
        reads, writes = walk_clocks(fields, config), write_clocks(fields, config)
        slow = bool((writes > reads).all())
        found = known.groups[key] = WalkGroups(np.maximum(blocks * reads, made * writes), slow)
    return found


def has_upper(fields: Fields, config: Config) -> bool:
    """Whether the upper half of the last group has pixels; they are written last."""
    pixels = fields["images"] * fields["out_height"] * fields["out_width"]
    return (pixels - 1) % config.pix >= config.half


def seen_clocks(engine: str, fields: Fields, made: int, config: Config) -> int:
    """From a unit's last step until other engines see it. made: blocks that a group makes."""
    cascades = config.cascade // config.depth if engine == "conv" else 0
    return cascades + WRITE_CLOCKS[engine] - (0 if has_upper(fields, config) else made)
