"""Writes `component.xml`: the accelerator and its registers as an IP-XACT component (IEEE 1685-2009), which Vivado reads.

Ports and bus interfaces are those of the generated Verilog, and registers those of `spec/regmap.py`. Nothing depends on the date or
the machine.
"""

from xml.etree.ElementTree import Element, SubElement, indent, register_namespace, tostring

from cnna.hw.axi.buses import OUTPUTS, SINGLE, bus_parameters
from cnna.sim.board.blocks import STREAM, Interface
from cnna.sim.board.cells import ACCELERATOR
from cnna.sim.board.design import design, variant_of
from cnna.sim.board.hwh import ACCESS, register_access, signals
from cnna.spec.boards import board_of
from cnna.spec.config import Config
from cnna.spec.identity import LIBRARY, NAME, VENDOR, VLNV
from cnna.spec.machine import BUS_BITS
from cnna.spec.regmap import SPACE_BYTES, Register, there

SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
XILINX, FAMILY = "http://www.xilinx.com", "zynquplus"  # Vivado offers an IP only for the families that the IP names
TOP = "cnna"
SETTINGS = "settings.tcl"  # the file that bitstreams/build.tcl reads


def settings(config: Config) -> str:
    """The settings of the block design as Tcl, for bitstreams/build.tcl, which so needs neither presets nor boards."""
    board = board_of(config)
    ddr = " ".join(f"{{{name} {base:#x} {size:#x}}}" for name, base, size in board.windows)
    values = {
        "ports": config.ports,
        "clock_mhz": config.clock_mhz,
        "vlnv": VLNV,
        "part": board.part,
        "board_part": board.board_part,
        "board_connections": f"{{{board.connections}}}",
        "constraints": f"{board.key}.xdc",
        "leds": board.leds,
        "ddr": f"{{{ddr}}}",
    }
    return "".join(f"set {name} {value}\n" for name, value in values.items())


def component(config: Config, verilog: str) -> str:
    """The file's text. verilog: the name of the source beside it."""
    register_namespace("spirit", SPIRIT)
    register_namespace("xilinx", XILINX)
    cell = design(config, variant_of(config)).cell(ACCELERATOR)
    interfaces = cell.interfaces
    root = Element(_("component"))
    for tag, text in (("vendor", VENDOR), ("library", LIBRARY), ("name", NAME), ("version", VLNV.rpartition(":")[2])):
        _text(root, tag, text)
    buses = SubElement(root, _("busInterfaces"))
    for interface in interfaces:
        _bus(buses, interface)
    for port, (kind, logical, parameters) in SINGLE.items():
        extra = {"ASSOCIATED_BUSIF": ":".join(i.name for i in interfaces)} if port == "aclk" else {}
        _signal(buses, port, kind, logical, {**parameters, **extra})
    spaces = SubElement(root, _("addressSpaces"))
    for interface in interfaces:
        if interface.master and interface.vlnv != STREAM:
            space = SubElement(spaces, _("addressSpace"))
            _texts(space, name=interface.name, range=f"{1 << BUS_BITS:#x}", width=str(interface.bits))
    _memory_map(SubElement(root, _("memoryMaps")), config)
    _model(SubElement(root, _("model")), interfaces)
    file_set = SubElement(SubElement(root, _("fileSets")), _("fileSet"))
    _text(file_set, "name", "verilog")
    _texts(SubElement(file_set, _("file")), name=verilog, fileType="verilogSource")
    _text(root, "description", f"int8 CNN accelerator, configuration {config.name}")
    _parameters(root, {name: value for name, value in cell.parameters.items() if name.startswith("C_")})
    extensions = SubElement(SubElement(root, _("vendorExtensions")), f"{{{XILINX}}}coreExtensions")
    families = SubElement(extensions, f"{{{XILINX}}}supportedFamilies")
    SubElement(families, f"{{{XILINX}}}family", {f"{{{XILINX}}}lifeCycle": "Beta"}).text = FAMILY
    indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, "unicode") + "\n"


def _bus(parent: Element, interface: Interface) -> None:
    bus = _interface(parent, interface.name, *interface.vlnv.split(":")[:3])
    if interface.vlnv == STREAM:
        SubElement(bus, _("master" if interface.master else "slave"))
    elif interface.master:
        SubElement(SubElement(bus, _("master")), _("addressSpaceRef"), {_("addressSpaceRef"): interface.name})
    else:
        SubElement(SubElement(bus, _("slave")), _("memoryMapRef"), {_("memoryMapRef"): interface.name})
    _port_maps(bus, {signal.upper(): f"{interface.name}_{signal}" for signal, _bits, _output in signals(interface)})
    _parameters(bus, bus_parameters(interface.name))


def _signal(parent: Element, port: str, kind: str, logical: str, parameters: dict[str, str]) -> None:
    bus = _interface(parent, port, "xilinx.com", "signal", kind)
    SubElement(bus, _("master" if port in OUTPUTS else "slave"))
    _port_maps(bus, {logical: port})
    _parameters(bus, parameters)


def _interface(parent: Element, name: str, vendor: str, library: str, kind: str) -> Element:
    bus = SubElement(parent, _("busInterface"))
    _text(bus, "name", name)
    for tag, of in (("busType", kind), ("abstractionType", f"{kind}_rtl")):
        values = {"vendor": vendor, "library": library, "name": of, "version": "1.0"}
        SubElement(bus, _(tag), {_(key): value for key, value in values.items()})
    return bus


def _port_maps(bus: Element, ports: dict[str, str]) -> None:
    maps = SubElement(bus, _("portMaps"))
    for logical, physical in ports.items():
        entry = SubElement(maps, _("portMap"))
        _text(SubElement(entry, _("logicalPort")), "name", logical)
        _text(SubElement(entry, _("physicalPort")), "name", physical)


def _parameters(parent: Element, values: dict[str, str]) -> None:
    parameters = SubElement(parent, _("parameters")) if values else parent
    for name, value in values.items():
        _texts(SubElement(parameters, _("parameter")), name=name, value=value)


def _memory_map(maps: Element, config: Config) -> None:
    memory_map = SubElement(maps, _("memoryMap"))
    _text(memory_map, "name", "s_axi_control")
    block = SubElement(memory_map, _("addressBlock"))
    _texts(block, name="reg0", baseAddress="0x0", range=f"{SPACE_BYTES:#x}", width="32", usage="register", access="read-write")
    for register in there(config.codebook):
        _register(SubElement(block, _("register")), register)


def _register(parent: Element, register: Register) -> None:
    reset, bit = 0, 0
    for field in register.fields:
        reset |= (field.reset & ((1 << field.bits) - 1)) << bit
        bit += field.bits
    _texts(parent, name=register.name, addressOffset=f"{register.offset:#x}", size="32", access=register_access(register))
    _text(SubElement(parent, _("reset")), "value", f"{reset:#x}")
    bit = 0
    for field in register.fields:
        values = {"name": field.name.upper(), "description": field.doc, "bitOffset": str(bit), "bitWidth": str(field.bits)}
        _texts(SubElement(parent, _("field")), **values, access=ACCESS[field.access])
        bit += field.bits


def _model(model: Element, interfaces: tuple[Interface, ...]) -> None:
    """Two views of one file, and every port."""
    views = SubElement(model, _("views"))
    for name, use in (("xilinx_verilogsynthesis", "synthesis"), ("xilinx_verilogbehavioralsimulation", "simulation")):
        view = SubElement(views, _("view"))
        _texts(view, name=name, envIdentifier=f"verilogSource:vivado.xilinx.com:{use}", language="verilog", modelName=TOP)
        _text(SubElement(view, _("fileSetRef")), "localName", "verilog")
    ports = SubElement(model, _("ports"))
    for port in SINGLE:
        _port(ports, port, 1, port in OUTPUTS)
    for interface in interfaces:
        for signal, bits, output in signals(interface):
            _port(ports, f"{interface.name}_{signal}", bits, output)


def _port(parent: Element, name: str, bits: int, output: bool) -> None:
    port = SubElement(parent, _("port"))
    _text(port, "name", name)
    wire = SubElement(port, _("wire"))
    _text(wire, "direction", "out" if output else "in")
    if bits > 1:
        _texts(SubElement(wire, _("vector")), left=str(bits - 1), right="0")


def _text(parent: Element, tag: str, text: str) -> None:
    SubElement(parent, _(tag)).text = text


def _texts(parent: Element, **texts: str) -> None:
    for tag, text in texts.items():
        _text(parent, tag, text)


def _(tag: str) -> str:
    return f"{{{SPIRIT}}}{tag}"
