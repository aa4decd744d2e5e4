"""Runs the first part of a batch's graph image by image, so that its maps stay on chip, and the second part for all images at once.

Early layers have large maps and few weights. One image at a time, they need no DDR. Late layers have small maps and many weights.
For all images at once, each weight is fetched once. `choose.cuts` estimates where the best cuts between the two are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cnna.compiler.cost.engine_steps import kernel_clocks
from cnna.compiler.lower.kernels import Kernel, Lowered, View, views_of
from cnna.compiler.plan.kernel_order import begin_behind
from cnna.spec.config import Config

KERNEL_CLOCKS = 100  # a kernel's own cost: fill and drain


def segment(lowered: Lowered, cut: int, abreast: int, config: Config) -> Lowered:
    """Lists the kernels before `cut` once for each image, and the others for all images. abreast: images under way at once.

    Images abreast let one engine work on one image while another engine works on another. A map that only kernels before the cut
    touch becomes one map for each image, `NAME@IMAGE`. Other maps hold all images, and a kernel of image i writes image i. The
    whole maps stay in `maps`, because they describe the ports.
    """
    if not cut or lowered.kernels[0].images[1] == 1:
        return lowered
    early, late = lowered.kernels[:cut], lowered.kernels[cut:]
    local = touched(early) - touched(late)
    order = _abreast(early, lowered, abreast, config)
    maps = dict(lowered.maps)
    names = {image: {name: f"{name}@{image}" for name in local} for image in range(*lowered.kernels[0].images)}
    kernels = [_of_image(early[number], image, names[image]) for image, number in order]
    for image, renamed in names.items():
        for name, part in renamed.items():
            maps[part] = replace(maps[name], name=part, images=(image, image + 1), part_of=name)
    return replace(lowered, kernels=(*kernels, *late), maps=maps)


def touched(kernels: Sequence[Kernel]) -> set[str]:
    """The maps that kernels read or write."""
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
