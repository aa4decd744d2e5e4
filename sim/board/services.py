"""PYNQ.remote's four gRPC services for a `VirtualBoard`. Their base classes are pynq's own, so client and server cannot differ.

The handle of a register window names the window, so the server stores nothing for it. A buffer belongs to the connection that
allocated it; `connections` frees the buffers of connections that have ended.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np

from cnna.sim.board.board import VirtualBoard
from cnna.sim.board.connections import Connections
from cnna.sim.board.refused import RefusedError, invalid

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pynq warns that this machine is not a board; only its message classes are used here
    from pynq.remote import buffer_pb2, buffer_pb2_grpc, gpio_pb2, gpio_pb2_grpc, mmio_pb2, mmio_pb2_grpc
    from pynq.remote import remote_device_pb2 as device_pb2
    from pynq.remote import remote_device_pb2_grpc as device_pb2_grpc

CHUNK_BYTES = 2 << 20  # size of a piece of an answer; pynq cuts its requests in the same way


PINS = 174  # GPIO pins of a Zynq UltraScale+ PS
FIRST_PIN = 338  # Linux number of the first one on a ZCU102

Context = Any  # grpc.ServicerContext


class BoardService:
    """A service of the board, which knows the board's connections."""

    def __init__(self, board: VirtualBoard, connections: Connections) -> None:
        self.board, self.connections = board, connections

    @contextmanager
    def answering(self, context: Context) -> Iterator[None]:
        """Notes that the client is alive, and turns a refusal into a gRPC status."""
        self.connections.seen(context.peer())
        try:
            yield
        except RefusedError as error:
            context.abort(grpc.StatusCode[error.code], str(error))


class DeviceService(BoardService, device_pb2_grpc.RemoteDeviceServicer):
    """The service for files and the FPGA manager."""

    def existsfile(self, request: Any, context: Context) -> Any:
        """Whether a file or folder exists."""
        return device_pb2.ExistsFileResponse(exists=self.board.files.exists(request.file_path))

    def readfile(self, request: Any, context: Context) -> Iterator[Any]:
        """Sends a file in pieces."""
        with self.answering(context):
            data = self.board.files.read(request.file_path)
        for start in range(0, len(data), CHUNK_BYTES):
            yield device_pb2.ReadFileResponse(data=data[start : start + CHUNK_BYTES])

    def writefile(self, requests: Iterator[Any], context: Context) -> Any:
        """Receives a file in pieces. It replaces the old file when the last piece has come, or not at all."""
        path, content = None, bytearray()
        with self.answering(context), self.board.files.coming() as coming:
            for request in requests:
                path = request.file_path
                coming.more(path, len(request.data))
                content += request.data
            if path is None:
                raise invalid("the file has no name")
            self.board.files.write(path, bytes(content))
        return device_pb2.WriteFileResponse()

    def set_bitstream_attrs(self, request: Any, context: Context) -> Any:
        """Refuses partial images. Does nothing else, because the name comes again when it is written to the FPGA manager."""
        with self.answering(context):
            if request.partial:
                raise invalid(f"{request.binfile_name}: the virtual board takes no partial bitstream")
        return device_pb2.SetBitstreamAttrsResponse(status=True)

    def set_pl_clk(self, request: Any, context: Context) -> Any:
        """Does nothing, because pynq sets the registers itself and the simulation has no other clock."""
        return device_pb2.SetPlClkResponse(status=True)

    def shutdown(self, request: Any, context: Context) -> Any:
        """Does nothing, because no part of the design must be stopped before another design is loaded."""
        return device_pb2.ShutdownResponse(status=True)


class Mmio(BoardService, mmio_pb2_grpc.MmioServicer):
    """The service for registers. A handle is `base:length` in hexadecimal."""

    def get_mmio(self, request: Any, context: Context) -> Any:
        """Gives a handle for a range of addresses, which must lie in one window."""
        with self.answering(context):
            self.board.fabric.check(request.base_addr, request.length)
        return mmio_pb2.GetMmioResponse(status=True, mmio_id=f"{request.base_addr:x}:{request.length:x}")

    def read(self, request: Any, context: Context) -> Any:
        """Reads one word, or its lowest bytes. The answer has no room for eight."""
        with self.answering(context):
            if request.length not in (1, 2, 4):
                raise invalid(f"a read of {request.length} bytes: PYNQ.remote's answer holds at most 4")
            address = self._address(request, request.length)
            word = self.board.fabric.read(address) & ((1 << 8 * request.length) - 1)
        return mmio_pb2.ReadResponse(status=True, data=word)

    def write(self, request: Any, context: Context) -> Any:
        """Writes whole words, one after another."""
        with self.answering(context):
            if not request.data or len(request.data) % 4:
                raise invalid(f"a write of {len(request.data)} bytes: it must be whole words of 4 bytes")
            address = self._address(request, len(request.data))
            for index, word in enumerate(np.frombuffer(request.data, "<u4").tolist()):
                self.board.fabric.write(address + 4 * index, word)
        return mmio_pb2.WriteResponse(status=True)

    @staticmethod
    def _address(request: Any, size: int) -> int:
        try:
            base, length = (int(part, 16) for part in request.mmio_id.split(":"))
        except ValueError:
            raise invalid(f"{request.mmio_id!r} is not a handle of registers") from None
        if request.offset + size > max(length, 4):
            raise invalid(f"offset {request.offset:#x} is beyond the {length:#x} bytes at {base:#x}")
        return base + int(request.offset)


class Buffers(BoardService, buffer_pb2_grpc.RemoteBufferServicer):
    """The service for contiguous memory."""

    def __init__(self, board: VirtualBoard, connections: Connections) -> None:
        super().__init__(board, connections)
        self.dram = board.dram

    def allocate(self, request: Any, context: Context) -> Any:
        """Gives a new buffer. If there is no room, frees the buffers of clients that have left."""
        with self.answering(context):
            try:
                buffer = self.dram.allocate(request.size, context.peer())
            except RefusedError:
                if not self.connections.sweep(idle=True):
                    raise
                buffer = self.dram.allocate(request.size, context.peer())
        return buffer_pb2.AllocateResponse(buffer_id=buffer.name)

    def write(self, requests: Iterator[Any], context: Context) -> Any:
        """Receives bytes in pieces, from the buffer's beginning on."""
        done = 0
        with self.answering(context):
            for request in requests:
                buffer = self.dram.buffer(request.buffer_id)
                end = done + len(request.data)
                if end > buffer.size:
                    raise invalid(f"{end} bytes do not fit into a buffer of {buffer.size}")
                self.dram.view(buffer.address + done, len(request.data))[:] = np.frombuffer(request.data, np.uint8)
                done = end
        return buffer_pb2.BufferWriteResponse()

    def read(self, request: Any, context: Context) -> Iterator[Any]:
        """Sends all bytes of a buffer in pieces."""
        with self.answering(context):
            buffer = self.dram.buffer(request.buffer_id)
            data = self.dram.view(buffer.address, buffer.size)
        for start in range(0, buffer.size, CHUNK_BYTES):
            yield buffer_pb2.BufferReadResponse(data=data[start : start + CHUNK_BYTES].tobytes())

    def freebuffer(self, request: Any, context: Context) -> Any:
        """Frees a buffer."""
        with self.answering(context):
            self.dram.free(request.buffer_id)
        return buffer_pb2.FreeBufferResponse()

    def flush(self, request: Any, context: Context) -> Any:
        """Only checks the handle, because there is no cache."""
        with self.answering(context):
            self.dram.buffer(request.buffer_id)
        return buffer_pb2.FlushResponse()

    def invalidate(self, request: Any, context: Context) -> Any:
        """As `flush`."""
        with self.answering(context):
            self.dram.buffer(request.buffer_id)
        return buffer_pb2.InvalidateResponse()

    def physical_address(self, request: Any, context: Context) -> Any:
        """The address at which the accelerator sees the buffer."""
        with self.answering(context):
            return buffer_pb2.AddressResponse(address=self.dram.buffer(request.buffer_id).address)

    def virtual_address(self, request: Any, context: Context) -> Any:
        """The same address, because the board has no process with virtual addresses."""
        return self.physical_address(request, context)

    def cacheable(self, request: Any, context: Context) -> Any:
        """The same answer for all buffers, as pynq expects of remote ones."""
        with self.answering(context):
            self.dram.buffer(request.buffer_id)
        return buffer_pb2.CacheableResponse(cacheable=True)


class Gpio(BoardService, gpio_pb2_grpc.GpioServicer):
    """The service for GPIO pins. Nothing is wired to them; an output reads back its own value. A handle is a number."""

    def __init__(self, board: VirtualBoard, connections: Connections) -> None:
        super().__init__(board, connections)
        self._values: dict[int, int] = {}

    def get_gpio(self, request: Any, context: Context) -> Any:
        """Gives a handle for a pin, by its Linux number."""
        with self.answering(context):
            if not FIRST_PIN <= request.index < FIRST_PIN + PINS:
                raise invalid(f"there is no GPIO pin {request.index}; there are {FIRST_PIN}..{FIRST_PIN + PINS - 1}")
            self._values.setdefault(request.index, 0)
        return gpio_pb2.GetGpioResponse(gpio_id=str(request.index))

    def read(self, request: Any, context: Context) -> Any:
        """Reads a pin: 0 or 1."""
        with self.answering(context):
            return gpio_pb2.GpioReadResponse(value=self._values[self._pin(request)])

    def write(self, request: Any, context: Context) -> Any:
        """Sets a pin."""
        with self.answering(context):
            self._values[self._pin(request)] = int(bool(request.value))
        return gpio_pb2.GpioWriteResponse()

    def unexport(self, request: Any, context: Context) -> Any:
        """Releases a pin."""
        with self.answering(context):
            del self._values[self._pin(request)]
        return gpio_pb2.GpioUnexportResponse()

    def is_exported(self, request: Any, context: Context) -> Any:
        """Whether a client holds the pin."""
        return gpio_pb2.GpioIsExportedResponse(is_exported=request.gpio_id.isdigit() and int(request.gpio_id) in self._values)

    def get_gpio_base_path(self, request: Any, context: Context) -> Any:
        """The path of the PS's own controller. There is no other label."""
        ours = not request.target_label or request.target_label == "zynqmp_gpio"
        return gpio_pb2.GetGpioBasePathResponse(base_path=f"/sys/class/gpio/gpiochip{FIRST_PIN}" if ours else "")

    def get_gpio_npins(self, request: Any, context: Context) -> Any:
        """The number of pins."""
        return gpio_pb2.GetGpioNPinsResponse(npins=PINS)

    def _pin(self, request: Any) -> int:
        if not request.gpio_id.isdigit() or int(request.gpio_id) not in self._values:
            raise invalid(f"{request.gpio_id!r} is not a handle of a pin")
        return int(request.gpio_id)


def add_services(server: Any, board: VirtualBoard, connections: Connections) -> None:
    """Registers all four services with a gRPC server."""
    device_pb2_grpc.add_RemoteDeviceServicer_to_server(DeviceService(board, connections), server)
    mmio_pb2_grpc.add_MmioServicer_to_server(Mmio(board, connections), server)
    buffer_pb2_grpc.add_RemoteBufferServicer_to_server(Buffers(board, connections), server)
    gpio_pb2_grpc.add_GpioServicer_to_server(Gpio(board, connections), server)
