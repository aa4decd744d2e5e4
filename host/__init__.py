"""Runs artifacts on a device. Imports numpy alone; pynq and onnxruntime are imported inside functions, where they are present.

`cnna.host.Model` is a model on a PYNQ board (`model.board_model.BoardModel`). `cnna.host.model.Model` is one on any device.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cnna.host.model.board_model import BoardModel as Model

__all__ = ["Model"]


def __getattr__(name: str) -> Any:
    """Imports the class when it is first used: the command line imports this package and starts faster without it."""
    if name == "Model":
        from cnna.host.model.board_model import BoardModel

        return BoardModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
