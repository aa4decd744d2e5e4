"""What a pruned network takes: the compiler's prediction, and a quick estimate from the steps of the array."""

from collections.abc import Collection, Mapping, Sequence
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
    """How many steps of the array each layer takes, for any channels that are left."""

    found: Followed
    layers: Mapping[int, Layer]
    config: Config

    def of(self, number: int, left: Cut) -> int:
        """Blocks of inputs by blocks of outputs of one pixel."""
        layer = self.layers[number]
        inputs, outputs = (self.width(name, left) for name in (layer.node.input[0], layer.node.output[0]))
        if layer.groups > 1:
            return -(-outputs // self.config.ci)
        return -(-inputs // self.config.ci) * -(-outputs // self.config.co)

    def width(self, name: str, left: Cut) -> int:
        """Channels of a map that are left; of a product's input, the numbers along its last axis."""
        masks, shape = left.masks(name), self.found.network.shapes[name]
        if masks:
            return int(next(iter(masks.values())).sum())
        return shape[CHANNELS] if len(shape) > MATRIX else shape[-1]

    def touched(self, roots: Collection[int]) -> list[int]:
        """The layers that make or read some channels."""
        gone = Cut(self.found, roots)
        names = {number: (layer.node.input[0], layer.node.output[0]) for number, layer in self.layers.items()}
        return [number for number, both in names.items() if any(not m.all() for name in both for m in gone.masks(name).values())]

    def saved(self, now: Clocks, before: Cut, after: Cut, touched: Sequence[int]) -> float:
        """About how many clocks fewer some channels less are. touched: as of the function."""
        saved = 0.0
        for number in touched:
            spent, old = now.nodes.get(number, 0), self.of(number, before)
            saved += spent * (1 - self.of(number, after) / old) if spent and old else 0.0
        return saved
