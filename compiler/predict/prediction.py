"""The predicted clocks of a program, as its manifest holds them: of the whole, of each layer and of each command.

They come from the predictor (`predict`), so reports, the driver and readers of a manifest all have the same figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnna.compiler.predict.timeline import Bar, bars_of, last_clock, layer_clocks
from cnna.spec.config import Config
from cnna.spec.planned import DdrSpeed


@dataclass(frozen=True)
class Prediction:
    """The clocks of a program with a given DDR. layers: the clocks of each; they sum to the total."""

    memory: DdrSpeed
    bars: tuple[Bar, ...]
    layers: tuple[int, ...]

    @property
    def cycles(self) -> int:
        """Clocks from start to done, for one batch."""
        return last_clock(self.bars)

    def total(self) -> dict[str, Any]:
        """The manifest's entry `predicted`."""
        return {"cycles": self.cycles, "ddr": self.memory.entry()}


def predict(program: bytes, config: Config, commands: Sequence[Mapping[str, Any]], layers: int, memory: DdrSpeed) -> Prediction:
    """Plays a program. commands: the manifest's entries, which name the layer of each command. layers: their number."""
    bars = bars_of(program, config, [int(command["layer"]) for command in commands], memory)
    return Prediction(memory, tuple(bars), tuple(layer_clocks(bars, layers)))
