"""The driver that pynq binds to the accelerator: a `pynq.DefaultIP`, which pynq finds through the entry point `pynq.lib`.

pynq imports this module when an overlay is made. Without pynq, the module has only `open_board`, which then says what is missing.
"""

import sys
from functools import cache, cached_property
from typing import Any

import numpy as np

from cnna.host.board.board_device import BoardDevice
from cnna.host.board.mover import reset_dma
from cnna.host.board.overlay import check_loaded, check_remembered
from cnna.host.board.stream_device import StreamDevice
from cnna.spec.errors import DataError, ToolError
from cnna.spec.identity import DMA_VLNV, VLNV

KEPT = "_cnna_accelerator"  # attribute of a pynq device: the loaded bitstream, and the accelerator in it


def open_board(board: Any) -> BoardDevice:
    """The accelerator of a `pynq.Overlay`, or of a pynq device that has one loaded. It is the same object until another is loaded.

    DataError: there is no accelerator, it has another version, or the overlay's files are of two builds.
    """
    if isinstance(board, BoardDevice):
        return board
    bind()
    ip_dict = getattr(board, "ip_dict", None)
    if ip_dict is None:
        raise DataError(f"{type(board).__name__} is neither a pynq.Overlay nor a pynq device with one")
    names = [name for name, entry in ip_dict.items() if entry["type"] == VLNV]
    if not names:
        near = [entry["type"] for entry in ip_dict.values() if str(entry["type"]).startswith(VLNV.rpartition(":")[0])]
        found = f"another version, {near[0]}" if near else f"{', '.join(sorted(ip_dict)) or 'nothing'}"
        raise DataError(f"the overlay has no {VLNV}, which this cnna needs; it has {found}")
    if hasattr(board, "device"):  # an overlay, which makes its IP object only once
        ip = getattr(board, names[0])
        if not hasattr(ip, "accelerator"):
            raise DataError(f"{names[0]} was bound to {type(ip).__name__}: import cnna.host before the overlay is made")
    else:
        ip = bind()({**ip_dict[names[0]], "device": board})
    accelerator: BoardDevice = ip.accelerator
    return accelerator


@cache
def bind() -> Any:
    """The driver's class. The first call makes it and registers it with pynq. ToolError: pynq is not installed."""
    try:
        import pynq
    except ImportError:
        raise ToolError("pynq is not installed: on a board it is part of the image; elsewhere pip install 'cnna[board]'") from None

    class AcceleratorIP(pynq.DefaultIP):
        """The accelerator's registers; `accelerator` is what models run on."""

        bindto = (VLNV,)

        def __init__(self, description: Any) -> None:
            super().__init__(description)
            self._description = description

        @cached_property
        def accelerator(self) -> BoardDevice:
            """The device, opened at first use and shared by all users of the loaded overlay. DataError: files of two builds."""
            loaded = self.mmio.base_addr, getattr(self.device, "bitfile_name", None), getattr(self.device, "timestamp", None)
            kept = getattr(self.device, KEPT, None)
            if kept is None or kept[0] != loaded:
                kept = loaded, _opened(self.mmio, self.device, self._description.get("parameters"))
                setattr(self.device, KEPT, kept)
            made: BoardDevice = kept[1]
            return made

    return AcceleratorIP


def _opened(mmio: Any, device: Any, parameters: dict[str, str] | None) -> BoardDevice:
    """Opens and checks the accelerator behind these registers. It is of variant `pl` if the overlay has an AXI DMA."""
    import pynq

    bit = getattr(device, "bitfile_name", None)
    check_loaded(bit)  # before any access, because a wrong .hwh has wrong addresses
    check_remembered(bit, parameters or {})

    def allocate(size: int) -> Any:
        return pynq.allocate((size,), np.uint8, target=device)

    dmas = [entry for entry in device.ip_dict.values() if entry["type"] == DMA_VLNV]
    if not dmas:
        mapped = device.has_capability("MEMORY_MAPPED")  # a device of this machine, whose buffers pynq does not cache by default
        return BoardDevice(mmio, device, allocate, parameters, uncached=mapped)
    return StreamDevice(mmio, device, allocate, lambda: _open_dma({**dmas[0], "device": device}), parameters)


def _open_dma(description: dict[str, Any]) -> Any:
    """Resets the DMA and opens pynq's driver for it. Without the reset, the driver would wait forever for a DMA that has halted."""
    import pynq
    from pynq.lib.dma import DMA

    reset_dma(pynq.MMIO(description["phys_addr"], description["addr_range"], device=description["device"]))
    return DMA(description)


if "pynq" in sys.modules:  # pynq itself imports this module, to find the driver
    bind()
