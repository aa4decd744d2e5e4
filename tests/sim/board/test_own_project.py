"""What `cnna board ip` writes for a user's own Vivado project: scripts, page and picture say what the block design has."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cnna.cli.main import main
from cnna.hw.axi.buses import OUTPUTS, SINGLE
from cnna.hw.top import Top
from cnna.sim.board import own_page, own_picture, own_project
from cnna.sim.board.blocks import PS, Design
from cnna.sim.board.cells import ACCELERATOR
from cnna.sim.board.design import FAST, SLOW, design, variants_of
from cnna.sim.board.hwh import signals
from cnna.sim.rtl.sources import generated
from cnna.spec.config import PRESETS, preset
from cnna.spec.files import default_cache
from cnna.spec.regmap import BLOCKS, REGISTERS

from ...rigs.tcl import of, play

BUILDS = [(name, variant) for name, config in PRESETS.items() for variant in variants_of(config)]
PORT = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);$", re.M)
ROW = re.compile(r"^\| `(\w+)` \| (\d+) \| (in|out) \| ", re.M)


@pytest.fixture(params=BUILDS, ids="-".join)
def made(request: pytest.FixtureRequest) -> Design:
    """The block design of each preset and variant."""
    name, variant = request.param
    return design(preset(name), variant)


def paged(text: str) -> dict[str, tuple[bool, int]]:
    """The ports in a page's table: whether the accelerator drives it, and its bits. A row of N stands for each memory port."""
    last = re.search(r"`N` is 0 to (\d+)", text)
    found = {}
    for name, bits, way in ROW.findall(text):
        for port in range(int(last[1]) + 1) if last and "gmemN" in name else (0,):
            found[name.replace("gmemN", f"gmem{port}")] = (way == "out", int(bits))
    return found


def test_the_accelerators_own_commands_are_those_of_the_design(made: Design, tmp_path: Path) -> None:
    """A port would be left open or be on another bus, or the registers be where no driver looks."""
    (tmp_path / "beside.tcl").write_text(own_project.beside(made))
    calls = play(tmp_path / "beside.tcl")
    assert of(calls, "create_bd_cell") == [["-type", "ip", "-vlnv", made.cell(ACCELERATOR).vlnv, ACCELERATOR]]
    nets = {frozenset(pair) for pair in of(calls, "connect_bd_net")}
    assert nets == {frozenset((f"{a}/{b}", f"{c}/{d}")) for a, b, c, d in made.wires if ACCELERATOR in (a, c)}
    buses = {frozenset(pair) for pair in of(calls, "connect_bd_intf_net")}
    assert buses == {frozenset((f"{a}/{b}", f"{c}/{d}")) for a, b, c, d in made.buses if ACCELERATOR in (a, c)}
    own = [w for w in made.windows if ACCELERATOR in (w.master_cell, w.slave_cell) and (w.slave_cell != PS)]
    placed = [words for words in of(calls, "assign_bd_address") if words]
    assert [(words[1], words[3]) for words in placed] == [(hex(w.base), hex(w.size)) for w in own]
    assert [words[6].split("/")[-1] for words in placed] == [w.block for w in own]
    everything = [words for words in of(calls, "assign_bd_address") if not words]
    assert len(everything) == (made.variant == "ps"), "the PS's DDR would have no address, or DDR4 another than the host plans"


def test_names_of_the_users_own_design_replace_the_others(tmp_path: Path) -> None:
    """The script would connect cells that are not there, although the user has named others."""
    (tmp_path / "beside.tcl").write_text(own_project.beside(design(preset("tiny"))))
    calls = play(tmp_path / "beside.tcl", {"at(interrupt)": "my_concat/In2", "at(m_axi_gmem0)": "my_memory/S03_AXI"})
    assert ["my_concat/In2", f"{ACCELERATOR}/interrupt"] in of(calls, "connect_bd_net")
    assert ["my_memory/S03_AXI", f"{ACCELERATOR}/m_axi_gmem0"] in of(calls, "connect_bd_intf_net")
    assert [f"{SLOW[0]}/BUFGCE_O", f"{ACCELERATOR}/aclk"] in of(calls, "connect_bd_net")


def test_the_clocks_are_those_of_the_design(made: Design, tmp_path: Path) -> None:
    """aclk2x would not be twice aclk, or its edges would not be aclk's."""
    (tmp_path / "clocks.tcl").write_text(own_project.clocks(made))
    calls = play(tmp_path / "clocks.tcl")
    cells = {words[-1]: words[-2] for words in of(calls, "create_bd_cell")}
    assert cells == {name: made.cell(name).vlnv for name in cells}
    assert {SLOW[0], FAST[0]} < set(cells)
    given = {}
    for _, text, cell in of(calls, "set_property"):
        words = text.split()
        given[cell] = {k.removeprefix("CONFIG."): v for k, v in zip(words[::2], words[1::2], strict=True)}
    assert given == {name: made.cell(name).parameters for name in cells if made.cell(name).parameters}
    wired = [tuple(pair) for pair in of(calls, "connect_bd_net")]
    assert sorted(wired) == sorted((f"{a}/{b}", f"{c}/{d}") for a, b, c, d in made.wires if c in cells)
    driven = {c for _, _, c, _ in made.wires if c in cells}
    assert {a for a, _, c, _ in made.wires if c in driven} - set(cells) == {PS}, "a cell would be fed by one that is not made"
    other = play(tmp_path / "clocks.tcl", {"from(clock)": "my/clk"})
    assert ["my/clk", "clocks/clk_in1"] in of(other, "connect_bd_net")


def test_constraints_name_ports_buffers_and_periods(made: Design, tmp_path: Path) -> None:
    """The group would be empty; or a synthesis alone would work for a slower clock, or for clocks that are not two to one."""
    (tmp_path / "cnna.xdc").write_text(own_project.constraints())
    ((name, group, _),) = of(play(tmp_path / "cnna.xdc"), "set_property")
    assert (name, group) == ("CLOCK_DELAY_GROUP", own_project.GROUP)
    (words,) = of(play(tmp_path / "cnna.xdc"), "get_pins")
    assert re.findall(r"\*(\w+)/\*", words[-1]) == [SLOW[0], FAST[0]]
    (tmp_path / "alone.xdc").write_text(own_project.out_of_context(made.config))
    clocks = {words[-1]: float(words[3]) for words in of(play(tmp_path / "alone.xdc"), "create_clock")}
    assert clocks["aclk"] == pytest.approx(2 * clocks["aclk2x"])
    assert 0.998 < clocks["aclk"] * made.config.clock_mhz / 1000 <= 1


def test_the_page_has_every_port_and_nothing_else(made: Design) -> None:
    """A user would connect a port that is not there, or leave one open. The design's own signature is the Verilog's."""
    wanted = {port: (port in OUTPUTS, 1) for port in SINGLE}
    top = Top(made.config)
    top._MustUse__used = True  # only its signature is
    for bus, member in top.signature.members.items():
        if not member.is_port:
            for name, inner in member.signature.members.items():
                wanted[f"{bus}_{name}"] = (inner.flow.name == "Out", inner.shape)
    text = own_page.page(made, made.config.name, "cnna.v")
    assert paged(text) == wanted
    listed = set(re.findall(r"^\| (\w+) \| 0x", text, re.M))
    assert listed == set(BLOCKS)
    for first, last in re.findall(r"\| \d+: (\w+) to (\w+) \|", text):
        assert {first, last} < set(REGISTERS)
    for window in own_project.own_windows(made):
        assert f"`{own_project.segment(window)}` | {window.base:#x} | {window.size:#x} |" in text
    assert f"{2 * made.config.clock_mhz} MHz, exactly twice" in text


def test_the_picture_shows_every_port_and_ends_where_the_design_does(made: Design) -> None:
    """A reader would take a port for unconnected, or look for a cell that is not there."""
    rows = {port: steps for port, _, steps in own_picture.chains(made)}
    assert set(rows) == {*SINGLE, *(interface.name for interface in made.cell(ACCELERATOR).interfaces)}
    cells = {cell.name for cell in made.cells}
    for steps in rows.values():
        assert {step.cell for step in steps} <= cells
    assert [step.cell for step in rows["aclk2x"]] == [FAST[0], "clocks", PS]
    words = {element.text for element in ElementTree.fromstring(own_picture.picture(made)).iter() if element.text}
    assert set(rows) <= words
    assert {step.port for steps in rows.values() for step in steps} <= words


def test_the_committed_page_is_that_of_zcu102(root: Path) -> None:
    """The design or the registers have changed without `make pages`."""
    made = design(preset("zcu102"))
    assert (root / "docs" / "own-vivado.md").read_text() == own_page.page(
        made, "zcu102", "cnna_zcu102.v", "own-vivado.svg", docs=""
    )
    assert (root / "docs" / "own-vivado.svg").read_text() == own_picture.picture(made)


@pytest.mark.cosim  # generates Verilog
@pytest.mark.parametrize(
    ("config", "variant"), [("tiny", "ps"), ("tiny", "pl"), ("ultra96", "ps"), ("zcu102", "ps"), ("zcu102x2", "ps")]
)
def test_the_verilog_has_the_pages_ports_with_their_attributes(config: str, variant: str) -> None:
    """Packaged by Vivado, or as a module, it would be another IP than component.xml and the page describe."""
    made = design(preset(config), variant)
    text = generated(made.config, default_cache(), lambda _: None)
    head = text[text.index("module cnna(") : text.index("endmodule")]
    verilog = {name: (way == "output", int(high or 0) + 1) for way, high, name in PORT.findall(head)}
    assert paged(own_page.page(made, made.config.name, "cnna.v")) == verilog
    for interface in made.cell(ACCELERATOR).interfaces:
        kind = "axis" if "axis" in interface.name else "aximm"
        for signal, _, _ in signals(interface):
            assert f'"xilinx.com:interface:{kind}:1.0 {interface.name} {signal.upper()}"' in head


def test_a_folder_has_all_that_its_page_names(tmp_path: Path) -> None:
    """The page would name a file that was not written, and package.tcl a source that is not there."""
    assert main(["board", "ip", "--config", "tiny", "-o", str(tmp_path)]) == 0
    page = (tmp_path / own_page.PAGE).read_text()
    named = set(re.findall(r"^\| `([\w.]+)` \| [a-z]", page, re.M)) & {path.name for path in tmp_path.iterdir()}
    assert named | {own_page.PAGE, own_page.PICTURE} == {path.name for path in tmp_path.iterdir()}
    assert f"]({own_page.PICTURE})" in page
    (added,) = of(play(tmp_path / own_project.PACKAGE), "add_files")
    assert Path(pytest.importorskip("tkinter").Tcl().splitlist(added[-1])[0]).is_file()


def test_a_folder_may_have_spaces_in_its_name(tmp_path: Path) -> None:
    """add_files and ip_repo_paths take lists: the Verilog of a folder `my ip` would be two files that are not there."""
    folder = tmp_path / "my ip"
    folder.mkdir()
    (folder / own_project.PACKAGE).write_text(own_project.package("cnna.v", "a-part"))
    (folder / own_project.BESIDE).write_text(own_project.beside(design(preset("tiny"))))
    (added,) = of(play(folder / own_project.PACKAGE), "add_files")
    tcl = pytest.importorskip("tkinter").Tcl()
    assert tcl.splitlist(added[-1]) == (str(folder / "cnna.v"),)
    (words,) = [words for words in of(play(folder / own_project.BESIDE), "set_property") if words[0] == "ip_repo_paths"]
    assert str(folder) in tcl.splitlist(words[1])


@pytest.mark.parametrize("part", ["ip", "image", "firmware"])
def test_streams_that_a_variant_leaves_out_are_no_silent_wish(
    part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files would be called after streams, and have none."""
    assert main(["board", part, "--config", "tiny,streams=1", "-o", str(tmp_path / "made")]) == 2
    said = capsys.readouterr().err
    assert "cnna: --config: config tiny-streams1: streams = 1, but variant ps has no DMA for them" in said
    assert not (tmp_path / "made").exists()
    assert design(replace(preset("tiny"), streams=True), "pl").config.streams


def test_a_page_names_the_command_that_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The name of a changed configuration is none that `--config` takes."""
    assert main(["board", "ip", "--config", "tiny,clock_mhz=200", "-o", str(tmp_path / "ip")]) == 0
    (words,) = re.findall(r"`cnna (board ip --config .*) -o DIR`", (tmp_path / "ip" / own_page.PAGE).read_text())
    assert main([*words.split(), "-o", str(tmp_path / "again")]) == 0
    same = [(tmp_path / folder / own_page.PAGE).read_text() for folder in ("ip", "again")]
    assert same[0] == same[1]
    assert "200 MHz, the target" in same[0]
