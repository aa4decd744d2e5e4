"""Tcl and XDC for a user's own Vivado project, in which the accelerator stands beside other IPs.

All of it comes from the block design in `design`, from which the virtual board is made too. So the names that a script takes where
the user gives none are those of `bitstreams/build.tcl`. Vivado has run nothing of it; tests play the scripts in a Tcl interpreter.
"""

from cnna.hw.axi.buses import SINGLE
from cnna.sim.board.blocks import PS, AddressRange, Cell, Design, Wire
from cnna.sim.board.cells import ACCELERATOR, CLOCKS
from cnna.sim.board.design import FAST, PS_CLOCK, PS_RESET, SLOW
from cnna.spec.config import Config
from cnna.spec.identity import VLNV

BESIDE, CLOCKING, PACKAGE = "beside.tcl", "clocks.tcl", "package.tcl"
CONSTRAINTS, OUT_OF_CONTEXT = "cnna.xdc", "out_of_context.xdc"
RESET = "reset_300"
GROUP = "cnna_clocks"  # the CLOCK_DELAY_GROUP of both clocks
_CLOCK_CELLS = (CLOCKS, SLOW[0], FAST[0], "one", "zero", RESET)
_UNTRIED = "# Nobody has run this in Vivado yet; a test plays it in a Tcl interpreter.\n"


def beside(design: Design) -> str:
    """The commands that add the accelerator to the block design that is open in Vivado."""
    ends = own_ends(design)
    lines = [
        "# Adds the accelerator to the block design that is open in Vivado: source this file in the Tcl console.",
        "# It connects the names below. Where yours differ, set them first, such as: set at(interrupt) my_concat/In2",
        "array set at [concat {",
        *(f"    {port} {other}" for port, other in ends.items()),
        "} [array get at]]",
        "set here [file dirname [file normalize [info script]]]",
        "set_property ip_repo_paths [concat [get_property ip_repo_paths [current_project]] [list $here]] [current_project]",
        "update_ip_catalog",
        f"create_bd_cell -type ip -vlnv {VLNV} {ACCELERATOR}",
        f"foreach port {{{' '.join(SINGLE)}}} {{ connect_bd_net [get_bd_pins $at($port)] [get_bd_pins {ACCELERATOR}/$port] }}",
        f"foreach bus {{{' '.join(port for port in ends if port not in SINGLE)}}} "
        f"{{ connect_bd_intf_net [get_bd_intf_pins $at($bus)] [get_bd_intf_pins {ACCELERATOR}/$bus] }}",
        *(_assign(window) for window in own_windows(design) if window.slave_cell != PS),
        *(["assign_bd_address ;# the PS's DDR, whose places are fixed"] if design.variant == "ps" else []),
    ]
    return _UNTRIED + "\n".join(lines) + "\n"


def own_ends(design: Design) -> dict[str, str]:
    """What each port and each bus of the accelerator is connected to: `cell/port` by its name."""
    pins = {end: f"{other}/{pin}" for end, other, pin in _others(design.wires)}
    return {port: pins[port] for port in SINGLE} | {end: f"{other}/{bus}" for end, other, bus in _others(design.buses)}


def own_windows(design: Design) -> list[AddressRange]:
    """The address ranges in which the accelerator is reached, and those that its ports reach."""
    return [window for window in design.windows if ACCELERATOR in (window.master_cell, window.slave_cell)]


def _others(links: tuple[Wire, ...]) -> list[tuple[str, str, str]]:
    """(the accelerator's port, other cell, its port) for each link with the accelerator at one end."""
    found = [(near, there, far) for there, far, cell, near in links if cell == ACCELERATOR]
    return found + [(near, there, far) for cell, near, there, far in links if cell == ACCELERATOR]


def segment(window: AddressRange) -> str:
    """Vivado's name for the slave segment of a window."""
    if window.slave_cell == PS:  # HP0..HP3 are the PS's S_AXI_GP2..GP5
        return f"{PS}/SAXIGP{int(window.block[2]) + 2}/{window.block}"
    return f"{window.slave_cell}/{window.slave.replace('S_AXI', 'MEMORY_MAP') if window.memory else window.slave}/{window.block}"


def space(window: AddressRange) -> str:
    """Vivado's name for the address space of a window's master."""
    return f"{window.master_cell}/{'Data' if window.master_cell == PS else window.master}"


def _assign(window: AddressRange) -> str:
    return (
        f"assign_bd_address -offset {window.base:#x} -range {window.size:#x} "
        f"-target_address_space [get_bd_addr_spaces {space(window)}] [get_bd_addr_segs {segment(window)}] -force"
    )


def clocks(design: Design) -> str:
    """The commands that make `aclk`, `aclk2x` and `aresetn` of one clock and one reset of the block design."""
    lines = [
        f"# Makes aclk, aclk2x and aresetn of a clock of {design.config.clock_mhz} MHz and a reset that is active low.",
        "# The clock has a buffer. Where yours are others than the processing system's, set from(clock) and from(reset) first.",
        f"array set from [concat {{clock {PS}/{PS_CLOCK} reset {PS}/{PS_RESET}}} [array get from]]",
    ]
    for name in _CLOCK_CELLS:
        lines += _created(design.cell(name))
    for driver, pin, cell, port in clock_wires(design):
        given = {PS_CLOCK: "$from(clock)", PS_RESET: "$from(reset)"}
        start = given[pin] if driver == PS else f"{driver}/{pin}"
        lines.append(f"connect_bd_net [get_bd_pins {start}] [get_bd_pins {cell}/{port}]")
    return _UNTRIED + "\n".join(lines) + "\n"


def clock_wires(design: Design) -> list[Wire]:
    """The wires among the cells that make clocks and reset, and into them."""
    return [wire for wire in design.wires if wire[2] in _CLOCK_CELLS]


def _created(cell: Cell) -> list[str]:
    made = [f"create_bd_cell -type ip -vlnv {cell.vlnv} {cell.name}"]
    if cell.parameters:
        values = " ".join(f"CONFIG.{name} {value}" for name, value in cell.parameters.items())
        made.append(f"set_property -dict {{{values}}} [get_bd_cells {cell.name}]")
    return made


def constraints() -> str:
    """What the place and route tools must know of both clocks; for the implementation alone."""
    names = " || ".join(f"NAME =~ *{name}/*" for name, _ in (SLOW, FAST))
    return (
        "# Routes of equal delay for aclk and aclk2x. The property belongs on the nets that the buffers drive, which exist after\n"
        "# synthesis: set_property used_in_synthesis false [get_files cnna.xdc]\n"
        "# The clocks themselves are derived from the MMCM's. No path between them has an exception: do not put them into\n"
        "# asynchronous clock groups, and give no false path or multicycle path between them.\n"
        f"set_property CLOCK_DELAY_GROUP {GROUP} [get_nets -of_objects [get_pins -hierarchical -filter "
        f"{{REF_PIN_NAME == O && ({names})}}]]\n"
    )


def out_of_context(config: Config) -> str:
    """Clocks for a synthesis of the accelerator alone. Both begin with a rising edge at 0, as the buffers give them."""
    half = 500_000 // config.clock_mhz / 1000  # ns; rounded down, so that the synthesis works for no slower clock
    return (
        "# For a synthesis of the module cnna alone (synth_design -mode out_of_context). Leave it out of a whole design: its\n"
        "# clocks would stand beside the real ones.\n"
        f"create_clock -name aclk -period {2 * half:.3f} [get_ports aclk]\n"
        f"create_clock -name aclk2x -period {half:.3f} [get_ports aclk2x]\n"
    )


def package(verilog: str, part: str) -> str:
    """The commands that have Vivado's own packager write a component.xml, from the Verilog's attributes."""
    vendor, library, name, version = VLNV.split(":")
    return (
        f"{_UNTRIED}# Has Vivado package the accelerator by its Verilog's attributes, should it not take the component.xml:\n"
        "#     vivado -mode batch -source package.tcl        # the IP is then in the folder packaged\n"
        "set here [file dirname [file normalize [info script]]]\n"
        f"create_project -force cnna_package $here/package_project -part {part}\n"
        f"add_files -norecurse [list $here/{verilog}]\n"
        "set_property top cnna [current_fileset]\n"
        "update_compile_order -fileset sources_1\n"
        f"ipx::package_project -root_dir $here/packaged -vendor {vendor} -library {library} -taxonomy /UserIP "
        "-import_files -set_current true\n"
        f"set_property -dict {{name {name} version {version}}} [ipx::current_core]\n"
        "ipx::create_xgui_files [ipx::current_core]\n"
        "ipx::update_checksums [ipx::current_core]\n"
        "ipx::check_integrity [ipx::current_core]\n"
        "ipx::save_core [ipx::current_core]\n"
        "close_project\n"
    )
