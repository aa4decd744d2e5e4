"""Runs the first part of a batch's graph image by image, so that its maps stay on chip, and the second part for all images at once.

Early layers have large maps and few weights. One image at a time, they need no DDR. Late layers have small maps and many weights.
For all images at once, each weight is fetched once. `plan` tries the cuts between the two that `cuts` estimates to be the best.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cnna.compiler.cost.engine_steps import kernel_clocks
from cnna.compiler.lower.kernels import Kernel, Lowered, View, views_of
from cnna.compiler.lower.layout import whole_place
from cnna.compiler.plan.kernel_order import begin_behind
from cnna.compiler.plan.tile import ddr_rate
from cnna.spec.config import Config

KERNEL_CLOCKS = 100  # a kernel's own cost: fill and drain
COMPARED = 120  # at most this many cuts are estimated


def segment(lowered: Lowered, cut: int, abreast: int, config: Config) -> Lowered:
    """Lists the kernels before `cut` once for each image, and the others for all images. abreast: images under way at once.

    Images abreast let one engine work on one image while another engine works on another. A map that only kernels before the cut
    touch becomes one map for each image, `NAME@IMAGE`. Other maps hold all images, and a kernel of image i writes image i. The
    whole maps stay in `maps`, because they describe the ports.
    """
    if not cut or lowered.kernels[0].images[1] == 1:
        return lowered
    early, late = lowered.kernels[:cut], lowered.kernels[cut:]
    local = _touched(early) - _touched(late)
    order = _abreast(early, lowered, abreast, config)
    maps = dict(lowered.maps)
    names = {image: {name: f"{name}@{image}" for name in local} for image in range(*lowered.kernels[0].images)}
    kernels = [_of_image(early[number], image, names[image]) for image, number in order]
    for image, renamed in names.items():
        for name, part in renamed.items():
            maps[part] = replace(maps[name], name=part, images=(image, image + 1), part_of=name)
    return replace(lowered, kernels=(*kernels, *late), maps=maps)


def _touched(kernels: Sequence[Kernel]) -> set[str]:
    return {view.map for kernel in kernels for view in views_of(kernel).values()}


def _of_image(kernel: Kernel, image: int, names: Mapping[str, str]) -> Kernel:
    """The kernel for one image, on the maps of that image."""

    def renamed(view: View) -> View:
        return replace(view, map=names.get(view.map, view.map))

    second = renamed(kernel.second) if kernel.second else None
    images = (image, image + 1)
    return replace(kernel, images=images, source=renamed(kernel.source), second=second, dest=renamed(kernel.dest))


def _abreast(early: Sequence[Kernel], lowered: Lowered, abreast: int, config: Config) -> list[tuple[int, int]]:
    """(image, number of the kernel) in the order in which they can begin. Of two that can, the earlier image comes first."""
    images = list(range(*early[0].images))
    if abreast == 1:
        return [(image, number) for image in images for number in range(len(early))]
    work = [kernel_clocks(kernel, lowered, config, 1) + KERNEL_CLOCKS for kernel in early]
    needs = [_needs(early, number) for number in range(len(early))]
    ended: dict[tuple[int, int], int] = {}
    free: dict[type, int] = {}

    def times(image: int, number: int) -> tuple[int, int]:
        """When a kernel can begin and end. Its last block comes after the ends of the kernels that it reads."""
        kernel = early[number]
        behind = begin_behind(kernel, ((early[need], work[need], ended[image, need]) for need in needs[number]))
        begin = max(free.get(type(kernel), 0), behind)
        last = max((ended[image, need] + work[number] // kernel.dest.blocks for need in needs[number]), default=0)
        return begin, max(last, begin + work[number])

    order: list[tuple[int, int]] = []
    done = dict.fromkeys(images, 0)
    while len(order) < len(images) * len(early):
        under_way = [image for image in images if done[image] < len(early)][:abreast]
        image = min(under_way, key=lambda image: (times(image, done[image])[0], image))
        number = done[image]
        ended[image, number] = free[type(early[number])] = times(image, number)[1]
        order.append((image, number))
        done[image] += 1
    return order


def _needs(early: Sequence[Kernel], number: int) -> list[int]:
    """The earlier kernels that write what a kernel reads."""
    kernel = early[number]
    read = {view.map for role, view in views_of(kernel).items() if role != "dest"}
    return [other for other in range(number) if early[other].dest.map in read]


# --- choice of the cut ---


@dataclass(frozen=True)
class _Work:
    """Figures of a kernel for the estimate.

    steps: clocks for one image, and for all. weights: clocks of DDR. maps: their words.
    """

    steps: tuple[int, int]
    weights: float
    maps: Mapping[str, int]
    live: int  # words of all maps that are alive during the kernel, for one image


def cuts(lowered: Lowered, config: Config, most: int) -> list[int]:
    """Up to `most` cuts that are not close together, the best estimate first. One of them is "all together" or "all apart"."""
    count = len(lowered.kernels)
    if not count or lowered.kernels[0].images[1] == 1:
        return [0]
    last = {name: n for n, kernel in enumerate(lowered.kernels) for name in _touched([kernel])}
    work = _work(lowered, last, config)
    batch = lowered.kernels[0].images[1]
    every = -(-count // COMPARED)
    tried = sorted({0, count, *range(every, count, every)})
    clocks = {cut: _clocks(work, cut, batch, last, config) for cut in tried}
    ordered = sorted(tried, key=lambda cut: clocks[cut])
    found = [ordered[0], min((0, count), key=lambda cut: clocks[cut])]
    apart = max(1, count // 16)
    for cut in ordered:
        if all(abs(cut - other) >= apart for other in found):
            found.append(cut)
    return list(dict.fromkeys(found))[:most]


def _work(lowered: Lowered, last: Mapping[str, int], config: Config) -> list[_Work]:
    """The figures of all kernels."""
    words = {name: whole_place(map_).image_words for name, map_ in lowered.maps.items()}
    first: dict[str, int] = {}
    work = []
    live = 0
    for time, kernel in enumerate(lowered.kernels):
        own = _touched([kernel])
        for name in own - set(first):
            first[name] = time
            live += words[name]
        steps = [kernel_clocks(kernel, lowered, config, images) + KERNEL_CLOCKS for images in (1, None)]
        weights = sum(part.stream.data.size for part in kernel.parts) / ddr_rate(config)
        work.append(_Work((steps[0], steps[1]), weights, {name: words[name] for name in own}, live))
        live -= sum(words[name] for name in own if last[name] == time)
    return work


def _clocks(work: Sequence[_Work], cut: int, batch: int, last: Mapping[str, int], config: Config) -> float:
    """Estimate for a whole batch. Weights come while earlier kernels work, as far ahead as the ring holds them."""
    crossing = {name: size for one in work[:cut] for name, size in one.maps.items() if last[name] >= cut}
    waiting = sum(crossing.values()) * (batch - 1)
    ahead = config.ring_words * config.ring_word_bytes / ddr_rate(config)

    def run(kernels: Sequence[_Work], together: bool) -> float:
        done = fetched = 0.0
        for one in kernels:
            moved = 0
            if (batch if together else 1) * one.live > config.deck_words:
                moved = sum(one.maps.values())
            elif not together and one.live + waiting > config.deck_words:
                moved = sum(size for name, size in one.maps.items() if name in crossing)
            fetched = max(fetched + one.weights, done + max(0.0, one.weights - ahead))
            ddr = (batch if together else 1) * moved * config.depth * config.ci / ddr_rate(config)
            done = max(done + max(one.steps[together], ddr), fetched)
            fetched += ddr
        return done

    return batch * run(work[:cut], False) + run(work[cut:], True)
