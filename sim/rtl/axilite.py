"""An AXI4-Lite master for cocotb: one register read or write at a time on the testbench's `s_*` signals."""

from typing import Any

from cocotb.triggers import RisingEdge

from cnna.spec.errors import RunError
from cnna.spec.machine import RESPONSES

TIMEOUT_CLOCKS = 100_000_000  # a GO write waits while its engine's queue is full; the watchdog acts much sooner


class AxiLite:
    """Drives signals after a rising edge and samples them at the next, as a master in the same clock domain would."""

    def __init__(self, tb: Any) -> None:
        self.tb = tb
        for name in ("awvalid", "wvalid", "bready", "arvalid", "rready", "awprot", "arprot"):
            getattr(tb, f"s_{name}").value = 0

    async def write(self, offset: int, value: int) -> None:
        """Writes a register. RunError: the slave answers with an error, or not at all."""
        tb = self.tb
        tb.s_awaddr.value, tb.s_wdata.value, tb.s_wstrb.value = offset, value & 0xFFFFFFFF, 15
        tb.s_awvalid.value = tb.s_wvalid.value = tb.s_bready.value = 1
        address = data = False
        for _ in range(TIMEOUT_CLOCKS):
            await RisingEdge(tb.aclk)
            if not address and int(tb.s_awready.value):
                address, tb.s_awvalid.value = True, 0
            if not data and int(tb.s_wready.value):
                data, tb.s_wvalid.value = True, 0
            if int(tb.s_bvalid.value):
                tb.s_bready.value = 0
                return self._check(int(tb.s_bresp.value), f"write of {value:#x} to register {offset:#x}")
        raise RunError(f"the accelerator does not answer a write of {value:#x} to register {offset:#x}")

    async def read(self, offset: int) -> int:
        """Reads a register's word. RunError: as `write`."""
        tb = self.tb
        tb.s_araddr.value, tb.s_arvalid.value, tb.s_rready.value = offset, 1, 1
        address = False
        for _ in range(TIMEOUT_CLOCKS):
            await RisingEdge(tb.aclk)
            if not address and int(tb.s_arready.value):
                address, tb.s_arvalid.value = True, 0
            if int(tb.s_rvalid.value):
                word = int(tb.s_rdata.value)
                tb.s_rready.value = 0
                self._check(int(tb.s_rresp.value), f"read of register {offset:#x}")
                return word
        raise RunError(f"the accelerator does not answer a read of register {offset:#x}")

    @staticmethod
    def _check(response: int, what: str) -> None:
        if response:
            raise RunError(f"{what}: the accelerator answers {RESPONSES[response]}")
