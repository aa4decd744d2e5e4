"""PYNQ.remote's service of pins: the processing system's own, by their Linux numbers."""

import warnings
from typing import Any

from cnna.sim.board.board import Board
from cnna.sim.board.connections import Connections
from cnna.sim.board.refused import invalid
from cnna.sim.board.service import Context, Service

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # as in services
    from pynq.remote import gpio_pb2, gpio_pb2_grpc

PINS = 174  # of a Zynq UltraScale+ PS
BASE = 338  # of Linux on a ZCU102


class Gpio(Service, gpio_pb2_grpc.GpioServicer):
    """Nothing is wired to them: an output reads back what was written. A handle is a number."""

    def __init__(self, board: Board, connections: Connections) -> None:
        super().__init__(board, connections)
        self._values: dict[int, int] = {}

    def get_gpio(self, request: Any, context: Context) -> Any:
        """A handle on a pin, by its Linux number."""
        with self.answering(context):
            if not BASE <= request.index < BASE + PINS:
                raise invalid(f"there is no GPIO pin {request.index}; there are {BASE}..{BASE + PINS - 1}")
            self._values.setdefault(request.index, 0)
        return gpio_pb2.GetGpioResponse(gpio_id=str(request.index))

    def read(self, request: Any, context: Context) -> Any:
        """0 or 1."""
        with self.answering(context):
            return gpio_pb2.GpioReadResponse(value=self._values[self._pin(request)])

    def write(self, request: Any, context: Context) -> Any:
        """Sets it."""
        with self.answering(context):
            self._values[self._pin(request)] = int(bool(request.value))
        return gpio_pb2.GpioWriteResponse()

    def unexport(self, request: Any, context: Context) -> Any:
        """Lets go of a pin."""
        with self.answering(context):
            del self._values[self._pin(request)]
        return gpio_pb2.GpioUnexportResponse()

    def is_exported(self, request: Any, context: Context) -> Any:
        """Whether somebody holds it."""
        return gpio_pb2.GpioIsExportedResponse(is_exported=request.gpio_id.isdigit() and int(request.gpio_id) in self._values)

    def get_gpio_base_path(self, request: Any, context: Context) -> Any:
        """Of the PS's own controller; other labels there are none."""
        ours = not request.target_label or request.target_label == "zynqmp_gpio"
        return gpio_pb2.GetGpioBasePathResponse(base_path=f"/sys/class/gpio/gpiochip{BASE}" if ours else "")

    def get_gpio_npins(self, request: Any, context: Context) -> Any:
        """How many there are."""
        return gpio_pb2.GetGpioNPinsResponse(npins=PINS)

    def _pin(self, request: Any) -> int:
        if not request.gpio_id.isdigit() or int(request.gpio_id) not in self._values:
            raise invalid(f"{request.gpio_id!r} is no handle of a pin")
        return int(request.gpio_id)
