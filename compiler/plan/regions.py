"""Finds the place in feature memory where a map disturbs others least: writes and reads of the engines share a port of every bank.

Two maps that are written and read at the same time cost no clocks if they lie in different regions, whose banks are apart.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from cnna.compiler.lower.kernels import ConvKernel, Kernel, Lowered, Range, views_of
from cnna.compiler.lower.layout import map_words, region_words, together
from cnna.spec.config import Config

Rivals = Mapping[str, Mapping[str, int]]  # by map: the maps that should lie elsewhere, and how much that matters, in words


def rivals_of(lowered: Lowered) -> Rivals:
    """Maps that a kernel, or two neighbours of different engines, write and read through the shared port."""
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
    """The maps that a kernel moves through the shared port: all but what the array reads."""
    views = views_of(kernel)
    return {view.map for role, view in views.items() if role != "source" or not isinstance(kernel, ConvKernel)}


def best_base(gaps: Sequence[Range], words: int, rivals: Sequence[tuple[Range, int]], config: Config) -> int | None:
    """Where in one of the gaps a map of so many words shares the least with its rivals, (where, weight); the lowest such address.

    None: no gap is large enough. Without rivals: the start of the first that is.
    """
    tried = [base for low, high in gaps if high - low >= words for base in _bases(low, high - words, words, bool(rivals), config)]
    return min(tried, key=lambda base: sum(w * together((base, base + words), span, config) for span, w in rivals), default=None)


def _bases(low: int, last: int, words: int, several: bool, config: Config) -> list[int]:
    """Addresses to compare from low to last, rising: both ends, and those at which the map begins or ends with a region."""
    if not several:
        return [low]
    edges = range(0, config.feature_words + 1, region_words(config))
    return sorted({low, last, *(at for edge in edges for at in (edge, edge - words) if low < at < last)})


def gaps_between(taken: Sequence[Range], size: int) -> list[Range]:
    """The parts of 0..size-1 that sorted ranges, which may overlap, leave free."""
    gaps, top = [], 0
    for low, high in [*taken, (size, size)]:
        if low > top:
            gaps.append((top, low))
        top = max(top, high)
    return gaps
