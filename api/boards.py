"""What a PYNQ board has, from its `pynq.Overlay`: the configuration of its accelerator, and what it draws.

from cnna import boards
compiled = cnna.compile("q.onnx", boards.configuration(overlay))
"""

from typing import Any

from cnna.host.board import power as sensors
from cnna.host.board.pynq_driver import open_board
from cnna.spec.config import Config

__all__ = ["configuration", "power"]


def configuration(overlay: Any) -> Config:
    """The configuration of the accelerator. DataError: there is none, or it has another version."""
    return open_board(overlay).config


def power(overlay: Any) -> dict[str, float]:
    """Watts by the name of the rail; empty where there are no sensors, as on a virtual board."""
    return sensors.board(overlay)
