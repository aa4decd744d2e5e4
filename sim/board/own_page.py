"""The page of an accelerator for a user's own Vivado project: ports, clocks, reset, interrupt, memory, addresses, constraints.

`cnna board ip` writes it for any configuration. `python -m cnna.sim.board.own_page docs` writes that of `zcu102` and its picture
to docs. Tables come from the block design (`design`), from the register table and from the buses' signatures.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from cnna.hw.axi.buses import OUTPUTS, SINGLE, bus_parameters
from cnna.sim.board.blocks import PS, STREAM, Design, Interface
from cnna.sim.board.cells import ACCELERATOR
from cnna.sim.board.design import design as block_design
from cnna.sim.board.hwh import signals
from cnna.sim.board.own_picture import picture
from cnna.sim.board.own_project import beside, own_windows, segment, space
from cnna.spec.boards import FIRST_SPI, PL_PS_IRQ0
from cnna.spec.config import preset
from cnna.spec.identity import VLNV
from cnna.spec.machine import BURST_BEATS, BUS_BITS, READS_OUTSTANDING, WRITES_OUTSTANDING
from cnna.spec.regmap import BLOCKS, SPACE_BYTES, there

PAGE, PICTURE = "README.md", "block.svg"  # in a folder of `cnna board ip`
ONLINE = "https://github.com/cnna/cnna/blob/main/docs/"
_SOURCES = """\
[1]: https://docs.amd.com/r/2022.1-English/ug949-vivado-design-methodology/Synchronous-CDC
[2]: https://docs.amd.com/r/ja-JP/ug572-ultrascale-clocking/BUFGCE_DIV
[3]: https://docs.amd.com/r/2024.2-English/ug906-vivado-design-analysis/Description?contentId=7aYGZzJkN06GvT5FtJNf0w
[4]: https://docs.amd.com/r/2023.2-English/ug994-vivado-ip-subsystems/List-of-Supported-X_-Attributes
[5]: https://docs.amd.com/r/en-US/ug1118-vivado-creating-packaging-custom-ip/Outputs-from-IP-Packager
[6]: https://docs.amd.com/r/3.4-English/pg201-zynq-ultrascale-plus-processing-system/Programmable-Logic-Clocks-and-Interrupts
"""


def page(design: Design, typed: str, verilog: str, picture_name: str = PICTURE, docs: str = ONLINE) -> str:
    """The page's text.

    typed: what `--config` takes for it. verilog: the name of the source. docs: where the project's other pages are, as a link's
    beginning.
    """
    parts = [_head(design, typed, picture_name, docs), _ways(verilog), _ports(design), _clocks(design), _reset_and_interrupt()]
    parts += [_buses(design), _addresses(design, docs), _ps(design), _constraints(), _sources()]
    return "\n".join(parts)


def _head(design: Design, typed: str, picture_name: str, docs: str) -> str:
    config = design.config
    return f"""\
# The accelerator in your own Vivado project

This page has what you need to put the accelerator `{config.name}` (variant `{design.variant}`) beside your own IPs:
ports, clocks, reset, interrupt, addresses and constraints. Its IP is called `{VLNV}`.
`cnna board ip --config {typed} --variant {design.variant} -o DIR` writes this page, the IP and the scripts; for
another configuration it writes another page. To build a whole image for a board there is `bitstreams/build.tcl` ([board
guide]({docs}board.md)), which needs none of what follows.

**Nothing on this page has been tried in Vivado**, because none was at hand. Tests play the scripts in a Tcl interpreter,
and compare each port, connection, clock and address in them with the generated Verilog and with the block design of the
virtual board. `component.xml` is valid by the schema of IEEE 1685-2009.

![The accelerator's ports, and what each of them is connected to]({picture_name})

The picture shows what `bitstreams/build.tcl` connects. In your project the outer boxes may be other IPs.
"""


def _ways(verilog: str) -> str:
    return f"""\
## Add it to a project

| file | what it is for |
|---|---|
| `{verilog}` | the accelerator, in one text of Verilog-2001; its top module is `cnna` |
| `component.xml` | makes the folder an IP repository (IP-XACT): buses, clocks, reset, interrupt, registers |
| `beside.tcl` | adds the IP to a block design that is open; [below](#the-ten-lines) |
| `clocks.tcl` | makes both clocks and the reset in a block design |
| `cnna.xdc` | what implementation must know of the clocks |
| `out_of_context.xdc` | clocks for a synthesis of the accelerator alone |
| `package.tcl` | has Vivado write its own `component.xml` |
| `settings.tcl` | what `bitstreams/build.tcl` reads |

There are three ways; the first is the usual one.

1. *As an IP.* `set_property ip_repo_paths DIR [current_project]; update_ip_catalog` finds it, as `beside.tcl` does.
   `component.xml` is written by this project, not by Vivado's packager, whose files one should not edit ([UG1118][5]); if you
   want Vivado's own, take the second way.
2. *Packaged by Vivado.* `vivado -mode batch -source package.tcl` packages the Verilog into `packaged`. Every port of the
   Verilog has the attributes `X_INTERFACE_INFO` and `X_INTERFACE_PARAMETER`, by which the packager finds buses, clocks,
   reset and interrupt ([UG994][4]).
3. *As a module.* `add_files {verilog}; create_bd_cell -type module -reference cnna {ACCELERATOR}` uses the same
   attributes, without a repository.

No frequency is written into the IP (there is no FREQ_HZ): a block design takes it from the clock that you connect. Your
Verilog can instantiate `cnna` without any block design too; then the ports below are all there is.

### The ten lines

`source clocks.tcl` makes `aclk`, `aclk2x` and `aresetn` of the processing system's clock; leave it out if you have them.
`source beside.tcl` adds the accelerator. Its first lines name what it is connected to, and you set those that differ in your
design: `set at(interrupt) my_concat/In2`.
"""


def _listing(design: Design) -> str:
    return "```tcl\n" + beside(design).partition("\n")[2] + "```\n"


def _ports(design: Design) -> str:
    rows = ["| port | bits | direction | interface | clock |", "|---|---|---|---|---|"]
    for port, (kind, _, _) in SINGLE.items():
        way = "out" if port in OUTPUTS else "in"
        rows.append(f"| `{port}` | 1 | {way} | {kind} | {'-' if kind == 'clock' else '`aclk`'} |")
    for name, interface in _kinds(design.cell(ACCELERATOR).interfaces):
        for signal, bits, output in signals(interface):
            rows.append(f"| `{name}_{signal}` | {bits} | {'out' if output else 'in'} | `{name}` | `aclk` |")
    ports = design.config.ports
    told = f"`N` is 0 to {ports - 1}: there are {ports} such buses." if ports > 1 else "There is one memory port."
    return "\n".join([_listing(design), "## Ports", "", told, "", *rows, ""])


def _kinds(interfaces: Iterable[Interface]) -> list[tuple[str, Interface]]:
    """The buses and their names, the memory ports once."""
    found = list(interfaces)
    many = sum(i.name.startswith("m_axi_gmem") for i in found) > 1
    kept = [i for i in found if not many or not i.name.startswith("m_axi_gmem") or i.name == "m_axi_gmem0"]
    return [("m_axi_gmemN" if many and i.name == "m_axi_gmem0" else i.name, i) for i in kept]


def _clocks(design: Design) -> str:
    mhz = design.config.clock_mhz
    return f"""\
## Clocks

| clock | frequency | what runs from it |
|---|---|---|
| `aclk` | {mhz} MHz, the target of this configuration | all buses, the interrupt, the reset, and nearly all logic |
| `aclk2x` | {2 * mhz} MHz, exactly twice `aclk` | DSP48E2 that are used twice in a clock, and registers beside them; no port |

- **Both clocks come from one output of one MMCM**, at {2 * mhz} MHz, by two BUFGCE_DIV: one that divides by 1 (`aclk2x`),
  and one that divides by 2 (`aclk`). So neither the MMCM's phase error nor two kinds of buffers stand between them
  ([UG949][1]). `clocks.tcl` makes this of a clocking wizard without output buffers and two `util_ds_buf`. Two outputs of
  an MMCM work too, but the phase error counts in each path between the clocks.
- **Edges.** Each rising edge of `aclk` is one of `aclk2x`. Which one does not matter: the accelerator finds out which
  half of a clock it is in, and knows it two clocks after the clocks have begun, or have begun again. CE and CLR of the
  buffers are constant. Only one buffer divides by more than 1, so the two cannot get out of step ([UG906, TIMING-49][3]).
  If you clear or gate the buffers, use the same signal for both ([UG572][2]).
- **Timed.** The clocks are synchronous. Paths from one to the other are timed with half a clock of `aclk`, and have no
  exceptions.
- **Another frequency.** A slower `aclk` works if `aclk2x` stays twice as fast; only times become longer. But the CLOCK
  register still says {mhz} MHz, from which the host computes times. `clock_mhz=200` behind the name in `--config` writes an
  IP that says 200.
- **Other clocks.** The accelerator has no crossing into any other domain. A SmartConnect with two clocks crosses between
  `aclk` and yours.
"""


def _reset_and_interrupt() -> str:
    return f"""\
## Reset

`aresetn` is active low, and synchronous to `aclk`: one register samples it, so an asynchronous reset must go through a
`proc_sys_reset` first, whose `dcm_locked` waits for the MMCM. Hold it low for 16 clocks. It ends bursts that are under way, so it
must also reset what is connected to the memory ports. `aclk2x` has no reset. After configuration the accelerator begins in reset
by itself. While it is in use nobody needs `aresetn`: CTRL.soft_reset waits for all bursts, and then clears the engines.

## Interrupt

`interrupt` is a level, high while CTRL.irq_enable is set and STATUS.done or STATUS.error is. A reset, the next start, or a write
of 1 to that bit lowers it. At `pl_ps_irq0[0]` it has number {PL_PS_IRQ0} at the PS's interrupt controller ([PG201][6]), which a
device tree calls `<0 {PL_PS_IRQ0 - FIRST_SPI} 4>`. The driver looks for this number; with an AXI interrupt controller between, or
at another input, it polls.
"""


def _buses(design: Design) -> str:
    rows = ["| bus | kind | parameters |", "|---|---|---|"]
    for name, interface in _kinds(design.cell(ACCELERATOR).interfaces):
        kind = "AXI4-Stream" if interface.vlnv == STREAM else "AXI4" if interface.master else "AXI4-Lite"
        parameters = ", ".join(f"{key} {value}" for key, value in bus_parameters(interface.name).items())
        rows.append(f"| `{name}` | {kind} {'master' if interface.master else 'slave'} | {parameters} |")
    ports = design.config.ports
    any_port = f"Any of the {ports} ports reads and writes any segment." if ports > 1 else "The one port uses all segments."
    streams = (
        "\nThe streams carry copies between the host's memory and the accelerator's, as the STREAM registers ask for.\n"
        "Packets end with TLAST; every beat but the last one is whole.\n"
        if design.config.streams
        else ""
    )
    return (
        "\n".join(["## Buses", "", *rows, ""])
        + f"""
- *Registers.* Only aligned writes of all four bytes are legal; others get SLVERR.
- *Memory.* Bursts are INCR, of full beats of 16 bytes, at most {BURST_BEATS} beats, and never cross a multiple of 256
  bytes. There is no ID signal: answers of a port come in order. Up to {READS_OUTSTANDING} reads and {WRITES_OUTSTANDING}
  writes of a port are unanswered. AxCACHE is 0b0011, so the ports are not coherent: the host flushes and invalidates.
  Addresses have {BUS_BITS} bits.
- *All ports must see the same memory.* {any_port} Port 0 also fetches the program. Give each
  port a path of its own to DDR, such as an HP port; behind one shared path they share its speed.
{streams}"""
    )


def _addresses(design: Design, docs: str) -> str:
    rows = ["| master | sees | from | bytes |", "|---|---|---|---|"]
    for window in own_windows(design):
        rows.append(f"| `{space(window)}` | `{segment(window)}` | {window.base:#x} | {window.size:#x} |")
    blocks = ["| block | from | registers |", "|---|---|---|"]
    for block, (base, _) in BLOCKS.items():
        names = [register.name for register in there(design.config.codebook) if register.block == block]
        if names:
            blocks.append(f"| {block} | {base:#05x} | {len(names)}: {names[0]} to {names[-1]} |")
    return "\n".join(
        [
            "## Addresses",
            "",
            "These are the addresses of `bitstreams/build.tcl`. The registers may lie at any multiple of 4,096 that the host",
            "finds: pynq takes it from the `.hwh`, a host in C++ from you. Memory may lie anywhere, but must have the same",
            "addresses for the host's driver and for every port.",
            "",
            *rows,
            "",
            f"Within its {SPACE_BYTES:,} bytes the accelerator has these registers ([every field]({docs}registers.md)).",
            "",
            *blocks,
            "",
        ]
    )


def _ps(design: Design) -> str:
    values = design.cell(PS).parameters
    wanted = [
        name for name in values if name.startswith("PSU__") and ("DATA_WIDTH" in name or "USE__" in name) and values[name] != "0"
    ]
    wanted += ["PSU__CRL_APB__PL0_REF_CTRL__SRCSEL", "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ"]
    return "\n".join(
        [
            "## The processing system",
            "",
            "What `bitstreams/build.tcl` sets in it for the accelerator, as `CONFIG.` names. If Linux has loaded the image",
            "without pynq, the ports still have the widths that the boot loader knew: `cnna board firmware` writes a device tree",
            "overlay that sets them.",
            "",
            "| parameter | value |",
            "|---|---|",
            *(f"| `{name}` | {values[name]} |" for name in wanted),
            "",
        ]
    )


def _constraints() -> str:
    return """\
## Constraints

- `cnna.xdc` puts the nets of both clocks into one CLOCK_DELAY_GROUP, so that they get routes of equal delay ([UG949][1]).
  Use it for implementation alone: `set_property used_in_synthesis false [get_files cnna.xdc]`. It finds the buffers by
  the names that `clocks.tcl` gives them.
- The clocks need no constraint of their own: Vivado derives them from the MMCM's input, which has that of the PS, or your
  `create_clock` on a pin.
- The accelerator has no pins, no false paths and no multicycle paths.
- Attributes in the Verilog keep copies of registers that must stay apart. Do not give `-keep_equivalent_registers`; it
  would keep all others too.
- `report_clock_interaction` must show the clocks of `aclk` and `aclk2x` as timed to each other, and `report_methodology`
  no TIMING-49.
"""


def _sources() -> str:
    return f"""\
## Sources

- [1]: AMD, UG949, *Synchronous CDC*
- [2]: AMD, UG572, *BUFGCE_DIV*, which we have read in Japanese
- [3]: AMD, UG906, *TIMING-49*
- [4]: AMD, UG994, *List of Supported X_ Attributes*
- [5]: AMD, UG1118, *Outputs from IP Packager*
- [6]: AMD, PG201, *Programmable Logic Clocks and Interrupts*

{_SOURCES}"""


if __name__ == "__main__":
    made, folder = block_design(preset("zcu102")), Path(sys.argv[1])
    (folder / "own-vivado.md").write_text(page(made, made.config.name, "cnna_zcu102.v", "own-vivado.svg", docs=""))
    (folder / "own-vivado.svg").write_text(picture(made))
