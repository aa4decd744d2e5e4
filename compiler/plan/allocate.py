"""Gives every map a place for its lifetime: in feature memory if it fits, otherwise in DDR, with room on chip for its tiles.

Time is counted in kernels. Maps are placed first fit. If the tiles of a kernel find no room, a map that lies on chip at that time
is spilled to DDR, and the allocation starts again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, product

from cnna.compiler.lower.kernels import Kernel, Lowered, Range, views_of
from cnna.compiler.lower.layout import (
    SEGMENT_ALIGN,
    DdrPlace,
    FeaturePlace,
    align,
    ddr_place,
    map_bytes,
    map_words,
    region_words,
    whole_place,
)
from cnna.compiler.plan.find_tiling import KnownTilings, find_tiling
from cnna.compiler.plan.forced import NOTHING, Forced
from cnna.compiler.plan.regions import Rivals, best_base, gaps_between, rivals_of
from cnna.compiler.plan.tile import TILE_CLOCKS, Tiling, ddr_rate, least_words, tiling_clocks, tiling_work
from cnna.spec.config import Config
from cnna.spec.errors import ModelError

# For how many kernels a place stays reserved after its map's last use. They are tried in this order for each map.
HELD_KERNELS: Sequence[int] = (2, 1, 0)
LOAD_KERNELS = 2  # an image of an input is loaded this many kernels before it is read
BANDS_BELOW = 0.97  # a port is moved in bands if that takes at most this fraction of the clocks for the whole port


@dataclass(frozen=True)
class Allocation:
    """Where maps lie. features: maps on chip. ddr: maps in DDR, and the ports of maps on chip. tilings: one for each kernel.

    segments: bytes of the input, output and workspace segments. lifetimes: in kernels, as `lifetimes` gives them.
    """

    features: Mapping[str, FeaturePlace]
    ddr: Mapping[str, DdrPlace]
    tilings: tuple[Tiling, ...]
    segments: Mapping[str, int]
    lifetimes: Mapping[str, Range]


def allocate(
    lowered: Lowered,
    config: Config,
    name: str,
    apart: bool = True,
    streamed: Collection[str] | None = None,
    mixed: bool = False,
    forced: Forced = NOTHING,
    known: KnownTilings | None = None,
) -> Allocation:
    """Finds places for all maps and tilings for all kernels. ModelError: feature memory is too small for a kernel.

    apart: puts maps that are used at the same time into different regions if possible. streamed: `streamed_ports` if they are
    known. mixed: the kernels are those of `waves`. Many maps are then alive at one time, and whatever is not held or apart stops
    the wave: so places are held wherever there is room, and tiles are staged away from the maps of the next kernels. forced: what
    is chosen already. known: as of `find_tiling`. A kernel whose maps all lie on chip runs as a whole, until `in_bands` cuts it.
    """
    lives = lifetimes(lowered)
    spilled = set(streamed_ports(lowered, config) if streamed is None else streamed) | forced.in_ddr(lowered.kernels)
    rivals = rivals_of(lowered) if apart else {}
    while True:
        features = _place_on_chip(lowered, lives, spilled, rivals, config, mixed)
        tilings: list[Tiling] = []
        for time, (kernel, live) in enumerate(zip(lowered.kernels, _by_kernel(features, lives, lowered), strict=True)):
            taken = sorted((p.base, p.base + map_words(lowered.maps[m])) for m, p in live.items())
            roles = [role for role, view in views_of(kernel).items() if view.map not in features]
            gaps = gaps_between(taken, config.deck_words)
            tiling, own = None, forced.of(kernel)
            if mixed and roles:
                free = _remote_gaps(lowered, features, lives, time, config)
                tiling = find_tiling(kernel, lowered.maps, roles, free, config, 1, mixed, own, known)
            tiling = tiling or find_tiling(kernel, lowered.maps, roles, gaps, config, 1, mixed, own, known)
            if tiling is None:
                spilled.add(_next_to_spill(lowered, kernel, live, roles, config, name))
                break
            tilings.append(tiling)
        else:
            ddr, segments = _place_in_ddr(lowered, features, lives, config)
            return Allocation(features, ddr, tuple(tilings), segments, lives)


def in_bands(
    allocation: Allocation, lowered: Lowered, bands: Sequence[int], config: Config, forced: Forced = NOTHING
) -> Allocation:
    """The allocation with kernels cut into so many bands of rows, one number for each, if all maps of a kernel lie on chip.

    Nothing else of it depends on bands.
    """
    tilings = list(allocation.tilings)
    for number, (kernel, count) in enumerate(zip(lowered.kernels, bands, strict=True)):
        if count > 1 and all(view.map in allocation.features for view in views_of(kernel).values()):
            found = find_tiling(kernel, lowered.maps, (), (), config, count, forced=forced.of(kernel))
            tilings[number] = found or tilings[number]
    return replace(allocation, tilings=tuple(tilings))


def _by_kernel(features: Mapping[str, FeaturePlace], lives: Mapping[str, Range], lowered: Lowered) -> list[dict[str, FeaturePlace]]:
    """For each kernel, the maps on chip that are alive while it runs."""
    found: list[dict[str, FeaturePlace]] = [{} for _ in lowered.kernels]
    for name, place in features.items():
        for time in range(*lives[name]):
            found[time][name] = place
    return found


def _remote_gaps(
    lowered: Lowered, features: Mapping[str, FeaturePlace], lives: Mapping[str, Range], time: int, config: Config
) -> list[Range]:
    """What no map of the kernels around kernel `time` uses, region by region; those of which they use the least come first."""
    near, size = max(HELD_KERNELS), region_words(config)
    used = [
        (place.base, place.base + map_words(lowered.maps[name]))
        for name, place in features.items()
        if lives[name][0] <= time + near and time - near < lives[name][1]
    ]
    regions = list(pairwise(range(0, config.deck_words + 1, size)))
    taken = {region: sum(max(0, min(high, region[1]) - max(low, region[0])) for low, high in used) for region in regions}
    gaps = gaps_between(sorted(used), config.deck_words)
    return [
        (max(low, first), min(high, end))
        for first, end in sorted(regions, key=lambda region: taken[region])
        for low, high in gaps
        if low < end and first < high
    ]


def streamed_ports(lowered: Lowered, config: Config) -> set[str]:
    """The inputs and outputs that are moved faster in bands, while their only kernel works, than as a whole before or after it."""
    found: set[str] = set()
    ports, users = {*lowered.inputs, *lowered.outputs}, _users(lowered)
    for name, map_ in lowered.maps.items():
        if lowered.whole(name) not in ports or len(users.get(name, ())) != 1:
            continue
        (kernel,) = users[name]
        roles = [role for role, view in views_of(kernel).items() if view.map == name]
        banded = find_tiling(kernel, lowered.maps, roles, [(0, config.deck_words)], config)
        if banded is None:
            continue
        images = kernel.images[1] - kernel.images[0]
        weights, work, _ = tiling_work(
            kernel, lowered.maps, Tiling(1, lowered.maps[kernel.dest.map].height, kernel.dest.blocks, {}), config
        )
        clocks = (weights / ddr_rate(config), images * work)  # weights come once for all images; with bands, once for each image
        whole = max(clocks) + min(clocks) + TILE_CLOCKS
        whole += images * whole_place(map_).image_words * config.depth * config.ci / ddr_rate(config)
        if images * tiling_clocks(kernel, lowered.maps, banded, config) < whole * BANDS_BELOW:
            found.add(name)
    return found


def _users(lowered: Lowered) -> dict[str, list[Kernel]]:
    """The kernels that touch each map."""
    found: dict[str, list[Kernel]] = {}
    for kernel in lowered.kernels:
        for name in {view.map for view in views_of(kernel).values()}:
            found.setdefault(name, []).append(kernel)
    return found


def lifetimes(lowered: Lowered) -> dict[str, Range]:
    """For each map that a kernel touches: the first kernel, and one past the last.

    An image of an input begins some kernels earlier, so that it is loaded while engines work on the image before it.
    """
    lives: dict[str, Range] = {}
    for time, kernel in enumerate(lowered.kernels):
        for view in views_of(kernel).values():
            early = LOAD_KERNELS if lowered.maps[view.map].part_of in lowered.inputs else 0
            lives[view.map] = (lives.get(view.map, (max(0, time - early), 0))[0], time + 1)
    return lives


def activation_bytes(lowered: Lowered, config: Config) -> dict[str, int]:
    """Bytes of feature maps.

    alive: the most at one time, wherever the maps lie. separate: the sum if every tensor, copy and concatenation had a buffer of
    its own.
    """
    lives, maps = lifetimes(lowered), lowered.maps
    changes = [0] * (len(lowered.kernels) + 1)
    for name, (first, end) in lives.items():
        changes[first] += map_words(maps[name])
        changes[end] -= map_words(maps[name])
    firsts = [kernel for kernel in lowered.kernels if kernel.images[0] == 0 and lowered.rows(kernel)[0] == 0]
    copies = [kernel.dest for kernel in firsts if kernel.tensor is None]
    separate = 0
    for view in (*lowered.views.values(), *copies):
        map_ = maps[lowered.whole(view.map)]
        separate += (map_.images[1] - map_.images[0]) * view.blocks * map_.height * map_.width
    return {"alive": max(accumulate(changes)) * config.depth * config.ci, "separate": separate * config.ci}


def _place_on_chip(
    lowered: Lowered, lives: Mapping[str, Range], spilled: set[str], rivals: Rivals, config: Config, mixed: bool
) -> dict[str, FeaturePlace]:
    """Places maps first fit, in the order that leaves the fewest words in DDR.

    If it costs nothing, the place of a map stays reserved for some kernels after its last use, so that engines can overlap.
    """
    words = {name: map_words(lowered.maps[name]) for name in lives if name not in spilled}
    handed = _handed_on(lowered)
    orders: list[Callable[[str], tuple[int, ...]]] = [
        lambda name: (lives[name][0], -words[name]),
        lambda name: (-words[name], lives[name][0]),
        lambda name: (words[name], lives[name][0]),
    ]
    named = [sorted(words, key=order) for order in orders]
    if handed:  # they wait for all images, so it may be better to keep them in DDR
        named += [sorted(names, key=handed.__contains__) for names in named]
    best: dict[str, int] = {}
    holds: list[Sequence[int]] = [HELD_KERNELS, (0,)]
    for names in named if mixed else ():
        best = max(best, _held_where_possible(names, words, lives, rivals, config), key=len)
        if len(best) == len(words):
            holds = []
            break
    for held, names in product(holds, named):
        bases = _first_fit(names, words, lives, dict.fromkeys(names, held), rivals, config)
        if sum(words[name] for name in bases) > sum(words[name] for name in best):
            best = bases
        if len(best) == len(words):  # no other order can leave fewer words in DDR
            break
    return {name: whole_place(lowered.maps[name], base) for name, base in best.items()}


def _handed_on(lowered: Lowered) -> set[str]:
    """The maps that hold all images but that a kernel uses image by image."""
    pairs = ((kernel.images, view.map) for kernel in lowered.kernels for view in views_of(kernel).values())
    return {name for images, name in pairs if images != lowered.maps[name].images}


def _held_where_possible(
    names: Sequence[str], words: Mapping[str, int], lives: Mapping[str, Range], rivals: Rivals, config: Config
) -> dict[str, int]:
    """As `_first_fit`. Places are not held beside maps that would else find no gap."""
    near, held = max(HELD_KERNELS), dict.fromkeys(names, HELD_KERNELS)
    while True:
        bases = _first_fit(names, words, lives, held, rivals, config)
        tight = [(lives[name][0] - near, lives[name][1] + near) for name in names if name not in bases]
        beside = [name for name in names if any(lives[name][0] < end and first < lives[name][1] for first, end in tight)]
        if all(held[name] == (0,) for name in beside):
            return bases
        held |= dict.fromkeys(beside, (0,))


def _first_fit(
    names: Sequence[str],
    words: Mapping[str, int],
    lives: Mapping[str, Range],
    held: Mapping[str, Sequence[int]],
    rivals: Rivals,
    config: Config,
) -> dict[str, int]:
    """Addresses of the maps that find a gap, placed in the order of `names`. Each uses the first of `held` that leaves a gap."""
    placed: dict[str, Range] = {}
    spans: list[tuple[int, int, Range]] = []  # of what is placed: its lifetime, and where it lies
    most = max((max(held[name]) for name in names), default=0)
    there: list[list[int]] = [[] for _ in range(max((lives[name][1] for name in names), default=0) + most)]  # by time, in `spans`
    for name in names:
        near = [(placed[other], weight) for other, weight in rivals.get(name, {}).items() if other in placed]
        first, end = lives[name]
        beside = [spans[number] for number in set().union(*there[first : end + most])]
        for kernels in held[name]:
            others = [where for begin, over, where in beside if begin < end + kernels and first < over + kernels]
            others.sort()
            base = best_base(gaps_between(others, config.deck_words), words[name], near, config)
            if base is not None:
                placed[name] = (base, base + words[name])
                for numbers in there[first : end + most]:
                    numbers.append(len(spans))
                spans.append((first, end, placed[name]))
                break
    return {name: begin for name, (begin, _) in placed.items()}


def _next_to_spill(
    lowered: Lowered, kernel: Kernel, live: Mapping[str, FeaturePlace], roles: Sequence[str], config: Config, name: str
) -> str:
    """The map to spill so that a kernel's tiles find room: the largest that the kernel does not use, or else its own largest."""
    own = {view.map for view in views_of(kernel).values()}
    for candidates in (set(live) - own, set(live) & own):
        if candidates:
            return max(sorted(candidates), key=lambda m: map_words(lowered.maps[m]))
    needed = least_words(kernel, lowered.maps, roles, config)
    raise ModelError(
        f"{name}: node '{kernel.name}': one output row needs {config.depth * needed} words of feature memory, but config "
        f"{config.name} has {config.feature_words}; use a configuration with more (regions, bank_words) or a smaller input"
    )


def _place_in_ddr(
    lowered: Lowered, features: Mapping[str, FeaturePlace], lives: Mapping[str, Range], config: Config
) -> tuple[dict[str, DdrPlace], dict[str, int]]:
    """Places ports one after another in their segments, and spilled maps in the workspace, first fit over their lifetimes."""
    places: dict[str, DdrPlace] = {}
    sizes = {}
    for segment, names in (("input", lowered.inputs), ("output", lowered.outputs)):
        offset = 0
        for name in dict.fromkeys(names):
            places[name] = ddr_place(lowered.maps[name], segment, offset, config)
            offset = align(offset + map_bytes(lowered.maps[name], config), SEGMENT_ALIGN)
        sizes[segment] = max(offset, SEGMENT_ALIGN)
    places |= {name: places[map_.part_of] for name, map_ in lowered.maps.items() if map_.part_of in places}
    top = SEGMENT_ALIGN
    taken: dict[str, Range] = {}
    for name in sorted(set(lives) - set(features) - set(places), key=lambda name: lives[name]):
        size = align(map_bytes(lowered.maps[name], config), SEGMENT_ALIGN)
        others = sorted(taken[m] for m in taken if lives[m][0] < lives[name][1] and lives[name][0] < lives[m][1])
        start = 0
        for low, high in others:
            if low - start >= size:
                break
            start = max(start, high)
        taken[name] = (start, start + size)
        places[name] = ddr_place(lowered.maps[name], "workspace", start, config)
        top = max(top, start + size)
    return places, {**sizes, "workspace": top}
