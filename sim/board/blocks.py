"""The parts of a block design as data: cells with bus interfaces, address windows, connections. `design` makes whole designs."""

from dataclasses import dataclass, field

from cnna.spec.config import Config

PS = "zynq_ultra_ps_e_0"
MEMORY_MAPPED, STREAM = "xilinx.com:interface:aximm:1.0", "xilinx.com:interface:axis:1.0"


@dataclass(frozen=True)
class Interface:
    """A bus interface of a cell, master or slave. bits: the width of its data. vlnv: its type."""

    name: str
    master: bool
    bits: int
    protocol: str = "AXI4"
    vlnv: str = MEMORY_MAPPED


@dataclass(frozen=True)
class Cell:
    """One IP instance."""

    name: str
    vlnv: str
    interfaces: tuple[Interface, ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The IP's name."""
        return self.vlnv.split(":")[2]


@dataclass(frozen=True)
class AddressRange:
    """The bytes base..base+size-1 of a master's address space, in which it reaches a slave interface."""

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
class External:
    """An interface of a cell that leaves the device. name: Vivado's name for the board's interface, which determines the pins."""

    name: str
    cell: str
    interface: str


Bus = tuple[str, str, str, str]  # master cell, interface, slave cell, interface
Wire = tuple[str, str, str, str]  # driver cell, port, receiver cell, port


@dataclass(frozen=True)
class DesignPart:
    """A part of a design; parts can be added. wires: clocks, resets and interrupts."""

    cells: tuple[Cell, ...] = ()
    buses: tuple[Bus, ...] = ()
    windows: tuple[AddressRange, ...] = ()
    wires: tuple[Wire, ...] = ()
    externals: tuple[External, ...] = ()

    def __add__(self, other: "DesignPart") -> "DesignPart":
        return DesignPart(
            self.cells + other.cells,
            self.buses + other.buses,
            self.windows + other.windows,
            self.wires + other.wires,
            self.externals + other.externals,
        )


@dataclass(frozen=True)
class Design(DesignPart):
    """A whole block design."""

    name: str = ""
    variant: str = ""
    config: Config = field(kw_only=True)

    def cell(self, name: str) -> Cell:
        """The cell of that name."""
        return next(cell for cell in self.cells if cell.name == name)

    def registers(self) -> tuple[AddressRange, ...]:
        """The register windows that the processor reaches."""
        return tuple(w for w in self.windows if w.master_cell == PS and not w.memory)
