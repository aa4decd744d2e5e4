"""Models that answer: floats in, floats out, on a board or on a simulated device.

Users and the command line import it; it imports `device` and `board`, and opens simulated devices by name.
`cnna.host.model.Model` runs on any device. Begin with `model`, then `board_model`, the model on a PYNQ board.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cnna.host.model.model import Model

__all__ = ["Model"]


def __getattr__(name: str) -> Any:
    """Imports `Model` when it is first used: the command line imports this room and starts faster without it."""
    if name == "Model":
        from cnna.host.model.model import Model

        return Model
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
