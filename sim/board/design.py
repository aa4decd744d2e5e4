"""The block design around the accelerator on a ZCU102, as data: cells, addresses, connections, clock.

The `.hwh` (`hwh`), the virtual image (`image`), the virtual board's address map (`fabric`) and the checks of the Vivado script in
`bitstreams/` all read this, so that they cannot disagree. Variant `ps`: the accelerator's masters reach the processing system's
DDR through HP ports and work on what the host has allocated.
"""

from dataclasses import dataclass, field

from cnna.host.vlnv import VLNV
from cnna.hw.config import Config, as_dict
from cnna.hw.regmap import SPACE_BYTES

VARIANTS = ("ps",)
BOARD, PART, DEVICE, PACKAGE, SPEED = "ZCU102", "xczu9eg-ffvb1156-2-e", "xczu9eg", "ffvb1156", "-2"
BOARD_PART = "xilinx.com:zcu102:part0:3.4"
PS, ACCELERATOR, LEDS = "zynq_ultra_ps_e_0", "cnna_0", "leds_gpio"
CONTROL_MASTER = "M_AXI_HPM0_FPD"
PS_CLOCK, PS_RESET, PS_IRQ = "pl_clk0", "pl_resetn0", "pl_ps_irq0"
LEDS_WIDTH = 8  # the board's user LEDs

REFERENCE_MHZ = 33.333  # of the PS, as pynq computes with it
IOPLL_FEEDBACK = 90
IOPLL_MHZ = REFERENCE_MHZ * IOPLL_FEEDBACK / 2


@dataclass(frozen=True)
class Interface:
    """A bus interface of a cell: memory mapped, master or slave; `bits` of data."""

    name: str
    master: bool
    bits: int
    protocol: str = "AXI4"


@dataclass(frozen=True)
class Cell:
    """One IP instance. `clocks`, `resets`, `interrupts`: its input ports of that kind (outputs of the PS and the reset cell)."""

    name: str
    vlnv: str
    interfaces: tuple[Interface, ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The IP's name."""
        return self.vlnv.split(":")[2]


@dataclass(frozen=True)
class Window:
    """What a master interface reaches of a slave interface: bytes base..base+size-1 of its address space."""

    master_cell: str
    master: str
    slave_cell: str
    slave: str
    block: str  # name of the slave's address block
    base: int
    size: int
    memory: bool = False

    @property
    def last(self) -> int:
        """Address of the last byte."""
        return self.base + self.size - 1


@dataclass(frozen=True)
class Design:
    """A whole block design. `wires`: (driver cell, port, receiver cell, port) of clocks, resets and interrupts."""

    name: str
    config: Config
    variant: str
    cells: tuple[Cell, ...]
    buses: tuple[tuple[str, str, str, str], ...]  # master cell, interface, slave cell, interface
    windows: tuple[Window, ...]
    wires: tuple[tuple[str, str, str, str], ...]

    def cell(self, name: str) -> Cell:
        """The cell of that name."""
        return next(cell for cell in self.cells if cell.name == name)

    def registers(self) -> tuple[Window, ...]:
        """What the processor reaches of registers."""
        return tuple(w for w in self.windows if w.master_cell == PS and not w.memory)


DDR_LOW = (0x0, 0x8000_0000)  # PS DDR of a ZCU102: base and size, below and above
DDR_HIGH = (0x8_0000_0000, 0x8000_0000)
REGISTER_WINDOWS = (  # cell, interface, address block, base, size
    (ACCELERATOR, "s_axi_control", "reg0", 0xA000_0000, SPACE_BYTES),
    (LEDS, "S_AXI", "Reg", 0xA001_0000, 0x1_0000),
)


def design(config: Config, variant: str = "ps") -> Design:
    """The block design of a configuration. ValueError: no such variant."""
    if variant not in VARIANTS:
        raise ValueError(f"variant {variant!r} is unknown; there are {', '.join(VARIANTS)}")
    crossings = [(f"axi_hp{port}", f"m_axi_gmem{port}", f"S_AXI_HP{port}_FPD") for port in range(config.ports)]
    buses = [(PS, CONTROL_MASTER, "axi_control", "S00_AXI")]
    buses += [("axi_control", f"M{i:02}_AXI", cell, slave) for i, (cell, slave, *_) in enumerate(REGISTER_WINDOWS)]
    for cross, gmem, port_name in crossings:
        buses += [(ACCELERATOR, gmem, cross, "S00_AXI"), (cross, "M00_AXI", PS, port_name)]
    windows = [Window(PS, CONTROL_MASTER, cell, slave, block, base, size) for cell, slave, block, base, size in REGISTER_WINDOWS]
    for port, (_, gmem, port_name) in enumerate(crossings):
        for half, (base, size) in (("LOW", DDR_LOW), ("HIGH", DDR_HIGH)):
            windows.append(Window(ACCELERATOR, gmem, PS, port_name, f"HP{port}_DDR_{half}", base, size, memory=True))
    return Design(f"cnna_{variant}", config, variant, _cells(config), tuple(buses), tuple(windows), _wires(config))


def _cells(config: Config) -> tuple[Cell, ...]:
    accelerator = Cell(
        ACCELERATOR,
        VLNV,
        (Interface("s_axi_control", False, 32, "AXI4LITE"), *(Interface(f"m_axi_gmem{p}", True, 128) for p in range(config.ports))),
        {"Component_Name": f"cnna_{config.name}", **{f"C_{k.upper()}": str(v) for k, v in as_dict(config).items()}},
    )
    leds = Cell(
        LEDS,
        "xilinx.com:ip:axi_gpio:2.0",
        (Interface("S_AXI", False, 32, "AXI4LITE"),),
        {"C_GPIO_WIDTH": str(LEDS_WIDTH), "C_ALL_OUTPUTS": "1", "C_IS_DUAL": "0", "C_INTERRUPT_PRESENT": "0"},
    )
    control = _interconnect("axi_control", len(REGISTER_WINDOWS), 32)
    crossings = [_interconnect(f"axi_hp{port}", 1, 128) for port in range(config.ports)]
    reset = Cell("reset_300", "xilinx.com:ip:proc_sys_reset:5.0")
    return (_processing_system(config), accelerator, leds, control, *crossings, reset)


def _interconnect(name: str, masters: int, bits: int) -> Cell:
    slaves = (Interface("S00_AXI", False, bits),)
    return Cell(
        name,
        "xilinx.com:ip:smartconnect:1.0",
        slaves + tuple(Interface(f"M{index:02}_AXI", True, bits) for index in range(masters)),
        {"NUM_SI": "1", "NUM_MI": str(masters), "NUM_CLKS": "1"},
    )


def _processing_system(config: Config) -> Cell:
    """The PS with what pynq sets from it at download: PL clock 0, and the widths of the ports that are used."""
    parameters = {
        "PSU__USE__M_AXI_GP0": "1",
        "PSU__USE__M_AXI_GP1": "0",
        "PSU__USE__M_AXI_GP2": "0",
        "PSU__USE__IRQ0": "1",
        "C_MAXIGP0_DATA_WIDTH": "128",
        "PSU__MAXIGP0__DATA_WIDTH": "128",
    }
    for port in range(config.ports):  # HP0..HP3 are the PS's S_AXI_GP2..GP5
        parameters |= {
            f"PSU__USE__S_AXI_GP{port + 2}": "1",
            f"C_SAXIGP{port + 2}_DATA_WIDTH": "128",
            f"PSU__SAXIGP{port + 2}__DATA_WIDTH": "128",
        }
    divisor = round(IOPLL_MHZ / config.clock_mhz)
    for clock in range(4):
        used, prefix = clock == 0, f"PSU__CRL_APB__PL{clock}_REF_CTRL__"
        parameters |= {
            f"PSU__FPGA_PL{clock}_ENABLE": str(int(used)),
            f"{prefix}SRCSEL": "IOPLL",
            f"{prefix}DIVISOR0": str(divisor if used else 1),
            f"{prefix}DIVISOR1": "1",
            f"{prefix}FREQMHZ": str(config.clock_mhz if used else 100),
            f"{prefix}ACT_FREQMHZ": f"{IOPLL_MHZ / divisor if used else 100:.6f}",
        }
    ports = tuple(Interface(f"S_AXI_HP{port}_FPD", False, 128) for port in range(config.ports))
    return Cell(PS, "xilinx.com:ip:zynq_ultra_ps_e:3.4", (Interface(CONTROL_MASTER, True, 128), *ports), parameters)


def _wires(config: Config) -> tuple[tuple[str, str, str, str], ...]:
    """One clock, the reset made of the PS's, one interrupt."""
    crossings = [f"axi_hp{port}" for port in range(config.ports)]
    clocked = [(ACCELERATOR, "aclk"), (LEDS, "s_axi_aclk"), ("reset_300", "slowest_sync_clk"), (PS, "maxihpm0_fpd_aclk")]
    clocked += [(name, "aclk") for name in ("axi_control", *crossings)]
    clocked += [(PS, f"saxihp{port}_fpd_aclk") for port in range(config.ports)]
    held = [(ACCELERATOR, "aresetn"), (LEDS, "s_axi_aresetn"), *((name, "aresetn") for name in ("axi_control", *crossings))]
    wires = [(PS, PS_CLOCK, *place) for place in clocked]
    wires += [(PS, PS_RESET, "reset_300", "ext_reset_in")]
    wires += [("reset_300", "peripheral_aresetn", *place) for place in held]
    return (*wires, (ACCELERATOR, "interrupt", PS, PS_IRQ))
