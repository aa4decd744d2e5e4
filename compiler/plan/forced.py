"""What somebody else has chosen of a plan, so that the compiler need not: of a layer its tiles and where its map lies.

The compiler chooses the rest. Whoever forces a choice may make a program slower, but not wrong: all plans pass the same checks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cnna.compiler.lower.kernels import Kernel, Lowered, views_of
from cnna.spec.config import Config
from cnna.spec.errors import ModelError


@dataclass(frozen=True)
class ForcedLayer:
    """Of the kernels of a layer. rows, blocks: of the tiles, None leaves them open. ddr: whether the output lies in DDR; False does
    not keep it on chip where there is no room.
    """

    rows: int | None = None
    blocks: int | None = None
    ddr: bool = False

    def allows(self, rows: int, blocks: int) -> bool:
        """Whether tiles may have this size."""
        return self.rows in (None, rows) and self.blocks in (None, blocks)


@dataclass(frozen=True)
class Forced:
    """layers: by their number in the graph that was lowered. names: of these layers, for messages."""

    layers: Mapping[int, ForcedLayer] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)

    def of(self, kernel: Kernel) -> ForcedLayer | None:
        """What is forced of a kernel; None: nothing."""
        return self.layers.get(kernel.layer)

    def in_ddr(self, kernels: Sequence[Kernel]) -> set[str]:
        """The maps that have to lie in DDR."""
        return {views_of(kernel)["dest"].map for kernel in kernels if (own := self.of(kernel)) and own.ddr}

    def check(self, lowered: Lowered, config: Config, name: str) -> None:
        """ModelError: a layer cannot have such tiles. name: of the network."""
        for kernel in lowered.kernels:
            own = self.of(kernel)
            if own is None:
                continue
            layer, blocks = self.names.get(kernel.layer, kernel.tensor), kernel.dest.blocks
            height = lowered.maps[kernel.dest.map].height
            if own.rows is not None and not 1 <= own.rows <= height:
                raise ModelError(f"{name}: '{layer}' cannot have tiles of {own.rows} rows; it has 1 to {height}")
            if own.blocks not in (None, blocks, *range(config.chunk_blocks, blocks, config.chunk_blocks)):
                step = f"multiples of {config.chunk_blocks} below {blocks}, and {blocks}"
                raise ModelError(f"{name}: '{layer}' cannot have tiles of {own.blocks} blocks; there are {step}")


NOTHING = Forced()
