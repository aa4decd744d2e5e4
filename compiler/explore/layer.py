"""`cnna explore --layer`: every legal tiling of one layer, its estimated clocks and DDR bytes, and the one that the compiler takes.

Figures are for one image, as `tile` estimates them, by which the compiler chooses. A map of the layer is either whole on chip or
staged from DDR.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from typing import BinaryIO

from cnna.compiler.choose.choose import fastest_plan
from cnna.compiler.graph.ir import Graph
from cnna.compiler.lower.kernels import Kernel, Lowered, views_of
from cnna.compiler.lower.layout import whole_place
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.fold import fold_inputs
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.tile import Tiling, box_of, box_words, tiles, tiling_clocks, tiling_work
from cnna.compiler.report.axis_numbers import from_zero, logarithmic
from cnna.spec.config import Config
from cnna.spec.counts import many
from cnna.spec.errors import UserError
from cnna.spec.names import in_line, nearest

DOT = 60.0  # size of the first kind of dots in the picture, in square points


@dataclass(frozen=True)
class Choice:
    """A tiling: the roles whose maps are in DDR, how many copies of each are staged, and the tiler's estimate for an image."""

    staged: tuple[str, ...]
    copies: int
    rows: int
    blocks: int
    cycles: int
    bytes: int
    chosen: bool

    def about(self) -> str:
        """The tiling in words."""
        where = f"{' and '.join(self.staged)} in DDR, {self.copies} staged at once" if self.staged else "all on chip"
        return f"{many(self.rows, 'row')}, {many(self.blocks, 'block')}, {where}: {self.cycles:,} clocks, {self.bytes:,} DDR bytes"


class Layers:
    """The layers of a network, which is planned once for all of them."""

    def __init__(self, graph: Graph, config: Config) -> None:
        folded, _ = fold_inputs(graph, config)
        self._network, self._config = graph.name, config
        self._lowered = set_pitches(lower(folded, config, 1), config)
        self.names = [folded.nodes[kernel.layer].name for kernel in self._lowered.kernels]

    @cached_property
    def _chosen(self) -> Mapping[Kernel, Tiling]:
        """The compiler's tilings. ModelError: the network does not fit."""
        return fastest_plan(self._lowered, self._config, self._network)[0].tilings

    def tilings(self, name: str) -> list[Choice]:
        """As the function."""
        lowered, config = self._lowered, self._config
        kernel = lowered.kernels[self.names.index(name)]
        found = [_choice(kernel, lowered, tiling, config, False) for tiling in _legal(kernel, lowered, config)]
        return [*found, _choice(kernel, lowered, self._chosen[kernel], config, True)]


def tilings(graphs: Sequence[Graph], config: Config, name: str) -> list[Choice]:
    """All legal tilings of the first pass of a layer of these graphs, the compiler's behind the others.

    UserError: no layer has that name; names the nearest. ModelError: the network does not fit.
    """
    names: list[str] = []
    for graph in graphs:
        layers = Layers(graph, config)
        if name in layers.names:
            return layers.tilings(name)
        names += dict.fromkeys(layers.names)
    near = nearest(name, names)
    there = f"the nearest of {len(names):,} are {', '.join(near)}" if near else f"there are {in_line(names)}"
    raise UserError(f"--layer {name}: no such layer; {there} (cnna report and cnna explain list all)")


def best(choices: Sequence[Choice]) -> list[str]:
    """Lines for the compiler's choice, the fewest clocks and the fewest bytes; equal tilings share a line.

    Where several tilings are equally good, the compiler's is named if it is one of them, else the one better in the other respect.
    """
    quickest = min(choices, key=lambda c: (c.cycles, not c.chosen, c.bytes))
    least = min(choices, key=lambda c: (c.bytes, not c.chosen, c.cycles))
    named: dict[str, list[str]] = {}
    for name, choice in (("the compiler's", choices[-1]), ("of the fewest clocks", quickest), ("of the fewest bytes", least)):
        named.setdefault(choice.about(), []).append(name)
    return [
        f"{', '.join(names[:-1])} and {names[-1]}: {about}" if names[1:] else f"{names[0]}: {about}"
        for about, names in named.items()
    ]


def _legal(kernel: Kernel, lowered: Lowered, config: Config) -> Iterator[Tiling]:
    """Row bands and block ranges that differ, with every set of maps in DDR. What is on chip and what is staged must fit."""
    maps, roles = lowered.maps, list(views_of(kernel))
    height, units = maps[kernel.dest.map].height, -(-kernel.dest.blocks // config.chunk_blocks)
    images = kernel.images[1] - kernel.images[0]
    whole = {role: whole_place(maps[views_of(kernel)[role].map]).image_words for role in roles}
    if sum(whole.values()) <= config.deck_words:
        yield Tiling(images, height, kernel.dest.blocks, {})
    all_rows = dict.fromkeys(-(-height // bands) for bands in range(1, height + 1))
    all_blocks = dict.fromkeys(-(-units // 2**n) * config.chunk_blocks for n in range(units.bit_length() + 1))
    for rows, blocks in product(all_rows, all_blocks):
        bare = Tiling(1, rows, min(blocks, kernel.dest.blocks), {})
        most = dict.fromkeys(roles, 0)
        for tile, role in product(tiles(kernel, bare, height), roles):
            map_ = maps[views_of(kernel)[role].map]
            most[role] = max(most[role], box_words(box_of(kernel, role, tile, maps, config.chunk_blocks), map_))
        for count in range(1, len(roles) + 1):
            for staged, copies in product(combinations(roles, count), (1, 2)):
                words = sum(copies * most[role] if role in staged else whole[role] for role in roles)
                if words <= config.deck_words:
                    yield Tiling(1, bare.rows, bare.blocks, dict.fromkeys(staged, (0,) * copies))


def _choice(kernel: Kernel, lowered: Lowered, tiling: Tiling, config: Config, chosen: bool) -> Choice:
    moved, _, _ = tiling_work(kernel, lowered.maps, tiling, config)
    cycles = round(tiling_clocks(kernel, lowered.maps, tiling, config))
    copies = max((len(places) for places in tiling.staging.values()), default=0)
    return Choice(tuple(tiling.staging), copies, tiling.rows, tiling.blocks, cycles, int(moved), chosen)


def picture(title: str, choices: Sequence[Choice], file: Path | BinaryIO) -> None:
    """Writes a PNG: clocks over DDR bytes, a colour for each set of maps in DDR, the compiler's choice marked."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for number, staged in enumerate(sorted({choice.staged for choice in choices}, key=lambda roles: (len(roles), roles))):
        own = [choice for choice in choices if choice.staged == staged]
        label = f"{' and '.join(staged)} in DDR" if staged else "all on chip"
        size = DOT / 1.7**number  # later dots are smaller, so that those at the same place are seen around them
        axes.scatter([c.bytes for c in own], [c.cycles for c in own], s=size, label=label)
    chosen = [choice for choice in choices if choice.chosen]
    where = ([c.bytes for c in chosen], [c.cycles for c in chosen])
    axes.scatter(*where, s=160, marker="o", facecolors="none", edgecolors="red", label="the compiler's")
    axes.set_yscale("log")
    logarithmic(axes.yaxis)
    if min(c.bytes for c in choices):
        axes.set_xscale("log")
        logarithmic(axes.xaxis)
    else:
        from_zero(axes, [c.bytes for c in choices])
    axes.set_xlabel("DDR bytes of an image")
    axes.set_ylabel("clocks of an image, estimated")
    axes.set_title(title)
    axes.legend()
    figure.savefig(file, dpi=110, format="png")
