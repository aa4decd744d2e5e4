"""The walk over output pixels against the closed formulas of docs/engines.md."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Value

from cnna.hw.walk.decks import Decks
from cnna.hw.walk.walk import walk_layout
from cnna.hw.walk.walker import Walker
from cnna.spec.program.decks import deck_of, located, sets_on
from cnna.spec.program.window import row_steps
from cnna.spec.regmap import ADDRESS_BITS, DECK_BIT

from ...rigs.fields import Fields

SETUP_CLOCKS = 17  # more than the number of lanes, from an idle walker's command to its first step


@dataclasses.dataclass
class WalkCommand:
    """A command; members as in `walk_layout`."""

    base: int = 0
    x: int = 1
    row: int = 0
    image: int = 0
    kx: int = 0
    ky: int = 0
    block: int = 0
    unit: int = 0
    width: int = 1
    height: int = 1
    images: int = 1
    kernel_width: int = 1
    kernel_height: int = 1
    blocks: int = 1
    units: int = 1
    blocks_total: int = 0
    first_x: int = 0
    first_y: int = 0
    stride_x: int = 0
    stride_y: int = 0
    dilation_x: int = 0
    dilation_y: int = 0
    in_width: int = 1
    in_height: int = 1
    pad: int = 0
    flat: int = 0
    flat_unit: int = 0
    apart: int = 0
    columns: int = 0


def expected(walk: WalkCommand, lanes: int, decks: Decks = Decks.NONE) -> list[dict]:
    """Every step of the walk; the address of a lane that does not exist is None."""
    depth = 1 if decks is Decks.NONE else 2
    across = walk.kx >> DECK_BIT & 1
    w, pixels, steps = walk, walk.width * walk.height * walk.images, []
    groups = -(-pixels // lanes)
    rows = row_steps(w.kernel_width, w.apart)
    for u, g, b, ky, number in np.ndindex(w.units, groups, w.blocks, w.kernel_height, len(rows)):
        kx = rows[number][0]
        second = w.apart == 2 and kx % 6 == 1
        swap = -w.kx if second else w.kx if w.apart == 2 and number < len(rows) - 1 else 0  # to the words of the pair's other step
        step: dict[str, Any] = {
            "first": (b, ky, kx) == (0, 0, 0),
            "last": (b, ky, kx) == (w.blocks - 1, w.kernel_height - 1, rows[-1][0]),
            "group_last": g == groups - 1,
            "unit_last": u == w.units - 1,
            "pad": w.pad,
            "flat": bool(w.flat) and kx == 0,
            "address": [],
            "exists": [],
            "inside": [],
            "more": [],
            "pair": [w.apart == 2 and not second and number < len(rows) - 1, second],
            "taps": [len(rows[number]) > 1, len(rows[number]) > 2],
        }
        for n in range(g * lanes, (g + 1) * lanes):
            row_number, images = n // w.width, n // (w.width * w.height)
            y, x = row_number % w.height, n % w.width
            row, column = w.first_y + y * w.stride_y + ky * w.dilation_y, w.first_x + x * w.stride_x + kx * w.dilation_x
            exists = n < pixels and (w.blocks_total == 0 or u * w.blocks + b < w.blocks_total)
            exists = exists and (w.columns == 0 or x < w.columns)
            block, unit = (b, u) if decks is Decks.NONE else (sets_on(w.base, b, 2), u)
            unit, deck = (sets_on(w.base, u, 2), deck_of(w.base, u, 2)) if decks is Decks.UNITS else (u, deck_of(w.base, b, depth))
            block = b if decks is Decks.UNITS else block
            deck ^= across & kx if decks is Decks.UNITS and not w.apart else 0
            word = w.base + n * w.x + row_number * w.row + images * w.image + block * w.block + ky * w.ky + kx * w.kx
            address: int | None = word + unit * w.unit
            if step["flat"]:
                address = w.base + unit * w.flat_unit if n == g * lanes else None
            step["exists"].append(exists)
            step["inside"].append(
                exists and n == g * lanes if step["flat"] else exists and 0 <= row < w.in_height and 0 <= column < w.in_width
            )
            step["address"].append(located(address, deck, depth) if exists and address is not None else None)
            tops = [column + tap * w.stride_x for tap in (1, 2)] if not step["flat"] else [column, column]
            seen = [0 <= row < w.in_height and 0 <= top < w.in_width for top in tops]
            step["more"].append([exists and one and there for one, there in zip(step["taps"], seen, strict=True)])
        step["beyond"] = [
            located(address + tap * w.x + swap, deck, depth) if address is not None and exists else None for tap in (1, 2)
        ]
        steps.append(step)
    return steps


def walker(lanes: int, decks: Decks) -> Walker:
    """A walker that can do everything."""
    return Walker(lanes, window=True, cut=True, decks=decks)


def run(
    replay, walks: list[WalkCommand], lanes: int, ready: float, permit: float, seed: int, decks: Decks = Decks.NONE
) -> tuple[list[dict], list[int]]:
    """The steps that were taken, and the clock of each. `ready`, `permit`: shares of clocks in which they are offered."""
    simulation, rng = replay(walker, lanes, decks), np.random.default_rng(seed)
    steps: list[dict[str, Any]] = []
    clocks: list[int] = []
    dut = simulation.design
    total = sum(len(expected(walk, lanes)) for walk in walks)

    async def command(ctx):
        for walk in walks:
            ctx.set(dut.command.p, walk_layout(window=True, cut=True).const(dataclasses.asdict(walk)))
            ctx.set(dut.command.valid, 1)
            await ctx.tick().until(dut.command.ready)
            ctx.set(dut.command.valid, 0)

    async def permits(ctx):
        for _ in range(sum(walk.units for walk in walks)):
            while rng.random() >= permit:
                await ctx.tick()
            ctx.set(dut.permit.valid, 1)
            await ctx.tick().until(dut.permit.ready)
            ctx.set(dut.permit.valid, 0)

    async def take(ctx):
        clock, sampled, fields = 0, (dut.step.valid, dut.step.ready, Value.cast(dut.step.p)), Fields(dut.step.p.shape())
        while len(steps) < total:
            ctx.set(dut.step.ready, rng.random() < ready)
            clock += 1
            _, _, valid, taken, payload = await ctx.tick().sample(*sampled)
            assert clock < 40 * total + 400 * len(walks), "the walk has stopped"
            if valid and taken:
                p = fields.read(payload)
                bits = {name: [bool(getattr(p, name) >> i & 1) for i in range(lanes)] for name in ("exists", "inside")}
                flags = {name: bool(getattr(p, name)) for name in ("first", "last", "group_last", "unit_last", "flat")}
                read = [bits["exists"][i] and (i == 0 or not flags["flat"]) for i in range(lanes)]
                address = [p.address[i] if read[i] else None for i in range(lanes)]
                beyond = [p.address[lanes + i] if address[-1] is not None else None for i in range(2)]
                more = [[bool(p.more[i] >> tap & 1) for tap in range(2)] for i in range(lanes)]
                pair = [bool(p.pair >> number & 1) for number in range(2)]
                taps = [bool(p.taps >> tap & 1) for tap in range(2)]
                steps.append(
                    bits | flags | {"address": address, "pad": p.pad, "beyond": beyond, "more": more, "taps": taps, "pair": pair}
                )
                clocks.append(clock)
        for _ in range(30):
            ctx.set(dut.step.ready, 1)
            _, _, valid = await ctx.tick().sample(dut.step.valid)
            assert not valid, "a step too many"

    simulation.run(take, before=(command, permits))
    return steps, clocks


def random_walk(rng: np.random.Generator) -> WalkCommand:
    """Any legal walk, kept short: maps down to one pixel, steps of both signs, coordinates beyond every edge."""
    step = {name: int(rng.integers(-(2**19), 2**19)) for name in ("x", "row", "image", "kx", "ky", "block", "unit")}
    large, apart = rng.random() < 0.2, int(rng.integers(0, 3))
    walk = WalkCommand(
        **step,
        base=int(rng.integers(2**ADDRESS_BITS)),
        **{name: int(rng.integers(1, 12 if rng.random() < 0.5 else 3)) for name in ("width", "height")},
        images=int(rng.integers(1, 4)),
        **{name: int(rng.integers(1, 4)) for name in ("kernel_width", "kernel_height", "blocks", "units")},
        blocks_total=(blocks_total := int(rng.integers(0, 10))),
        flat=0 if blocks_total else int(rng.integers(0, 2)),  # lane 0 has a pixel, so it reads, if all blocks exist
        flat_unit=int(rng.integers(-(2**19), 2**19)),
        **{name: int(rng.integers(-2048, 2048) if large else rng.integers(-4, 3)) for name in ("first_x", "first_y")},
        **{name: int(rng.integers(0, 64 if large else 4)) for name in ("stride_x", "stride_y", "dilation_x", "dilation_y")},
        **{name: int(rng.integers(1, 8192 if large else 14)) for name in ("in_width", "in_height")},
        pad=int(rng.integers(-128, 128)),
        columns=int(rng.integers(0, 12)) if rng.random() < 0.3 else 0,
    )
    if apart and not walk.flat:
        return dataclasses.replace(walk, apart=apart, kernel_width=int(rng.integers(1, 14)))
    return walk


@pytest.mark.parametrize(("ready", "permit"), [(1, 1), (0.6, 1), (0.9, 0.05)])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
def test_steps_equal_the_formulas(replay, lanes, ready, permit, seed):
    """A wrap, mask, flag, order or limit would be wrong, or a step be lost where the walk is held up."""
    rng = np.random.default_rng([seed, lanes])
    walks = [random_walk(rng) for _ in range(12)]
    steps, _ = run(replay, walks, lanes, ready, permit, seed)
    wanted = [step for walk in walks for step in expected(walk, lanes)]
    for number, (step, want) in enumerate(zip(steps, wanted, strict=True)):
        assert step == want, f"step {number}"


@pytest.mark.parametrize("decks", [Decks.BLOCKS, Decks.UNITS])
def test_blocks_lie_in_two_decks_by_turns(replay, decks, seed):
    """With depth 2, a block's words would be looked for in the wrong deck, or in the set before or behind."""
    rng = np.random.default_rng([seed, 77])
    walks = [random_walk(rng) for _ in range(20)]
    walks = [dataclasses.replace(walk, kx=walk.kx & (1 << DECK_BIT) - 1) if walk.apart else walk for walk in walks]
    if decks is Decks.UNITS:
        walks = [dataclasses.replace(walk, blocks=1) for walk in walks]  # a unit is a block
    else:  # planes have no taps
        walks = [dataclasses.replace(walk, kernel_width=1, kernel_height=1, flat=0, apart=0) for walk in walks]
    steps, _ = run(replay, walks, 4, 0.8, 0.7, seed, decks)
    wanted = [step for walk in walks for step in expected(walk, 4, decks)]
    for number, (step, want) in enumerate(zip(steps, wanted, strict=True)):
        assert step == want, f"step {number}"


@pytest.mark.parametrize(
    "walk", [WalkCommand(width=7, height=5, images=3, units=4), WalkCommand(width=9, kernel_width=3, kernel_height=2, units=3)]
)
def test_a_step_every_clock(replay, walk):
    """There would be a bubble between steps, groups or units."""
    _, clocks = run(replay, [walk], lanes=4, ready=1, permit=1, seed=0)
    assert clocks[0] <= 4 + SETUP_CLOCKS
    assert np.diff(clocks).max(initial=1) == 1


def test_the_next_command_is_planned_meanwhile(replay):
    """The set-up of a command would wait for the walk before it."""
    walk = WalkCommand(width=6, height=6)
    _, clocks = run(replay, [walk, walk, walk], lanes=2, ready=1, permit=1, seed=0)
    assert np.diff(clocks).max() <= 4
