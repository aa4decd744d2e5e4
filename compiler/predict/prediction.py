"""The predicted clocks of a program, as its manifest holds them: of the whole, of each layer and of each command.

They are the predictor's (`predict`), so that reports, the driver and users who read a manifest all have one figure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnna.compiler.predict.timeline import Bar, bars_of, last_clock, layer_clocks
from cnna.spec.config import Config
from cnna.spec.planned import DdrSpeed


@dataclass(frozen=True)
class Prediction:
    """What a program takes with a memory. layers: clocks of each, which sum to those of the whole."""

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
    """Plays a program of so many layers. commands: those of its manifest, which say whose each command is."""
    bars = bars_of(program, config, [int(command["layer"]) for command in commands], memory)
    return Prediction(memory, tuple(bars), tuple(layer_clocks(bars, layers)))
