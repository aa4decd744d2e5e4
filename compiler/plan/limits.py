"""The numbers by which plans are made and chosen, in one value. Whoever wants others passes a `PlanLimits` of its own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PlanLimits:
    """How far the search for a plan goes (`choose`), and how small the bands of a plan may be."""

    cuts: int = 4  # of a batch that are planned and compared
    leaders: int = 2  # the best plans so far, on which another order, bands and images abreast are tried
    abreast: int = 2  # images under way at the same time, where that is tried
    bands: int = 4  # of a kernel, at most
    band_groups: int = 48  # of pixels in a band, at least: weights of a pointwise convolution then come in a quarter of its clocks
    vector_share: float = 0.6  # of the array's work: what the vector engine has to do where waves are tried
    wave_bands: tuple[int, ...] = (3, 4)  # into how many bands kernels are cut whose bands are mixed; none: no waves are tried
    wave_groups: int = 12  # of pixels in such a band, at least: its weights then come about as fast as the array takes them
    close: float = 1.02  # estimates of two programs that differ by less than this do not tell which one is faster
    same_share: float = 5e-5  # of the clocks: plans that the predictor cannot tell apart; then the estimates' order decides
    clearly: float = 0.96  # of the clocks of the best finalist: what a plan in waves may take at most to replace it
    predicted_clocks: int = 2_000_000  # of programs that are compared by the predictor, which takes seconds for a million


LIMITS = PlanLimits()
