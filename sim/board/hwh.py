"""Writes the `.hwh` of a block design: the hardware handoff that Vivado would write, with everything that pynq reads.

From it, pynq gets the addresses, types, parameters and register names of every IP, the clocks, and the connections. Nothing in it
depends on the date or the machine.
"""

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from cnna.hw.axi import buses
from cnna.sim.board.blocks import MEMORY_MAPPED, PS, STREAM, Cell, Design, Interface
from cnna.sim.board.cells import ACCELERATOR, DMA, LEDS
from cnna.sim.board.dma import REGISTERS as DMA_REGISTERS
from cnna.spec.boards import board_of
from cnna.spec.regmap import SPACE_BYTES, Register, there

VIVADO = "2022.1"  # the version with this format
ACCESS = {"ro": "read-only", "rw": "read-write", "w1c": "read-write", "pulse": "write-only"}
GPIO_REGISTERS = (("GPIO_DATA", 0x0, "Channel 1 data"), ("GPIO_TRI", 0x4, "Channel 1 direction: 1 is input"))
VENDOR_REGISTERS = {LEDS: GPIO_REGISTERS, DMA: DMA_REGISTERS}  # by cell: (name, offset, description)


def hwh(design: Design) -> str:
    """The file's text."""
    board = board_of(design.config)
    root = Element("EDKSYSTEM", {"EDWVERSION": "1.2", "VIVADOVERSION": VIVADO})
    SubElement(
        root,
        "SYSTEMINFO",
        {
            "ARCH": "zynquplus",
            "BOARD": board.board_part,
            "DEVICE": board.device,
            "NAME": design.name,
            "PACKAGE": board.package,
            "SPEEDGRADE": board.speed,
        },
    )
    external = SubElement(root, "EXTERNALPORTS")
    leds = design.cell(LEDS).parameters["C_GPIO_WIDTH"]
    _port(external, "leds_tri_o", True, int(leds), "undef", [(LEDS, "gpio_io_o")])
    outside = SubElement(root, "EXTERNALINTERFACES")
    for port in design.externals:
        role = next(_role(i) for i in design.cell(port.cell).interfaces if i.name == port.interface)
        attributes = {"BUSNAME": f"{port.cell}_{port.interface}", "NAME": port.name, "TYPE": role}
        SubElement(outside, "BUSINTERFACE", attributes)
    modules = SubElement(root, "MODULES")
    for cell in design.cells:
        _module(modules, design, cell)
    indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8" standalone="no" ?>\n' + tostring(root, "unicode") + "\n"


def _module(modules: Element, design: Design, cell: Cell) -> None:
    module = SubElement(
        modules,
        "MODULE",
        {
            "FULLNAME": f"/{cell.name}",
            "HWVERSION": cell.vlnv.rpartition(":")[2],
            "INSTANCE": cell.name,
            "IPTYPE": "PROCESSOR" if cell.name == PS else "PERIPHERAL",
            "IS_ENABLE": "1",
            "MODCLASS": "PROCESSOR" if cell.name == PS else "PERIPHERAL",
            "MODTYPE": cell.kind,
            "NAME": cell.name,
            "VLNV": cell.vlnv,
        },
    )
    if cell.name == PS:
        module.set("IS_PL", "FALSE")
    blocks = SubElement(module, "ADDRESSBLOCKS")
    if cell.name == ACCELERATOR:
        _address_block(blocks, "s_axi_control", "reg0", SPACE_BYTES, there(design.config.codebook))
    elif cell.name in VENDOR_REGISTERS:
        _vendor_block(blocks, next(w.slave for w in design.registers() if w.slave_cell == cell.name), VENDOR_REGISTERS[cell.name])
    parameters = SubElement(module, "PARAMETERS")
    for name, value in cell.parameters.items():
        SubElement(parameters, "PARAMETER", {"NAME": name, "VALUE": value})
    _ports(SubElement(module, "PORTS"), design, cell)
    interfaces = SubElement(module, "BUSINTERFACES")
    for interface in cell.interfaces:
        _interface(interfaces, design, cell, interface)
    _memory_map(module, design, cell)


def _address_block(blocks: Element, interface: str, name: str, size: int, registers: Iterable[Register]) -> None:
    """The accelerator's register map, from the table from which the RTL is made."""
    block = _block(blocks, interface, name, size)
    for register in registers:
        entry = _register(block, register.name, register.offset, register_access(register), register.fields[0].doc)
        fields, bit = SubElement(entry, "FIELDS"), 0
        for part in register.fields:
            item = SubElement(fields, "FIELD", {"NAME": part.name.upper()})  # pynq's registers have an `address` of their own
            _properties(item, DESCRIPTION=part.doc, BIT_OFFSET=bit, BIT_WIDTH=part.bits, ACCESS=ACCESS[part.access])
            bit += part.bits


def _vendor_block(blocks: Element, interface: str, registers: Iterable[tuple[str, int, str]]) -> None:
    """Registers of an IP of another vendor, without their fields."""
    block = _block(blocks, interface, "Reg", 0x1_0000)
    for name, offset, doc in registers:
        SubElement(_register(block, name, offset, "read-write", doc), "FIELDS")


def _block(blocks: Element, interface: str, name: str, size: int) -> Element:
    attributes = {"ACCESS": "read-write", "INTERFACE": interface, "NAME": name, "RANGE": str(size), "USAGE": "register"}
    return SubElement(SubElement(blocks, "ADDRESSBLOCK", attributes), "REGISTERS")


def _register(block: Element, name: str, offset: int, access: str, doc: str) -> Element:
    entry = SubElement(block, "REGISTER", {"NAME": name})
    _properties(entry, DESCRIPTION=doc, ADDRESS_OFFSET=f"{offset:#x}", SIZE=32, ACCESS=access, IS_ENABLED="true")
    return entry


def _properties(parent: Element, **values: str | int) -> None:
    for name, value in values.items():
        SubElement(parent, "PROPERTY", {"NAME": name, "VALUE": str(value)})


def register_access(register: Register) -> str:
    """The access of a whole register: that of its fields, or read-write if they differ."""
    kinds = {ACCESS[part.access] for part in register.fields}
    return kinds.pop() if len(kinds) == 1 else "read-write"


def _ports(parent: Element, design: Design, cell: Cell) -> None:
    """Clocks, resets and interrupts with their wires, and the accelerator's bus signals."""
    ends: dict[tuple[str, bool], list[tuple[str, str]]] = {}
    for driver, out, receiver, port in design.wires:
        if driver == cell.name:
            ends.setdefault((out, True), []).append((receiver, port))
        if receiver == cell.name:
            ends.setdefault((port, False), []).append((driver, out))
    for (name, output), connections in ends.items():
        _port(parent, name, output, 1, _kind(name), connections)
    if cell.name == LEDS:
        _port(parent, "gpio_io_o", True, int(cell.parameters["C_GPIO_WIDTH"]), "undef", [("External_Ports", "leds_tri_o")])
    if cell.name == ACCELERATOR:
        for interface in cell.interfaces:
            for signal, bits, output in signals(interface):
                _port(parent, f"{interface.name}_{signal}", output, bits, "undef", [])


def signals(interface: Interface) -> list[tuple[str, int, bool]]:
    """(signal, bits, whether the accelerator drives it) for a bus of the accelerator, as in its Verilog."""
    signature = buses.AxiStream() if interface.vlnv == STREAM else buses.Axi4() if interface.master else buses.Axi4Lite()
    return [(name, member.shape, (member.flow.name == "Out") == interface.master) for name, member in signature.members.items()]


def bus_parameters(interface: Interface) -> dict[str, str]:
    """The parameters of a bus interface."""
    if interface.vlnv == STREAM:
        return {"TDATA_NUM_BYTES": str(interface.bits // 8), "HAS_TLAST": "1", "HAS_TKEEP": "1"}
    return {"DATA_WIDTH": str(interface.bits), **({"PROTOCOL": interface.protocol} if interface.protocol else {})}


def _kind(port: str) -> str:
    if "reset" in port or port.endswith(("resetn", "rst")):
        return "rst"
    return "clk" if "clk" in port or port in ("BUFGCE_I", "BUFGCE_O") else "intr" if port == "interrupt" else "undef"


def _role(interface: Interface) -> str:
    """The role in the format's words: memory-mapped buses have masters and slaves, others have initiators and targets."""
    if interface.vlnv == MEMORY_MAPPED:
        return "MASTER" if interface.master else "SLAVE"
    return "INITIATOR" if interface.master else "TARGET"


def _port(parent: Element, name: str, output: bool, bits: int, kind: str, connections: list[tuple[str, str]]) -> None:
    attributes = {"DIR": "O" if output else "I", "NAME": name, "SIGIS": kind.upper() if kind == "intr" else kind}
    if bits > 1:
        attributes |= {"LEFT": str(bits - 1), "RIGHT": "0"}
    port = SubElement(parent, "PORT", attributes)
    if connections:
        listed = SubElement(port, "CONNECTIONS")
        for instance, other in connections:
            SubElement(listed, "CONNECTION", {"INSTANCE": instance, "PORT": other})


def _interface(parent: Element, design: Design, cell: Cell, interface: Interface) -> None:
    ends = (f"{m}_{i}" for m, i, s, j in design.buses if (cell.name, interface.name) in ((m, i), (s, j)))
    bus = next(ends, f"{cell.name}_{interface.name}")  # a bus that leaves the device has its own name
    element = SubElement(
        parent,
        "BUSINTERFACE",
        {
            "BUSNAME": bus,
            "DATAWIDTH": str(interface.bits),
            "NAME": interface.name,
            "TYPE": _role(interface),
            "VLNV": interface.vlnv,
        },
    )
    for name, value in bus_parameters(interface).items():
        SubElement(element, "PARAMETER", {"NAME": name, "VALUE": value})
    maps = SubElement(element, "PORTMAPS")
    if cell.name == ACCELERATOR:
        for signal, _, _ in signals(interface):
            SubElement(maps, "PORTMAP", {"LOGICAL": signal.upper(), "PHYSICAL": f"{interface.name}_{signal}"})


def _memory_map(module: Element, design: Design, cell: Cell) -> None:
    """The address ranges that the cell's masters reach."""
    seen = [window for window in design.windows if window.master_cell == cell.name]
    if not seen:
        return
    memory_map = SubElement(module, "MEMORYMAP")
    for window in seen:
        SubElement(
            memory_map,
            "MEMRANGE",
            {
                "ADDRESSBLOCK": window.block,
                "BASENAME": "C_BASEADDR",
                "BASEVALUE": f"{window.base:#010X}".replace("X", "x"),
                "HIGHNAME": "C_HIGHADDR",
                "HIGHVALUE": f"{window.last:#010X}".replace("X", "x"),
                "INSTANCE": window.slave_cell,
                "IS_DATA": "TRUE",
                "IS_INSTRUCTION": "FALSE",
                "MASTERBUSINTERFACE": window.master,
                "MEMTYPE": "MEMORY" if window.memory else "REGISTER",
                "SLAVEBUSINTERFACE": window.slave,
            },
        )
    peripherals = SubElement(module, "PERIPHERALS")
    for name in dict.fromkeys(window.slave_cell for window in seen):
        SubElement(peripherals, "PERIPHERAL", {"INSTANCE": name})
