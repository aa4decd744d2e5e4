"""What Linux needs to load an image without pynq: a device tree overlay, the file of dfx-mgr, and that of bootgen.

Addresses, widths, clock and interrupt are those of the block design. `xmutil` on a KV260 takes the three from one folder; on other
boards `fpgautil` or configfs takes the overlay. No board has loaded them yet. Sources: the overlays of AMD's own applications for
the KV260 (kria-apps-firmware), and the README of dfx-mgr.
"""

import json

from cnna.sim.board.blocks import PS, Design
from cnna.sim.board.cells import ACCELERATOR
from cnna.spec.boards import FIRST_SPI, PL_PS_IRQ0

NAME = "cnna"
OVERLAY, SHELL, IMAGE = f"{NAME}.dtso", "shell.json", f"{NAME}.bif"
PL0_CLOCK, PL0_RESET = 71, 116  # numbers of PL clock 0 and PL reset 0 in the device tree of a Zynq UltraScale+
LEVEL_HIGH = 4  # kind of an interrupt
_WIDTHS = {128: 0, 64: 1, 32: 2}  # of a slave port, in its AFI register
_MASTER_WIDTHS = {32: 0, 64: 1, 128: 2}  # of a master port, in its two bits of register 14
_MASTERS = 14  # the register of M_AXI_HPM0_FPD, from bit 8, and M_AXI_HPM1_FPD, from bit 10


def overlay(design: Design) -> str:
    """The device tree overlay: loads the image, sets clock and port widths, and makes a UIO device of the accelerator."""
    registers = next(window for window in design.registers() if window.slave_cell == ACCELERATOR)
    interrupt = f"<0 {PL_PS_IRQ0 - FIRST_SPI} {LEVEL_HIGH}>"
    return f"""\
/* Loads the accelerator {design.config.name} (variant {design.variant}) on Linux. `cnna board firmware` wrote it.
   No board has loaded it yet. */
/dts-v1/;
/plugin/;

&fpga_full {{
	firmware-name = "{NAME}.bit.bin";
	resets = <&zynqmp_reset {PL0_RESET}>;
}};

&amba {{
	afi0: afi0 {{ /* widths of the ports in use */
		compatible = "xlnx,afi-fpga";
		config-afi = {", ".join(f"<{register} {value:#x}>" for register, value in port_widths(design))};
	}};
	clocking0: clocking0 {{
		compatible = "xlnx,fclk";
		#clock-cells = <0>;
		clocks = <&zynqmp_clk {PL0_CLOCK}>;
		assigned-clocks = <&zynqmp_clk {PL0_CLOCK}>;
		assigned-clock-rates = <{clock_hz(design)}>;
		clock-output-names = "fabric_clk";
	}};
	{NAME}@{registers.base:x} {{
		compatible = "generic-uio";
		reg = <{registers.base >> 32:#x} {registers.base & 0xFFFF_FFFF:#x} 0x0 {registers.size:#x}>;
		interrupt-parent = <&gic>;
		interrupts = {interrupt};
	}};
}};
"""


def port_widths(design: Design) -> list[tuple[int, int]]:
    """(AFI register, value) of each port between processor and logic that the design uses."""
    values = design.cell(PS).parameters
    used = [port for port in range(7) if values.get(f"PSU__USE__S_AXI_GP{port}") == "1"]
    slaves = [(2 * port + half, _WIDTHS[int(values[f"PSU__SAXIGP{port}__DATA_WIDTH"])]) for port in used for half in (0, 1)]
    other = _MASTER_WIDTHS[128] << 10  # M_AXI_HPM1_FPD, as after a reset
    return [*slaves, (_MASTERS, other | _MASTER_WIDTHS[int(values["PSU__MAXIGP0__DATA_WIDTH"])] << 8)]


def clock_hz(design: Design) -> int:
    """The frequency that the PS makes for PL clock 0."""
    return round(float(design.cell(PS).parameters["PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ"]) * 1e6)


def shell() -> str:
    """What dfx-mgr, and so `xmutil`, wants to know of an image without partitions, in the form of AMD's own applications."""
    return json.dumps({"shell_type": "XRT_FLAT", "num_slots": "1"}, indent=1) + "\n"


def image() -> str:
    """What bootgen makes cnna.bit.bin of: `bootgen -image cnna.bif -arch zynqmp -process_bitstream bin -w`."""
    return f"all:\n{{\n\t[destination_device = pl] {NAME}.bit\n}}\n"
