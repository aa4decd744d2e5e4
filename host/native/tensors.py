"""Tensors of a port, from the user's array to the bytes in DDR and back: natively in one pass, else by `spec.samples.pack`.

Both ways give the same bytes. `Packing` is an input port, ready to pack; a `Feed` is what it gets in one run; `Unpacking` is an
output port.
"""

import ctypes
from ctypes import addressof, byref
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.native import library
from cnna.host.native.library import CPort, CTensor
from cnna.spec.errors import DataError
from cnna.spec.manifest import Port
from cnna.spec.samples import pack

TYPES = {"uint8": library.UINT8, "int8": library.INT8, "float32": library.FLOAT32}
MOST_AXIS = 1 << 20  # of a tensor that goes to the library

first_byte: Any = ctypes.c_char.from_buffer  # of an array: its address is known sooner than from `x.ctypes`


def address_of(x: NDArray[Any]) -> int:
    """Where a dense array begins."""
    try:
        return addressof(first_byte(x))
    except (TypeError, ValueError):  # it is read-only
        return int(x.ctypes.data)


@dataclass(frozen=True, eq=False)
class Packing:
    """An input port. table: int8 [C, 256], what each value of a uint8 picture becomes; None: uint8 are the model's own integers."""

    port: Port
    ci: int
    table: NDArray[np.int8] | None = None

    def int8(self, x: NDArray[Any]) -> NDArray[np.int8]:
        """int8 [n, C, H, W] of samples: pictures by the table, a model's own integers as they are, float32 by rounding.

        DataError: x has NaN.
        """
        if x.dtype == np.uint8 and self.table is not None:
            return pack.lookup(x, self.table)
        upright = x.reshape(len(x), *self.port["shape"])
        if x.dtype.name in pack.WHOLE_BYTES:
            return pack.from_whole(upright)
        return pack.quantise(upright, self.port["scale"], self.port["zero"], self.port["name"])

    def packed(self, x: NDArray[Any], images: int) -> NDArray[np.uint8]:
        """The port's bytes for so many images, from at most as many samples. Copies of the last sample complete them."""
        if library.native().calls is None:
            return self._by_numpy(x, images)
        memory = np.empty(images * self.port["image_bytes"], np.uint8)
        self.pack_into(x, images, memory)
        return memory

    def _by_numpy(self, x: NDArray[Any], images: int) -> NDArray[np.uint8]:
        q = self.int8(x)
        return pack.pack(self.port, q[np.minimum(np.arange(images), len(q) - 1)], self.ci)

    def pack_into(self, x: NDArray[Any], images: int, memory: NDArray[np.uint8]) -> None:
        """Writes what `packed` returns to memory that is dense. DataError: x has NaN."""
        calls = library.native().calls
        tensor = self.tensor(x) if calls is not None else None
        if tensor is None:
            memory[:] = self._by_numpy(x, images)
            return
        table = None if self.table is None else self.table.ctypes.data
        code = calls.cnna_pack(byref(self.c_port), byref(tensor), table, images, memory.ctypes.data, memory.size)
        if code == library.NAN:
            raise DataError(f"tensor {self.port['name']} holds NaN, for which int8 has no value")
        library.check(code, f"packing {self.port['name']}")

    def tensor(self, x: NDArray[Any]) -> CTensor | None:
        """The samples for the library; None: their type is none of its own, or they are larger than it takes."""
        kind = TYPES.get(x.dtype.name) if x.dtype.isnative else None
        if kind is None or (kind == library.UINT8 and self.table is None):
            return None
        upright = x.reshape(len(x), *self.port["shape"])  # a view wherever one is possible
        if max(upright.shape) > MOST_AXIS or not upright.size:
            return None
        made = CTensor(upright.ctypes.data, kind, upright.shape, upright.strides)
        made.kept = upright  # its memory must live as long as the pointer
        return made

    @cached_property
    def c_port(self) -> CPort:
        """The port for the library."""
        return described(self.port, self.ci)


@dataclass(frozen=True, eq=False)
class Feed:
    """What an input port gets in one run: samples, not converted yet. images: the batch; copies of the last sample complete it."""

    packing: Packing
    x: NDArray[Any]
    images: int

    def int8(self) -> NDArray[np.int8]:
        """int8 [images, C, H, W]. DataError: as of `Packing`."""
        return self.packing.int8(self.x)[np.minimum(np.arange(self.images), len(self.x) - 1)]

    def packed(self) -> NDArray[np.uint8]:
        """The port's bytes. DataError: as of `Packing`."""
        return self.packing.packed(self.x, self.images)


@dataclass(frozen=True, eq=False)
class Unpacking:
    """An output port."""

    port: Port
    ci: int

    def int8(self, memory: NDArray[np.uint8], images: int) -> NDArray[np.int8]:
        """int8 [images, C, H, W] from the bytes of at least so many images."""
        return self._unpacked(memory, images, np.int8)

    def real(self, memory: NDArray[np.uint8], images: int) -> NDArray[np.float32]:
        """(q - zero) * scale as float32 [images, C, H, W]."""
        return self._unpacked(memory, images, np.float32)

    def _unpacked(self, memory: NDArray[np.uint8], images: int, kind: Any) -> NDArray[Any]:
        calls = library.native().calls
        if calls is None or max(self.port["shape"]) > MOST_AXIS:
            q = pack.unpack(self.port, memory[: images * self.port["image_bytes"]], self.ci)
            return q if kind is np.int8 else pack.dequantise(q, self.port["scale"], self.port["zero"])
        answer = np.empty((images, *self.port["shape"]), kind)
        code = calls.cnna_unpack(
            byref(self.c_port), memory.ctypes.data, memory.size, images, TYPES[answer.dtype.name], answer.ctypes.data, answer.size
        )
        library.check(code, f"unpacking {self.port['name']}")
        return answer

    @cached_property
    def c_port(self) -> CPort:
        """The port for the library."""
        return described(self.port, self.ci)


def described(port: Port, ci: int) -> CPort:
    """A port of a manifest for the library."""
    fold = port.get("fold") or {"shape": port["shape"], "step": (1, 1), "span": (1, 1), "before": (0, 0)}
    rows = (port["image_bytes"], port["block_bytes"], port["row_bytes"])
    how = (tuple(fold["shape"]), tuple(fold["step"]), tuple(fold["span"]), tuple(fold["before"]))
    return CPort(ci, *rows, *how, port["zero"], port["scale"])
