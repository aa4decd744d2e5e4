"""What layers see of samples: products of their inputs with each other and with the outputs that are wanted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from cnna.compiler.quantise.sessions import Session
from cnna.pruning.layers import Layer, Real
from cnna.pruning.values import Array, Network, showing
from cnna.spec.errors import DataError

COLUMNS = 8192  # pixels that a layer is solved from, over all samples
LARGEST = 3072  # taps; a layer with more is not solved: its products would take much memory and time
HELD_OUT = 4  # every fourth sample, from the first one on, is for judging alone

Feeds = Sequence[Mapping[str, Array]]
Count = Callable[[int, int], object]  # samples or layers done, all of them


@dataclass
class Products:
    """Sums over pixels, of each group: inputs by inputs [taps + 1, taps + 1], the last being 1 for the bias; inputs by wanted
    outputs; and squares of these outputs, and of them without their mean.
    """

    inputs: Real
    wanted: Real
    squares: float = 0.0
    pixels: int = 0

    @classmethod
    def empty(cls, layer: Layer) -> "Products":
        """Of no pixel."""
        groups, outputs, taps = layer.rows.shape
        return cls(np.zeros((groups, taps + 1, taps + 1)), np.zeros((groups, taps + 1, outputs)))

    def add(self, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
        """Adds pixels: [groups, taps, pixels] and [groups, outputs, pixels]."""
        ones = np.concatenate([x, np.ones((len(x), 1, x.shape[2]), np.float32)], axis=1)
        self.inputs += ones @ ones.swapaxes(1, 2)
        self.wanted += ones @ y.swapaxes(1, 2)
        self.squares += float(np.square(y, dtype=np.float64).sum())
        self.pixels += x.shape[2]

    def error(self, rows: Real) -> float:
        """The sum of squared errors of rows with a bias behind the taps, [groups, outputs, taps + 1]."""
        made = np.einsum("got,gtu,gou->", rows, self.inputs, rows, optimize=True)
        return float(made - 2 * np.einsum("got,gto->", rows, self.wanted) + self.squares)

    @property
    def finite(self) -> bool:
        """Whether layers can be solved from it."""
        return bool(np.isfinite(self.squares) and np.isfinite(self.inputs).all() and np.isfinite(self.wanted).all())

    @property
    def power(self) -> float:
        """The variance of the wanted outputs, summed."""
        return self.squares - float(np.square(self.wanted[:, -1]).sum()) / max(self.pixels, 1)

    def __add__(self, other: "Products") -> "Products":
        both = [(getattr(self, key), getattr(other, key)) for key in ("inputs", "wanted", "squares", "pixels")]
        return Products(*(one + more for one, more in both))


def chosen_pixels(layer: Layer, number: int, samples: int, pixels: int) -> NDArray[np.int64]:
    """The pixels of a sample from which a layer is solved: the same in every network."""
    most = -(-COLUMNS // samples)
    if pixels <= most:
        return np.arange(pixels)
    return np.sort(np.random.default_rng((layer.number, number)).choice(pixels, most, replace=False))


def runs(model: ModelProto, name: str, tensors: Sequence[str], feeds: Feeds) -> Iterator[dict[str, Array]]:
    """Some tensors, sample by sample."""
    session = Session(showing(model, tensors).SerializeToString(), name)
    inputs = {value.name for value in model.graph.input}
    for one in feeds:
        yield {**one, **session.run({key: value for key, value in one.items() if key in inputs})}


@dataclass
class Known:
    """What the float network does: products of each layer, and what it makes at the chosen pixels, sample by sample.

    held: products of the samples held out. sums: what the Add behind a layer makes, where there is one.
    """

    products: dict[int, Products]
    held: dict[int, Products]
    targets: dict[int, list[NDArray[np.float32]]]
    sums: dict[int, list[NDArray[np.float32]]]


def known(network: Network, layers: Sequence[Layer], feeds: Feeds, adds: Mapping[int, str], count: Count) -> Known:
    """Runs the float network. adds: by a layer, the output of the Add behind it. DataError: numbers are too great or NaN."""
    empty, held = ({layer.number: Products.empty(layer) for layer in layers} for _ in range(2))
    found = Known(empty, held, {}, {})
    names = [name for layer in layers for name in (layer.node.input[0], layer.node.output[0])] + [*adds.values()]
    wanted = [name for name in dict.fromkeys(names) if name not in network.inputs()]
    if not wanted:  # there are no layers, or all have too many taps: a model without outputs cannot be run
        return found
    for number, values in enumerate(runs(network.proto, network.name, wanted, feeds)):
        for layer in layers:
            out = network.shapes[layer.node.output[0]]
            chosen = chosen_pixels(layer, number, len(feeds), layer.pixels(out))
            y = layer.outputs(values[layer.node.output[0]], chosen)
            part = found.held if number % HELD_OUT == 0 else found.products
            with np.errstate(over="ignore", invalid="ignore"):
                part[layer.number].add(layer.columns(values[layer.node.input[0]], out, chosen), y)
            if not part[layer.number].finite:
                what = f"reads or makes numbers of sample {number} that are NaN, or whose squares are beyond float32"
                remedy = "give samples in the range that the model was trained for"
                raise DataError(f"{network.name}: node '{network.called(layer.number)}' {what}; {remedy}")
            found.targets.setdefault(layer.number, []).append(y)
            if layer.number in adds:
                found.sums.setdefault(layer.number, []).append(layer.outputs(values[adds[layer.number]], chosen))
        count(number + 1, len(feeds))
    return found
