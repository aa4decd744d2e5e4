"""`bitstreams/build.tcl` and its constraints, played in a Tcl interpreter whose Vivado records what it is asked for.

The block design that it makes must be that of `sim/board/design.py`, from which the virtual board and the `.hwh` come.
"""

import itertools
import json
import tkinter
from dataclasses import replace
from pathlib import Path

import pytest

from cnna.cli import board
from cnna.cli.options import configuration
from cnna.sim.board.blocks import PS, Design
from cnna.sim.board.cells import DDR4
from cnna.sim.board.design import design, variants_of
from cnna.sim.board.ipxact import SETTINGS, settings
from cnna.sim.board.own_project import CONSTRAINTS
from cnna.spec.boards import BOARDS, Board, board_of
from cnna.spec.command_line import Parser
from cnna.spec.config import PRESETS, Config, preset

OWN = ("exec", "glob", "exit")  # Tcl's own commands that must not touch this machine
ANSWERS = {"get_property": "0.1", "version": "2022.1", "make_wrapper": "wrapper.v", "glob": "made.hwh"}
CHANGED = ("zcu102,ports=2,clock_mhz=200", "zcu102,pix=4,bank_words=4096", "zcu102,codebook=1", "kv260,co=32,ports=4,uram=0")
PLAYED = [(typed, variant) for typed in (*PRESETS, *CHANGED) for variant in variants_of(configuration(typed))]


class Vivado:
    """Plays a script. typed: its argument for `config`. `calls` lists what it asked Vivado for, as the words of each command."""

    def __init__(self, script: Path, typed: str, config: Config, variant: str) -> None:
        self.tcl, self.calls, self.typed, self.config = tkinter.Tcl(), list[tuple[str, ...]](), typed, config
        for name in OWN:
            self.tcl.createcommand(name, lambda *words, name=name: self._called(name, *words))
        self.tcl.createcommand("unknown", self._called)
        self.tcl.setvar("argv", f"{typed} {variant} out")
        self.tcl.call("source", str(script))

    def _called(self, name: str, *words: str) -> str:
        self.calls.append((name, *map(str, words)))
        if name == "exec" and "ip" in words:  # `cnna board ip` also writes a file that the script reads
            (Path(words[-1]) / SETTINGS).write_text(settings(self.config))
        if name == "exec":
            return "cnna 9.9.9" if "--version" in words else "digest file"
        return ANSWERS.get(name, str(words[-1]) if words else "")

    def of(self, name: str) -> list[list[str]]:
        """The words of all calls of one command."""
        return [words for called, *words in self.calls if called == name]

    def of_pairs(self, name: str) -> list[tuple[str, str]]:
        """The arguments of all calls of a command with two words."""
        return [(one, two) for one, two in self.of(name)]

    def pairs(self, text: str) -> dict[str, str]:
        """A Tcl dictionary, as Python's."""
        words = self.tcl.splitlist(text)
        return {str(key): str(value) for key, value in itertools.zip_longest(words[::2], words[1::2])}


@pytest.fixture(params=PLAYED, ids="-".join)
def played(request: pytest.FixtureRequest, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Design, Vivado]:
    """The script, run for each configuration and variant, and the block design that it must make."""
    monkeypatch.chdir(tmp_path)
    Path("made.hwh").write_text("handoff")
    typed, variant = request.param
    made = design(configuration(typed), variant)
    return made, Vivado(root / "bitstreams" / "build.tcl", typed, made.config, variant)


def test_cells_and_their_parameters(played: tuple[Design, Vivado]) -> None:
    """An IP of another name or version would have another driver, or other registers."""
    made, vivado = played
    assert {words[-1]: words[-2] for words in vivado.of("create_bd_cell")} == {cell.name: cell.vlnv for cell in made.cells}
    given: dict[str, dict[str, str]] = {}
    for flag, text, cell in (words for words in vivado.of("set_property") if words[0] == "-dict"):
        assert flag == "-dict"
        given.setdefault(cell, {}).update(vivado.pairs(text))
    for cell, parameters in given.items():
        known = made.cell(cell).parameters
        for name, value in parameters.items():
            assert known[name.removeprefix("CONFIG.")] == value, (cell, name)
    own = {"CONFIG." + name for name in made.cell(DDR4).parameters} if made.variant == "pl" else set()
    assert set(given.get(DDR4, {})) == own, "pins and timing of the PL's DDR4 come with the names of the board's interfaces"
    assert "CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ" in given[PS]
    board = board_of(made.config)
    assert vivado.of("create_project")[0][-1] == board.part
    assert board.part in vivado.of("synth_design")[0]
    assert vivado.of("create_bd_port")[0][2:] == ["-from", str(board.leds - 1), "-to", "0", "leds_tri_o"]
    set_ = [list(words[:2]) for words in vivado.of("set_property")]
    assert ["board_part", board.board_part] in set_
    assert [text for name, text in set_ if name == "board_connections"] == [board.connections] * bool(board.connections)
    assert [Path(words[-1]).name for words in vivado.of("read_xdc")] == [f"{board.key}.xdc", CONSTRAINTS]


def test_connections(played: tuple[Design, Vivado]) -> None:
    """A port would be left open, or be on another bus."""
    made, vivado = played
    buses = {(f"{m}/{i}", f"{s}/{j}") for m, i, s, j in made.buses} | {(f"{e.cell}/{e.interface}", e.name) for e in made.externals}
    assert set(vivado.of_pairs("connect_bd_intf_net")) == buses
    assert {words[-1] for words in vivado.of("create_bd_intf_port")} == {external.name for external in made.externals}
    wanted = {(f"{a}/{b}", f"{c}/{d}") for a, b, c, d in made.wires} | {("leds_gpio/gpio_io_o", "leds_tri_o")}
    assert set(vivado.of_pairs("connect_bd_net")) == wanted


def test_addresses(played: tuple[Design, Vivado]) -> None:
    """The driver finds registers by the .hwh, and the accelerator its memory by what the host has allocated or planned."""
    made, vivado = played
    found = set()
    for words in vivado.of("assign_bd_address"):
        options = dict(zip(words[:-2:2], words[1:-2:2], strict=True))
        assert words[-1] == "-force"
        space, segment = options["-target_address_space"], words[-2]
        cell, master = space.split("/")
        base, size = (int(options[name], 16) for name in ("-offset", "-range"))
        place = cell, master if cell != PS else "", segment.split("/")[-1], base, size
        assert place not in found, "placed twice"
        found.add(place)
    masters = {"M_AXI_MM2S": "Data_MM2S", "M_AXI_S2MM": "Data_S2MM"}  # Vivado's names for the DMA's address spaces
    names = [(w, masters.get(w.master, w.master) if w.master_cell != PS else "") for w in made.windows]
    assert found == {(w.master_cell, name, w.block, w.base, w.size) for w, name in names}


def test_commands_files_and_manifest(played: tuple[Design, Vivado]) -> None:
    """The command for the IP must exist; by the manifest the driver checks an overlay."""
    made, vivado = played
    command = vivado.of("exec")[0]
    assert list(command[:2]) == ["cnna", "board"]
    parser = Parser()
    board.configure(parser)
    args = parser.parse_args(list(command[2:]))
    assert (args.part, args.config, args.variant, str(args.folder)) == ("ip", vivado.typed, made.variant, "out/ip")
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert (manifest["config"], manifest["variant"]) == (vivado.typed, made.variant)
    assert manifest["clock_mhz"] == made.config.clock_mhz
    assert manifest["cnna.bit"] == manifest["cnna.hwh"] == "digest"
    assert Path("out/cnna.hwh").read_text() == "handoff"
    steps = [name for name, *_ in vivado.calls]
    order = ["validate_bd_design", "generate_target", "synth_design", "place_design", "route_design", "report_timing_summary"]
    assert [name for name in steps if name in order] == order
    last_constraints = len(steps) - steps[::-1].index("read_xdc")
    assert steps.index("synth_design") < last_constraints < steps.index("place_design"), "the clocks' nets exist after synthesis"
    assert "exit" not in steps


@pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.key)
def test_constraints_place_every_led_once(board: Board, root: Path) -> None:
    """Two LEDs cannot be placed on one pin."""
    vivado = Vivado(root / "bitstreams" / f"{board.key}.xdc", board.key, preset(board.key), "ps")
    placed = {words[-1]: vivado.pairs(words[1]) for words in vivado.of("set_property")}
    assert set(placed) == {f"leds_tri_o[{index}]" for index in range(board.leds)}
    assert len({each["PACKAGE_PIN"] for each in placed.values()}) == board.leds


def test_the_boards_differ() -> None:
    """A bitstream for one part does not load on another; every board has a preset, and a changed preset keeps its board."""
    assert len({board.part for board in BOARDS.values()}) == len(BOARDS)
    assert set(BOARDS) <= set(PRESETS)
    assert board_of(replace(preset("kv260"), name="kv260-ports2")) is BOARDS["kv260"]
    assert board_of(replace(preset("tiny"), name="unlike")) is BOARDS["zcu102"]
