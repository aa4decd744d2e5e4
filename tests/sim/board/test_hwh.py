"""The `.hwh`, as both parsers of pynq read it, against the block design and the generated Verilog."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cnna.sim.board.blocks import PS
from cnna.sim.board.cells import ACCELERATOR, DMA, LEDS
from cnna.sim.board.design import VARIANTS, design, variants_of
from cnna.sim.board.dma import REGISTERS as DMA_REGISTERS
from cnna.sim.board.hwh import hwh, signals
from cnna.sim.rtl.sources import generated
from cnna.spec.config import PRESETS, Config, preset
from cnna.spec.errors import UserError
from cnna.spec.files import default_cache
from cnna.spec.regmap import there

FOUR_PORTS = Config("four", pix=2, ci=8, co=8, ports=4, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)

BUILDS = [(name, variant) for name, config in PRESETS.items() for variant in variants_of(config)]

pytestmark = pytest.mark.filterwarnings("ignore")  # pynq's own warnings


@pytest.mark.parametrize(("config", "variant"), BUILDS)
def test_pynq_reads_addresses_types_and_registers(config: str, variant: str, tmp_path: Path) -> None:
    """A driver would be bound to nothing, or write to another register than the one it names."""
    from pynqmetadata.frontends import Metadata
    from pynqmetadata.views.runtime import RuntimeMetadataParser

    made = design(preset(config), variant)
    (tmp_path / "cnna.hwh").write_text(hwh(made))
    parser = RuntimeMetadataParser(Metadata(input=str(tmp_path / "cnna.hwh")))
    assert set(parser.ip_dict) == {ACCELERATOR, LEDS, PS} | ({DMA} if variant == "pl" else set())
    for window in made.registers():
        entry = parser.ip_dict[window.slave_cell]
        assert (entry["phys_addr"], entry["addr_range"]) == (window.base, window.size)
        assert entry["type"] == made.cell(window.slave_cell).vlnv
    assert parser.ip_dict[ACCELERATOR]["parameters"]["C_PIX"] == str(preset(config).pix)
    found = {
        (name, entry["address_offset"]): {field: (item["bit_offset"], item["bit_width"]) for field, item in entry["fields"].items()}
        for name, entry in parser.ip_dict[ACCELERATOR]["registers"].items()
    }
    wanted = {}
    for register in there(codebook=False):
        bits = [sum(field.bits for field in register.fields[:index]) for index in range(len(register.fields))]
        fields = {field.name.upper(): (bit, field.bits) for bit, field in zip(bits, register.fields, strict=True)}
        wanted[register.name, register.offset] = fields
    assert found == wanted
    assert parser.ip_dict[ACCELERATOR]["parameters"]["C_STREAMS"] == str(int(variant == "pl"))
    if variant == "pl":
        entry = parser.ip_dict[DMA]
        assert {name: item["address_offset"] for name, item in entry["registers"].items()} == {n: at for n, at, _ in DMA_REGISTERS}
        assert made.cell(DMA).parameters.items() <= entry["parameters"].items()
    assert [clock["enable"] for clock in parser.clock_dict.values()] == [1, 0, 0, 0]
    assert parser.clock_dict[0]["frequency"] == pytest.approx(preset(config).clock_mhz, rel=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_older_parser_agrees(variant: str) -> None:
    """PYNQ 3 images read the file with another parser."""
    from pynq.pl_server.hwh_parser import _HWHUltrascale

    made = design(preset("zcu102"), variant)
    parser = _HWHUltrascale(hwh_data=hwh(made))
    for window in made.registers():
        assert parser.ip_dict[window.slave_cell]["phys_addr"] == window.base
        assert parser.ip_dict[window.slave_cell]["type"] == made.cell(window.slave_cell).vlnv


@pytest.mark.cosim  # generates Verilog
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    "config", [preset("tiny"), pytest.param(FOUR_PORTS, marks=pytest.mark.slow)], ids=lambda config: config.name
)
def test_ports_are_those_of_the_verilog(config: Config, variant: str) -> None:
    """The block design would not validate in Vivado."""
    made = design(config, variant)
    text = generated(made.config, default_cache(), print)
    body = text[text.index("module cnna(") :]
    ports = re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);$", body[: body.index("endmodule")], re.M)
    verilog = {name: (kind == "output", int(high or 0) + 1) for kind, high, name in ports}
    module = next(m for m in ElementTree.fromstring(hwh(made)).iter("MODULE") if m.get("INSTANCE") == ACCELERATOR)
    handoff = {port.get("NAME"): (port.get("DIR") == "O", int(port.get("LEFT", 0)) + 1) for port in module.iterfind("PORTS/PORT")}
    assert handoff == verilog
    mapped = [entry.attrib["PHYSICAL"] for entry in module.iter("PORTMAP")]
    assert sorted(mapped) == sorted(f"{i.name}_{s}" for i in made.cell(ACCELERATOR).interfaces for s, _, _ in signals(i))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_bus_and_wire_ends_at_a_cell(variant: str) -> None:
    """A reader of the file would silently drop a connection to nowhere."""
    made = design(preset("zcu102"), variant)
    interfaces = {(cell.name, interface.name) for cell in made.cells for interface in cell.interfaces}
    ends = [end for m, i, s, j in made.buses for end in ((m, i), (s, j))] + [(e.cell, e.interface) for e in made.externals]
    assert sorted(ends) == sorted(interfaces)
    assert {name for driver, _, receiver, _ in made.wires for name in (driver, receiver)} == {cell.name for cell in made.cells}
    spans = sorted((window.base, window.last) for window in made.registers())
    assert all(last < base for (_, last), (base, _) in pairwise(spans))
    kinds = {(cell.name, interface.name): interface.vlnv for cell in made.cells for interface in cell.interfaces}
    assert all(kinds[m, i] == kinds[s, j] for m, i, s, j in made.buses), "a stream on a memory mapped bus"


def test_a_variant_that_there_is_not_is_named() -> None:
    """A misspelt variant would become another one."""
    with pytest.raises(ValueError, match="variant 'pss' is unknown; there are ps, pl"):
        design(preset("tiny"), "pss")


def test_a_board_without_the_variants_memory_is_named() -> None:
    """Vivado would look for a memory controller's pins that the board does not have."""
    with pytest.raises(UserError, match="--variant pl: a KV260 has no DDR4"):
        design(preset("kv260"), "pl")


@pytest.mark.parametrize("mhz", [1, 23, 24, 1500, 1501, 65535])
def test_a_clock_that_no_board_makes_is_named(mhz: int) -> None:
    """A division by zero would end the command, or the board run at another clock than its figures say."""
    config = replace(preset("tiny"), clock_mhz=mhz)
    if 24 <= mhz <= 1500:
        (ps,) = (cell for cell in design(config).cells if cell.name == PS)
        assert 1 <= int(ps.parameters["PSU__CRL_APB__PL0_REF_CTRL__DIVISOR0"]) < 1 << 6
        return
    with pytest.raises(UserError, match=rf"clock_mhz = {mhz}, but this design divides 1500 MHz by 1 to 63: 24 to 1500 MHz$"):
        design(config)


def test_the_handoff_names_its_board() -> None:
    """Who reads the file would take it for a ZCU102's; a board of 2 GiB has no DDR above 4 GiB."""
    made = design(preset("ultra96"))
    system = ElementTree.fromstring(hwh(made)).find("SYSTEMINFO")
    assert system is not None
    assert (system.get("DEVICE"), system.get("PACKAGE"), system.get("SPEEDGRADE")) == ("xczu3eg", "sbva484", "-1")
    assert {window.base for window in made.windows if window.memory} == {0}


def test_what_the_accelerators_masters_reach() -> None:
    """In `ps` they must reach all of the PS's DDR, in `pl` only the PL's DDR4, while the DMA reaches the rest."""
    for variant, wanted in (("ps", {PS}), ("pl", {"ddr4_0"})):
        windows = design(preset("zcu102"), variant).windows
        assert {window.slave_cell for window in windows if window.master_cell == ACCELERATOR} == wanted
    assert {(w.master, w.base) for w in windows if w.master_cell == DMA} == {
        (master, base) for master in ("M_AXI_MM2S", "M_AXI_S2MM") for base in (0, 0x8_0000_0000)
    }
