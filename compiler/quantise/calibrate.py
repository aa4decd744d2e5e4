"""Runs the float graph on calibration samples, one at a time, and collects the statistics that ranges are chosen from."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cnna.compiler.frontend.pieces.cpu_parts import misdeclared
from cnna.compiler.frontend.preprocess import Preprocess
from cnna.compiler.graph.ir import Graph
from cnna.compiler.graph.node_names import place
from cnna.compiler.quantise.sessions import Session, feeds_of
from cnna.spec.errors import DataError, ModelError

BINS = 4096  # of a histogram, between a tensor's least and greatest value
SEED = 1  # of random samples
FEW = 16  # samples on which channels are compared
Progress = Callable[[int, int], None]
Watch = Callable[[int, Mapping[str, np.ndarray], Mapping[str, np.ndarray]], None]  # a sample's number, its inputs, its tensors


@dataclass
class Statistics:
    """Statistics of one tensor over all samples: extremes, the mean of each channel and, from a second round, a histogram.

    strange: the first value that is NaN or infinite, which counts as 0.
    """

    low: float = np.inf
    high: float = -np.inf
    channel_sums: np.ndarray | None = None
    pixels: int = 0
    histogram: np.ndarray = field(default_factory=lambda: np.zeros(BINS, np.int64))
    strange: float | None = None

    def extend(self, value: np.ndarray) -> None:
        """Adds one sample, [1, C, H, W], to extremes and means."""
        self.low, self.high = min(self.low, float(value.min())), max(self.high, float(value.max()))
        sums = value.sum(axis=(0, 2, 3), dtype=np.float64)
        self.channel_sums = sums if self.channel_sums is None else self.channel_sums + sums
        self.pixels += value.shape[2] * value.shape[3]

    def count(self, value: np.ndarray) -> None:
        """Adds one sample to the histogram."""
        if self.high > self.low:
            self.histogram += np.histogram(value, BINS, (self.low, self.high))[0]

    def tamed(self, value: np.ndarray, finite: np.ndarray) -> np.ndarray:
        """A sample with 0 for what is not finite."""
        self.strange = float(value[~finite][0]) if self.strange is None else self.strange
        return np.where(finite, value, np.float32(0))

    @property
    def means(self) -> np.ndarray:
        """The mean of each channel."""
        assert self.channel_sums is not None
        return self.channel_sums / self.pixels


def flat_warnings(graph: Graph, statistics: Mapping[str, Statistics]) -> tuple[str, ...]:
    """What to tell the user of inputs that have one and the same value everywhere in all samples."""
    flat = {name: found.low for name in graph.inputs if (found := statistics.get(name)) and found.low == found.high}
    why = "in all samples, which shows no range of any tensor; give typical samples"
    return tuple(f"input '{name}' is {value:g} {why}" for name, value in flat.items())


def random_samples(graph: Graph) -> dict[str, np.ndarray]:
    """One sample for a float graph of which there are none: the same normal numbers on every computer, ones where they are whole.

    Ranges change neither places nor clocks, but for constants far from all data.
    """
    rng, samples = np.random.default_rng(SEED), {}
    for name in graph.inputs:
        sample = rng.standard_normal((1, *graph.tensors[name].shape[1:])).astype(np.float32)
        samples[name] = np.ones(sample.shape, graph.types[name]) if name in graph.types else sample
    return samples


def check_samples(graph: Graph, samples: Mapping[str, np.ndarray], preprocess: Preprocess | None) -> int:
    """Checks the samples and returns their number. DataError: there are none, they do not fit the inputs, or are not finite."""
    counts = set()
    for name in graph.inputs:
        if name not in samples:
            raise DataError(f"calibration set: no array for input '{name}'; it has {', '.join(samples) or 'none'}")
        value, shape = samples[name], graph.tensors[name].shape
        if value.ndim != len(shape) or value.shape[1:] != shape[1:]:
            wanted = ", ".join(map(str, ("N", *shape[1:])))
            raise DataError(f"calibration set: array '{name}' has shape {list(value.shape)}; the model's input is [{wanted}]")
        if name in graph.types and not np.can_cast(value.dtype, graph.types[name], "same_kind"):
            raise DataError(f"calibration set: array '{name}' is {value.dtype}; it must be {graph.types[name]}")
        if name in graph.types:
            counts.add(len(value))
            continue
        if value.dtype == np.uint8 and preprocess is None:
            raise DataError(f"calibration set: array '{name}' is uint8; give --scale, --mean and --std, or float32 samples")
        if not np.issubdtype(value.dtype, np.floating) and value.dtype != np.uint8:
            raise DataError(
                f"calibration set: array '{name}' is {value.dtype}; it must be float32, or uint8 with --scale, --mean, --std"
            )
        counts.add(len(value))
    if len(counts) > 1:
        raise DataError(
            f"calibration set: its arrays hold different numbers of samples: {sorted(counts)}; give each the same number"
        )
    (count,) = counts
    if count == 0:
        raise DataError("calibration set: it holds no samples; give some, 100 do")
    return count


@dataclass
class ChannelStatistics:
    """Of each channel of a map: the least and greatest value, and sums over samples: of the mean, and of the mean square."""

    low: np.ndarray
    high: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    samples: int = 1

    @classmethod
    def of(cls, value: np.ndarray) -> "ChannelStatistics":
        """Of one sample, [1, C, H, W]."""
        axes = (0, 2, 3)
        with np.errstate(invalid="ignore"):  # masks of both infinities
            means = value.mean(axis=axes, dtype=np.float64)
        squares = np.square(value, dtype=np.float64).mean(axis=axes)  # of great numbers, beyond float32
        return cls(value.min(axis=axes), value.max(axis=axes), means, squares)

    def extend(self, more: "ChannelStatistics") -> None:
        """Adds another sample."""
        self.low, self.high = np.minimum(self.low, more.low), np.maximum(self.high, more.high)
        self.means, self.squares = self.means + more.means, self.squares + more.squares
        self.samples += more.samples

    @property
    def variances(self) -> np.ndarray:
        """The variance of each channel."""
        with np.errstate(invalid="ignore"):
            return np.maximum(self.squares / self.samples - np.square(self.means / self.samples), 0.0)


def channels(
    graph: Graph,
    tensors: Sequence[str],
    samples: Mapping[str, np.ndarray],
    count: int,
    preprocess: Preprocess | None,
    most: int = FEW,
) -> dict[str, ChannelStatistics]:
    """The channels of some maps, on up to `most` of `count` samples. DataError and ModelError: as of `calibrate`."""
    session = Session.of(graph, tensors)
    found: dict[str, ChannelStatistics] = {}
    for feeds in feeds_of(graph, samples, min(count, most), preprocess):
        values = session.run(feeds)
        for name in tensors:
            one = ChannelStatistics.of(values[name])
            found.setdefault(name, one)
            if found[name] is not one:
                found[name].extend(one)
    return found


def calibrate(
    graph: Graph,
    tensors: tuple[str, ...],
    samples: Mapping[str, np.ndarray],
    histograms: bool,
    preprocess: Preprocess | None = None,
    progress: Progress | None = None,
    watch: Sequence[Watch] = (),
    unseen: Collection[str] = (),
) -> dict[str, Statistics]:
    """Statistics of `tensors`. However many samples there are, it holds the activations of only one in memory.

    unseen: tensors of which no reader shows the least values, so these may be minus infinity; the finite ones count.
    DataError: as `check_samples`, or NaN in a sample, or infinity that reaches one of `tensors`. ModelError: onnxruntime cannot
    run the model, or an output has not the shape that the model declares.
    """
    count = check_samples(graph, samples, preprocess)
    rounds = 2 if histograms else 1
    session = Session.of(graph, [name for name in tensors if name not in graph.inputs])
    statistics = {name: Statistics() for name in tensors}
    for turn in range(rounds):
        for number, feeds in enumerate(feeds_of(graph, samples, count, preprocess)):
            values = session.run(feeds)
            if not turn and not number:
                _check_outputs(graph, values)
            for name in tensors:
                value = feeds[name] if name in feeds else values[name]
                if name in unseen and np.isneginf(value).any() and (finite := value[np.isfinite(value)]).size:
                    value = np.maximum(value, finite.min())
                if not (finite := np.isfinite(value)).all():
                    _check_feeds(name, number, feeds)
                    value = values[name] = statistics[name].tamed(value, finite)
                if turn == 1:
                    statistics[name].count(value)
                else:
                    statistics[name].extend(value)
            for look in watch if turn == 0 else ():
                look(number, feeds, values)
            del values  # they need not be in memory together with those of the next sample
            if progress:
                progress(turn * count + number + 1, rounds * count)
    return statistics


def _check_outputs(graph: Graph, values: Mapping[str, np.ndarray]) -> None:
    """ModelError: an output has another shape than the model declares, where nobody could infer one."""
    for name in graph.outputs:
        if name in values and (said := misdeclared(name, values[name].shape, graph.tensors[name].shape)):
            maker = graph.producer(name)
            raise ModelError(f"{place(maker, graph) if maker else graph.name}: {said}")


def _check_feeds(tensor: str, number: int, feeds: Mapping[str, np.ndarray]) -> None:
    """DataError: a tensor is not finite, and neither is an input."""
    if name := next((name for name, value in feeds.items() if not np.isfinite(value).all()), None):
        reaches = f"holds infinity, which reaches the tensor '{tensor}' for int8; leave it out, or mask behind the network"
        raise DataError(f"calibration set: sample {number} of '{name}' {reaches}")
