"""The simulation process: a cocotb test that takes commands from a `cosim.CosimDevice` over a socket until it closes.

Every message is a line of JSON. A request has `do` and its arguments; the answer has `value`, or `error`. During a run, lines
with `clocks` and `seconds` of the request, and `total` clocks since the simulation began, report progress. The memory's contents go
through the file that both processes map.
"""

import json
import select
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import cocotb

from cnna.sim.rtl.linked_models import Packets, Probes
from cnna.sim.testbench import Testbench
from cnna.spec.errors import CnnaError, RunError

REPORT_SECONDS = 1.0  # before the first word of a run's progress


class HungUpError(Exception):
    """The client has gone."""


class ClientRequests:
    """Requests of one client, each a method `do_NAME`."""

    def __init__(self, tb: Testbench, connection: socket.socket) -> None:
        self.tb, self.connection, self.probes = tb, connection, Probes()
        self.lines = connection.makefile("r")
        self.began = 0, 0.0  # clocks and time when the request came

    async def serve(self) -> None:
        """Answers until the client closes."""
        for line in self.lines:
            request = json.loads(line)
            self.began = self.tb.ddr.clocks, time.monotonic()
            if request["do"] == "close":
                return
            try:
                value = await getattr(self, f"do_{request.pop('do')}")(**request)
                self.send(value=value)
            except CnnaError as error:
                self.send(error=str(error))

    def send(self, **message: Any) -> None:
        """One line to the client."""
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def report(self, clocks: int, now: float) -> None:
        """Progress of a request. HungUpError: nobody listens any more."""
        if select.select([self.connection], [], [], 0)[0]:  # clients say nothing while they wait, unless they have gone
            raise HungUpError
        if now - self.began[1] > REPORT_SECONDS:
            self.send(clocks=clocks - self.began[0], seconds=now - self.began[1], total=clocks)

    async def do_open(self, path: str, base: int, size_bytes: int) -> None:
        """Maps the memory."""
        self.tb.ddr.open(path, base, size_bytes)

    async def do_read(self, offset: int) -> int:
        """A register."""
        return await self.tb.read(offset)

    async def do_write(self, offset: int, value: int) -> None:
        """A register."""
        await self.tb.write(offset, value)

    async def do_wait(self) -> None:
        """Until done or error."""
        await self.tb.wait(self.report)

    async def do_clocks(self, clocks: int) -> None:
        """Lets time pass."""
        await self.tb.run_clocks(clocks, self.report)

    async def do_reset(self) -> None:
        """Hard reset."""
        await self.tb.reset()

    async def do_time(self) -> int:
        """Clocks since the simulation began."""
        return self.tb.ddr.clocks

    async def do_ddr(self, **settings: int) -> None:
        """Settings of the DDR model."""
        for name, value in settings.items():
            self.tb.ddr.set(name, value)

    async def do_fault(self, **fault: Any) -> None:
        """A bad response to come."""
        self.tb.ddr.fault(**fault)

    async def do_clear_faults(self) -> None:
        """No more of them."""
        self.tb.ddr.clear_faults()

    async def do_send(self, path: str) -> None:
        """Queues the file's bytes as a packet for `s_axis`."""
        self._packets().send(Path(path).read_bytes())

    async def do_receive(self, path: str) -> bool:
        """Writes the oldest packet that came on `m_axis` to a file; False: there is none."""
        packet = self._packets().receive()
        if packet is not None:
            Path(path).write_bytes(packet)
        return packet is not None

    async def do_unsent(self) -> int:
        """Bytes queued and not taken."""
        return self._packets().unsent

    async def do_drop_sent(self) -> None:
        """Forgets packets that were not taken."""
        self._packets().drop_sent()

    async def do_drop_received(self) -> None:
        """Forgets what came."""
        self._packets().drop_received()

    async def do_streams(self, stall: int) -> None:
        """The pace of the streams' other ends."""
        self._packets().stall(stall)

    def _packets(self) -> Packets:
        if self.tb.packets is None:
            raise RunError("the simulated accelerator has no streams")
        return self.tb.packets

    async def do_log(self, enable: bool) -> None:
        """Starts or ends the logs of writes."""
        self.tb.ddr.log(enable)
        self.probes.log(enable)

    async def do_logged(self, ddr: str, features: str) -> None:
        """Writes the logs to two files."""
        self.tb.ddr.logged().tofile(ddr)
        self.probes.logged().tofile(features)

    async def do_profile(self) -> list[list[int]]:
        """Clocks by command and state since the last start."""
        return self.probes.profile()

    async def do_timeline(self) -> list[list[int]]:
        """When engines finished units, since the last start."""
        return self.probes.timeline()

    async def do_brought(self, path: str) -> None:
        """Writes to a file when the weight rings took beats, since the last start."""
        self.probes.brought().tofile(path)

    async def do_trace(self, first: int, last: int) -> None:
        """Clocks of the waveform, counted from the next start."""
        self.probes.trace(self.tb.dut, first, last)


@cocotb.test()
async def serve(dut: Any) -> None:
    """Connects to the client named by `+cnna_socket=PATH` and serves it."""
    tb = Testbench(dut)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(cocotb.plusargs["cnna_socket"]))
        requests = ClientRequests(tb, connection)
        await tb.start()
        try:
            requests.send(value="ready")
            await requests.serve()
        except (HungUpError, BrokenPipeError, ConnectionResetError):
            return
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            requests.send(error=f"the simulation's server failed: {type(error).__name__}: {error}")
