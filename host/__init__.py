"""Runs artifacts on a device. Imports numpy alone; pynq and onnxruntime inside functions, where they are present.

`cnna.host.Model` is a model on a PYNQ board (`session`); `cnna.host.model.model.Model` one on any device.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cnna.host.model.board_model import Model

__all__ = ["Model"]


def __getattr__(name: str) -> Any:
    """Imports `Model` when it is wanted: the command line does without."""
    if name == "Model":
        from cnna.host.model.board_model import Model

        return Model
    raise AttributeError(name)
