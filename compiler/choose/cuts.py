"""Estimates where a batch is best cut: image by image before the cut, for all images at once behind it (`plan.segment`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cnna.compiler.cost.engine_steps import kernel_clocks
from cnna.compiler.lower.kernels import Lowered
from cnna.compiler.lower.layout import whole_place
from cnna.compiler.plan.segment import KERNEL_CLOCKS, touched
from cnna.compiler.plan.tile import ddr_rate
from cnna.spec.config import Config

COMPARED = 120  # at most this many cuts are estimated


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
    last = {name: n for n, kernel in enumerate(lowered.kernels) for name in touched([kernel])}
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
        own = touched([kernel])
        for name in own - set(first):
            first[name] = time
            live += words[name]
        steps = [kernel_clocks(kernel, lowered, config, images) + KERNEL_CLOCKS for images in (1, None)]
        weights = sum(part.stream.size for part in kernel.parts) / ddr_rate(config)
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
