"""Cuts kernels into bands that are kernels of their own, and mixes the bands of several layers and images.

A layer waits for the one that it reads. So the array and the vector engine work in turn at the ends of layers, even if each layer
runs in bands (`row_bands`). Here a band of a layer runs as soon as the rows that it reads are there, beside bands of layers
before it: a wave passes through the network. Each band of a convolution brings the weights again.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from cnna.compiler.cost.cost import FILL_CLOCKS
from cnna.compiler.cost.engine_steps import groups_of, kernel_clocks
from cnna.compiler.lower.kernels import ConvKernel, Kernel, Lowered, Map, Range, VectorKernel, source_rows, views_of
from cnna.compiler.lower.layout import map_words
from cnna.compiler.plan.limits import LIMITS, PlanLimits
from cnna.compiler.plan.tile import ddr_rate
from cnna.spec.config import Config

ROOM = 0.8  # of feature memory: maps do not lie without gaps
DRIFT = 0.7  # of a band: how far its edge may lie from that of an equal band
AHEAD = 4  # kernels by which a band may precede the first band of its image that is left
BAND_CLOCKS = 40  # a band's own cost


def waves(
    lowered: Lowered,
    near: Collection[int],
    most: int,
    config: Config,
    off_chip: Collection[str] = (),
    limits: PlanLimits = LIMITS,
) -> tuple[Lowered, list[Kernel]]:
    """The bands of the kernels, in the order in which they can begin, and the kernel of each.

    near: the numbers of the kernels that may be cut, into `most` bands each. off_chip: maps that do not lie in feature memory;
    kernels that touch them stay whole, since they have tiles of their own.
    """
    pieces: list[Kernel] = []
    origins: list[int] = []
    edges: dict[str, list[int]] = {}
    for number, kernel in enumerate(lowered.kernels):
        whole = number not in near or _maps(kernel) & set(off_chip)
        bands = min(most, groups_of(lowered.pixels(kernel), config) // limits.wave_groups)
        made = [kernel] if whole else list(_bands(kernel, lowered, bands, edges))
        pieces += made
        origins += [number] * len(made)
    cut = replace(lowered, kernels=tuple(pieces))
    order = _Order(cut, origins, config, off_chip).found()
    return replace(cut, kernels=tuple(pieces[number] for number in order)), [lowered.kernels[origins[number]] for number in order]


def _bands(kernel: Kernel, lowered: Lowered, bands: int, edges: dict[str, list[int]]) -> Iterator[Kernel]:
    """Bands of images, if there are several, or else of rows. edges: where the bands of each map meet; gets the kernel's own."""
    (first, end), height = kernel.images, lowered.maps[kernel.dest.map].height
    if bands < 2 or any(part.phase for part in kernel.parts):
        yield kernel
    elif end - first > 1:
        each = -(-(end - first) // bands)
        for low in range(first, end, each):
            yield replace(kernel, images=(low, min(low + each, end)))
    else:
        own = edges[kernel.dest.map] = _edges(kernel, height, bands, edges.get(kernel.source.map, []))
        for rows in zip([0, *own], [*own, height], strict=True):
            yield replace(kernel, rows=rows)


def _edges(kernel: Kernel, height: int, bands: int, before: Sequence[int]) -> list[int]:
    """The rows at which a kernel's bands meet: those that can be made of a band of the source, if they are near equal bands."""
    window = kernel.window
    reach = (window.kernel[0] - 1) * window.dilation[0] + 1 - window.pads[0]
    ends = [(edge - reach) // window.stride[0] + 1 for edge in before]
    found = set()
    for number in range(1, bands):
        equal = height * number / bands
        near = min(ends, key=lambda end: abs(end - equal), default=0)
        found.add(near if abs(near - equal) <= DRIFT * height / bands else round(equal))
    return sorted(edge for edge in found if 0 < edge < height)


@dataclass
class _Task:
    """A band in a model of time that is enough to order the bands. origin: the number of its kernel. needs: bands before it.

    work: clocks of its engine. weights: clocks of DDR. begin, end: as found; end is below 0 before that.
    """

    kernel: Kernel
    engine: str
    origin: int
    work: int
    weights: float
    needs: Sequence[int]
    begin: float = 0.0
    end: float = -1.0


class _Order:
    """Chooses one band after another: of those that may run next, the one that can begin first.

    Of equal ones, it is one of the earliest image, and of these the one of the deepest layer, whose maps are free the soonest.
    """

    def __init__(self, lowered: Lowered, origins: Sequence[int], config: Config, off_chip: Collection[str]) -> None:
        self.config, rate = config, ddr_rate(config)
        self.tasks = [
            _Task(
                kernel,
                "conv" if isinstance(kernel, ConvKernel) else "vector",
                origin,
                kernel_clocks(kernel, lowered, config) + BAND_CLOCKS,
                sum(part.stream.size for part in kernel.parts) / rate,
                needs,
            )
            for kernel, origin, needs in zip(lowered.kernels, origins, _needs(lowered), strict=True)
        ]
        self.free = {"conv": 0.0, "vector": 0.0, "weight": 0.0}  # the clock at which an engine is free
        self.ahead = config.ring_words * config.ring_word_bytes / rate
        self.maps = [_maps(kernel) for kernel in lowered.kernels]
        self.words = {name: 0 if name in off_chip else map_words(map_) for name, map_ in lowered.maps.items()}
        self.users = {name: sum(name in maps for maps in self.maps) for name in self.words}  # bands left that use a map
        self.live: set[str] = set()
        self.room = max(int(ROOM * config.deck_words), self._peak())

    def found(self) -> list[int]:
        """The numbers of the bands in order."""
        order: list[int] = []
        waiting = list(range(len(self.tasks)))
        while waiting:
            ready = sorted(self._ready(waiting), key=self._rank)
            number = next((n for n in ready if self._fits(n, waiting)), waiting[0])
            self._take(number)
            waiting.remove(number)
            order.append(number)
        return order

    def _ready(self, waiting: Sequence[int]) -> list[int]:
        """Of each kernel that is not too far ahead the next band, if all that it needs has been chosen."""
        oldest: dict[int, int] = {}
        following: dict[int, int] = {}
        for number in waiting:
            task = self.tasks[number]
            oldest.setdefault(task.kernel.images[0], task.origin)
            if task.origin <= oldest[task.kernel.images[0]] + AHEAD:
                following.setdefault(task.origin, number)
        return [n for n in following.values() if all(self.tasks[need].end >= 0 for need in self.tasks[n].needs)]

    def _rank(self, number: int) -> tuple[float, int, int]:
        task = self.tasks[number]
        return self._times(task)[0], task.kernel.images[0], -task.origin

    def _times(self, task: _Task) -> tuple[float, float, float]:
        """When a band can begin and end, and when its weights have come. The vector engine follows the array chunk by chunk."""
        begin, end = self.free[task.engine], 0.0
        for other in (self.tasks[need] for need in task.needs):
            units = -(-other.kernel.dest.blocks // self.config.chunk_blocks)
            if task.engine == "vector" and other.engine == "conv":
                begin = max(begin, other.begin + (other.end - other.begin) / units)
                end = max(end, other.end + task.work / units)
            else:
                begin = max(begin, other.end)
        came = max(self.free["weight"], begin - self.ahead) + task.weights
        return begin, max(begin + task.work, end, came), came

    def _take(self, number: int) -> None:
        """Notes that a band is the next one."""
        task = self.tasks[number]
        task.begin, end, self.free["weight"] = self._times(task)
        self.free[task.engine], task.end = end, end + FILL_CLOCKS[task.engine]
        for name in self.maps[number]:
            self.users[name] -= 1
            (self.live.add if self.users[name] else self.live.discard)(name)

    def _peak(self) -> int:
        """The most words of all maps that are alive at one time if the bands keep their order."""
        changes = [0] * (len(self.tasks) + 1)
        for name in set(chain(*self.maps)):
            used = [number for number, maps in enumerate(self.maps) if name in maps]
            changes[used[0]] += self.words[name]
            changes[used[-1] + 1] -= self.words[name]
        return max(accumulate(changes))

    def _fits(self, number: int, waiting: Sequence[int]) -> bool:
        """Whether the bands that wait could follow in their own order within the room."""
        if number == waiting[0] or self.maps[number] <= self.live:
            return True
        live, users = set(self.live), dict(self.users)
        used = sum(self.words[name] for name in live)
        for other in (number, *(n for n in waiting if n != number)):
            new = self.maps[other] - live
            live |= new
            used += sum(self.words[name] for name in new)
            if used > self.room:
                return False
            for name in self.maps[other]:
                users[name] -= 1
                if not users[name]:
                    live.discard(name)
                    used -= self.words[name]
        return True


def _maps(kernel: Kernel) -> set[str]:
    return {view.map for view in views_of(kernel).values()}


def _needs(lowered: Lowered) -> list[Sequence[int]]:
    """For each band, the earlier ones that write what it reads or writes, or that read what it writes."""
    touched: dict[str, list[tuple[int, tuple[Range, Range, Range], bool]]] = {}
    found: list[Sequence[int]] = []
    for number, kernel in enumerate(lowered.kernels):
        own = [(view.map, _box(kernel, role, lowered.maps), role == "dest") for role, view in views_of(kernel).items()]
        needs = {
            other
            for name, box, writes in own
            for other, seen, wrote in touched.get(name, [])
            if (wrote or writes) and all(a[0] < b[1] and b[0] < a[1] for a, b in zip(box, seen, strict=True))
        }
        found.append(sorted(needs))
        for name, box, writes in own:
            touched.setdefault(name, []).append((number, box, writes))
    return found


def _box(kernel: Kernel, role: str, maps: Mapping[str, Map]) -> tuple[Range, Range, Range]:
    """The images, blocks and rows of a map that a kernel touches in a role."""
    view = views_of(kernel)[role]
    rows = kernel.rows
    if rows is None or (role == "second" and isinstance(kernel, VectorKernel) and kernel.flat):
        rows = (0, maps[view.map].height)
    elif role == "source":
        rows = source_rows(kernel.window, rows, maps[view.map].height)
    return kernel.images, (view.block, view.block + view.blocks), rows
