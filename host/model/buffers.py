"""Memory for a model's inputs that a camera can fill: on a board contiguous, with an address for a camera's DMA.

The run loop packs from it without a copy before. It is a buffer of pynq's. Its lines are thrown away when it is handed over: a DMA
writes past the cache. What the processor has written goes to DDR before. The memory goes when the session is closed and the last
array in it is forgotten, because a late access must not end the process.
"""

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from cnna.host.board.board_device import BoardDevice
from cnna.host.model.answers import WHOLE
from cnna.spec.errors import DataError, RunError
from cnna.spec.manifest import Manifest
from cnna.spec.names import in_line, in_short


class Memory:
    """The memory of one buffer. name: of the input. free: gives it back to pynq, when nobody refers to this object any more."""

    def __init__(self, board: BoardDevice, name: str, size_bytes: int) -> None:
        caching = board.caching if board.caching is not None and board.caching.allowed() else None
        line = caching.cache.line_bytes if caching else 1
        buffer = board.contiguous(-(-size_bytes // line) * line, caching.allocate if caching else None)
        self.name, self.open = name, True
        self.cache = caching.cache if caching else None
        self.address, self.size = int(buffer.physical_address), size_bytes
        self.array = np.asarray(buffer)[:size_bytes]
        self._freed = weakref.finalize(self, buffer.freebuffer)
        self._freed.atexit = False  # the run loop's thread may still read it, and the kernel takes it back

    def check(self) -> None:
        """RunError: its session is closed."""
        if not self.open:
            raise RunError(f"this buffer of input {self.name} belongs to a session that is closed: ask an open one for its own")

    def hand_over(self) -> None:
        """Lets the host see what a camera's DMA has written. RunError: as of `check`."""
        self.check()
        if self.cache is not None:
            self.cache.invalidate(self.array.ctypes.data, self.size)


class _Held(np.ndarray):
    """What an `InputBuffer` is a view of. Otherwise numpy lets a plain view refer to the array below, and not to the buffer."""


class InputBuffer(np.ndarray):
    """An input's memory on a board, or a part of it. RunError at a use by index: its session is closed."""

    memory: Memory | None = None

    def __array_finalize__(self, other: Any) -> None:
        """A view refers to the memory of what it shows."""
        self.memory = getattr(other, "memory", None)

    @property
    def physical_address(self) -> int:
        """Where a DMA writes the first byte. RunError: the session is closed."""
        assert self.memory is not None
        self.memory.check()
        return self.memory.address + self.ctypes.data - int(self.memory.array.ctypes.data)

    def __getitem__(self, which: Any) -> Any:
        self._check()
        return super().__getitem__(which)

    def __setitem__(self, which: Any, values: Any) -> None:
        self._check()
        super().__setitem__(which, values)

    def _check(self) -> None:
        if self.memory is not None:
            self.memory.check()


def form(manifest: Manifest, name: str) -> tuple[tuple[int, ...], "np.dtype[Any]"]:
    """The shape and type of a whole batch of an input: pictures are uint8 and have their channels last, as cameras give them.

    DataError: there is no such input, or its size is not fixed.
    """
    inputs = {entry["name"]: entry for entry in manifest["model_inputs"]}
    if not isinstance(name, str) or name not in inputs:
        raise DataError(
            f"{manifest['name']} has inputs {in_line(inputs)}; unknown: {name if isinstance(name, str) else in_short(name)}"
        )
    dtype, pictures, sizes = inputs[name]["dtype"], manifest["preprocess"], inputs[name]["shape"]
    shape = tuple(size for size in sizes if size is not None)
    if len(shape) < len(sizes):
        raise DataError(f"input {name} of {manifest['name']} has no fixed size ({list(sizes)}): give it arrays of your own")
    if pictures is not None and dtype not in WHOLE and len(shape) == 3:
        dtype, shape = "uint8", (*shape[1:], shape[0]) if pictures.get("layout", "nchw") == "nchw" else shape
    return (manifest["batch"], *shape), np.dtype(dtype)


def buffer_on(board: BoardDevice, name: str, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> InputBuffer:
    """A buffer in contiguous memory of this machine, filled with zeros. RunError: there is none left."""
    memory = Memory(board, name, int(np.prod(shape)) * dtype.itemsize)
    made = memory.array.view(dtype).reshape(shape).view(_Held).view(InputBuffer)
    made.memory = memory
    made[...] = 0
    memory.hand_over()  # else the zeros would leave the cache after a camera's DMA has written, and replace its picture
    return made


def handed_over(feed: Mapping[str, Any]) -> Mapping[str, Any]:
    """A feed whose buffers the host sees as a camera's DMA has left them. RunError: a buffer's session is closed."""
    found = dict(feed)
    for name, x in feed.items():
        if isinstance(x, InputBuffer) and x.memory is not None:
            x.memory.hand_over()
            found[name] = x if x.dtype == np.float32 else x.view(np.ndarray)  # `inputs` copies a float32 array that is no buffer
    return found
