"""Finds the place in feature memory where a map disturbs others least.

The writes and most reads of the engines use the same port of every bank. Two maps that are used at the same time cost no extra
clocks if they lie in different regions, because each region has banks of its own.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from cnna.compiler.lower.kernels import ConvKernel, Kernel, Lowered, Range, views_of
from cnna.compiler.lower.layout import map_words, region_words, together
from cnna.spec.config import Config

Rivals = Mapping[str, Mapping[str, int]]  # for each map: the maps that should lie in other regions, each with a weight in words


def rivals_of(lowered: Lowered) -> Rivals:
    """Pairs of maps that one kernel, or two consecutive kernels of different engines, use through the shared port."""
    found: dict[str, dict[str, int]] = {}
    kernels = lowered.kernels
    groups = [shared(kernel) for kernel in kernels]
    groups += [shared(a) | shared(b) for a, b in pairwise(kernels) if type(a) is not type(b)]
    for group in groups:
        for pair in combinations(sorted(group), 2):
            words = min(map_words(lowered.maps[name]) for name in pair)
            for name, other in (pair, pair[::-1]):
                weights = found.setdefault(name, {})
                weights[other] = weights.get(other, 0) + words
    return found


def shared(kernel: Kernel) -> set[str]:
    """The maps that a kernel uses through the shared port: all except the source of the array."""
    views = views_of(kernel)
    return {view.map for role, view in views.items() if role != "source" or not isinstance(kernel, ConvKernel)}


def best_base(gaps: Sequence[Range], words: int, rivals: Sequence[tuple[Range, int]], config: Config) -> int | None:
    """The lowest address in a gap at which a map of `words` words overlaps least with the regions of its rivals (range, weight).

    Without rivals, this is the start of the first gap that is large enough. None: no gap is.
    """
    tried = [base for low, high in gaps if high - low >= words for base in _bases(low, high - words, words, bool(rivals), config)]
    return min(tried, key=lambda base: sum(w * together((base, base + words), span, config) for span, w in rivals), default=None)


def _bases(low: int, last: int, words: int, several: bool, config: Config) -> list[int]:
    """The addresses from `low` to `last` to compare, in order: both ends, and those where the map begins or ends with a region."""
    if not several:
        return [low]
    edges = range(0, config.deck_words + 1, region_words(config))
    return sorted({low, last, *(at for edge in edges for at in (edge, edge - words) if low < at < last)})


def gaps_between(taken: Sequence[Range], size: int) -> list[Range]:
    """The parts of 0..size-1 outside the ranges `taken`, which are sorted and may overlap."""
    gaps, top = [], 0
    for low, high in [*taken, (size, size)]:
        if low > top:
            gaps.append((top, low))
        top = max(top, high)
    return gaps
