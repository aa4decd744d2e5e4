"""What a pruned network takes: the compiler's prediction, and a quick estimate from the steps of the array."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx import ModelProto

from cnna.compiler.explain.explain import explain
from cnna.compiler.frontend.onnx_import import source_of
from cnna.pruning.cut import Cut
from cnna.pruning.follow import CHANNELS, Followed
from cnna.pruning.layers import Layer
from cnna.spec.config import Config
from cnna.spec.errors import ModelError

NODE = "node "  # begins the names that nodes get, so that rows are found again
MATRIX = 3  # the most axes of what a matrix product reads


@dataclass(frozen=True)
class Clocks:
    """Predicted clocks of an image: all, and those of each node by its number."""

    total: int
    nodes: Mapping[int, int]


def clocks(model: ModelProto, config: Config) -> Clocks:
    """The compiler's prediction. ModelError: the network does not compile for the configuration."""
    named = ModelProto()
    named.CopyFrom(model)
    for number, node in enumerate(named.graph.node):
        node.name = f"{NODE}{number}"
    found = explain(source_of(named), config)
    if found.cycles is None:
        raise ModelError(f"{model.graph.name}: {'; '.join(found.problems)}")
    if not found.cycles:
        why = "nothing of it runs on the accelerator, so no clocks can be saved (cnna explain says why)"
        raise ModelError(f"{model.graph.name}: {why}")
    own = [row for row in found.rows if row.clocks and row.name.startswith(NODE)]
    return Clocks(found.cycles, {int(row.name.removeprefix(NODE)): row.clocks or 0 for row in own})


@dataclass(frozen=True, eq=False)
class Steps:
    """How wide maps are, for any channels that are left."""

    found: Followed
    layers: Mapping[int, Layer]
    config: Config

    def width(self, name: str, left: Cut) -> int:
        """Channels of a map that are left; of a product's input, the numbers along its last axis."""
        masks, shape = left.masks(name), self.found.network.shapes[name]
        if masks:
            return int(next(iter(masks.values())).sum())
        return shape[CHANNELS] if len(shape) > MATRIX else shape[-1]


class Estimate:
    """Clocks of any widths, quickly: what the layers took when they were last predicted, by blocks. Each prediction teaches it.

    orders: the channels of each family, the first to go first, and how many it has in all.
    """

    def __init__(self, steps: Steps, orders: Mapping[str, tuple[Sequence[int], int]]) -> None:
        self._config, self._channels = steps.config, {name: channels for name, (_, channels) in orders.items()}
        places = {root: (name, place) for name, (order, _) in orders.items() for place, root in enumerate(order)}
        whole = Cut(steps.found, ())
        self._layers: dict[int, tuple[bool, _Width, _Width]] = {}
        for number, layer in steps.layers.items():
            sides = []
            for name in (layer.node.input[0], layer.node.output[0]):
                axes = steps.found.of(name)
                roots = steps.found.coupled.roots(next(iter(axes.values()))).tolist() if axes else []
                sides.append(_Width.of(steps.width(name, whole), [places[root] for root in roots if root in places]))
            self._layers[number] = (layer.groups > 1, sides[0], sides[1])
        self._seen: dict[int, dict[int, float]] = {number: {} for number in self._layers}
        self._predicted: dict[tuple[tuple[str, int], ...], int] = {}
        self._rest = 0.0

    def learn(self, widths: Mapping[str, int], found: Clocks) -> None:
        """Takes over a prediction."""
        for number, seen in self._seen.items():
            seen[self._blocks(number, widths)] = found.nodes.get(number, 0)
        self._rest = found.total - self._sum(widths)
        self._predicted[self._key(widths)] = found.total

    def __call__(self, widths: Mapping[str, int]) -> float:
        told = self._predicted.get(self._key(widths))
        return self._sum(widths) + self._rest if told is None else told

    def _key(self, widths: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
        return tuple(sorted((name, width) for name, width in widths.items() if width < self._channels[name]))

    def _sum(self, widths: Mapping[str, int]) -> float:
        return sum(self._layer(number, widths) for number in self._layers)

    def _layer(self, number: int, widths: Mapping[str, int]) -> float:
        blocks, seen = self._blocks(number, widths), self._seen[number]
        if blocks in seen or not seen or not blocks:
            return seen.get(blocks, 0.0)
        near = min((one for one in seen if one > blocks), default=max(seen))
        return seen[near] * blocks / near

    def _blocks(self, number: int, widths: Mapping[str, int]) -> int:
        """Blocks of inputs by blocks of outputs of one pixel."""
        grouped, inputs, outputs = self._layers[number]
        gone = {name: self._channels[name] - width for name, width in widths.items()}
        if grouped:
            return -(-outputs.left(gone) // self._config.ci)
        return -(-inputs.left(gone) // self._config.ci) * -(-outputs.left(gone) // self._config.co)


@dataclass(frozen=True)
class _Width:
    """Channels on one side of a layer. families: the places that these have in the order of each family, sorted."""

    whole: int
    families: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, whole: int, places: Sequence[tuple[str, int]]) -> "_Width":
        found: dict[str, list[int]] = {}
        for name, place in sorted(places):
            found.setdefault(name, []).append(place)
        return cls(whole, found)

    def left(self, gone: Mapping[str, int]) -> int:
        """What is left where the first ones of families are gone."""
        return self.whole - sum(bisect_left(self.families[name], count) for name, count in gone.items() if name in self.families)
