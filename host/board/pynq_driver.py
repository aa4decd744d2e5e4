"""The driver that pynq binds to the accelerator: a `pynq.DefaultIP`, which pynq finds through the entry point `pynq.lib`.

pynq imports this module when an overlay is made. Without pynq, the module has only `open_board`, which then says what is missing.
"""

import sys
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cnna.host.board.board_device import BoardDevice
from cnna.host.board.cached_memory import CachedMemory, proof_of
from cnna.host.board.interrupt import interrupt_of
from cnna.host.board.mover import reset_dma
from cnna.host.board.overlay import check_loaded, check_remembered
from cnna.host.board.stream_device import StreamDevice
from cnna.host.native import library
from cnna.host.native.cache import own_cache
from cnna.spec.errors import DataError, ToolError
from cnna.spec.extras import install
from cnna.spec.identity import DMA_VLNV, DRIVEN_VLNVS, VLNV

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
    names = [name for name, entry in ip_dict.items() if entry["type"] in DRIVEN_VLNVS]
    if not names:
        near = [entry["type"] for entry in ip_dict.values() if str(entry["type"]).startswith(VLNV.rpartition(":")[0])]
        found = f"another version, {near[0]}" if near else f"{', '.join(sorted(ip_dict)) or 'nothing'}"
        raise DataError(
            f"the overlay has no {VLNV}, nor an older one from {DRIVEN_VLNVS[-1]} on, which this cnna drives; it has {found}"
        )
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
        raise ToolError(f"pynq is not installed: on a board it is part of the image; elsewhere {install('board')}") from None

    class AcceleratorIP(pynq.DefaultIP):
        """The accelerator's registers; `accelerator` is what models run on."""

        bindto = DRIVEN_VLNVS

        def __init__(self, description: Any) -> None:
            super().__init__(description)
            self._description = description

        @cached_property
        def accelerator(self) -> BoardDevice:
            """The device, opened at first use and shared by all users of the loaded overlay. DataError: files of two builds."""
            loaded = self.mmio.base_addr, getattr(self.device, "bitfile_name", None), getattr(self.device, "timestamp", None)
            kept = getattr(self.device, KEPT, None)
            if kept is None or kept[0] != loaded:
                kept = loaded, _opened(self.mmio, self.device, self._description)
                setattr(self.device, KEPT, kept)
            made: BoardDevice = kept[1]
            return made

    return AcceleratorIP


def _opened(mmio: Any, device: Any, description: dict[str, Any]) -> BoardDevice:
    """Opens and checks the accelerator behind these registers. It is of variant `pl` if the overlay has an AXI DMA."""
    import pynq

    bit, parameters = getattr(device, "bitfile_name", None), description.get("parameters")
    check_loaded(bit)  # before any access, because a wrong .hwh has wrong addresses
    check_remembered(bit, parameters or {})

    def allocate(size: int) -> Any:
        return pynq.allocate((size,), np.uint8, target=device)

    dmas = [entry for entry in device.ip_dict.values() if entry["type"] == DMA_VLNV]
    if dmas:
        return StreamDevice(mmio, device, allocate, lambda: _open_dma({**dmas[0], "device": device}), parameters)
    if not device.has_capability("MEMORY_MAPPED"):
        return BoardDevice(mmio, device, allocate, parameters)
    # a device of this machine, whose buffers pynq does not cache by default
    wires = [wire for wire in description.get("interrupts", {}).values() if wire.get("controller")]
    found = interrupt_of(mmio.base_addr, wires[0]["controller"] if wires else "")
    return BoardDevice(mmio, device, allocate, parameters, uncached=True, caching=_caching(device, bit), interrupt=found)


def _caching(device: Any, bit: str | None) -> CachedMemory | None:
    """Cached memory of a device of this machine; None: a program cannot maintain the cache here."""
    import pynq

    if (own := own_cache()) is None:
        return None
    proof = proof_of(Path(bit) if bit else None, library.native().calls.cnna_host_sources().decode())
    return CachedMemory(lambda size: pynq.allocate((size,), np.uint8, target=device, cacheable=1), own, proof)


def _open_dma(description: dict[str, Any]) -> Any:
    """Resets the DMA and opens pynq's driver for it. Without the reset, the driver would wait forever for a DMA that has halted."""
    import pynq
    from pynq.lib.dma import DMA

    reset_dma(pynq.MMIO(description["phys_addr"], description["addr_range"], device=description["device"]))
    return DMA(description)


if "pynq" in sys.modules:  # pynq itself imports this module, to find the driver
    bind()
