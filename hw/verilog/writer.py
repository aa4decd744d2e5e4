"""Writes the accelerator, or any module of it alone, as Verilog-2001.

The text depends only on the configuration and on this source: no folder of this machine, date or hash order gets into it.
Simulation and synthesis use the same text; only `DSP48E2` comes from elsewhere (the vendor's, or `sim/rtl/dsp48e2.v`).
"""

import gc
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from amaranth import ClockDomain, DomainRenamer
from amaranth.back import verilog
from amaranth.hdl import Elaboratable, Fragment
from amaranth.hdl._ir import PortDirection

from cnna.hw.base.timing import FAST
from cnna.hw.top import Top
from cnna.hw.verilog import describe
from cnna.hw.verilog.blocks import BLOCKS
from cnna.hw.verilog.kept_attributes import place_attributes
from cnna.hw.verilog.layout import lay_out
from cnna.hw.verilog.lint_fixes import tidy_rtlil, tidy_verilog
from cnna.hw.verilog.memories import MemoryModules
from cnna.hw.verilog.modules import convert
from cnna.hw.verilog.naming import Member, members
from cnna.spec.config import BEAT_BYTES, Config, ConfigError, as_dict
from cnna.spec.machine import AXI_LITE_BITS, BEAT_BITS, BURST_BEATS, BUS_BITS, CONTROL_BITS, READS_OUTSTANDING, WRITES_OUTSTANDING

TOP = "cnna"  # name of the top module
ELABORATED, CONVERTED = 0.17, 0.85  # of the time: when all is elaborated, and when that is RTLIL; `tiny` and `zcu102` hardly differ
Passed = Callable[[float], None]  # is told which share of the time has passed
_EMPTY = re.compile(r"^  (?:wire|reg) \[-1:0\] .*\n", re.M)  # signals of no bits, which nothing uses; Verilog would read two bits
_PORT = re.compile(r"^  (input|output) (\[\d+:0\] )?(\w+);$", re.M)
_INTERFACES = {  # prefix of the ports: interface type, parameters
    "s_axi_control": ("aximm", f"PROTOCOL AXI4LITE, DATA_WIDTH {AXI_LITE_BITS['data']}, ADDR_WIDTH {CONTROL_BITS}"),
    "m_axi_gmem": (
        "aximm",
        f"PROTOCOL AXI4, DATA_WIDTH {BEAT_BITS}, ADDR_WIDTH {BUS_BITS}, ID_WIDTH 0, MAX_BURST_LENGTH {BURST_BEATS}, "
        f"NUM_READ_OUTSTANDING {READS_OUTSTANDING}, NUM_WRITE_OUTSTANDING {WRITES_OUTSTANDING}",
    ),
    **dict.fromkeys(
        ("s_axis", "m_axis"),
        (
            "axis",
            f"TDATA_NUM_BYTES {BEAT_BYTES}, HAS_TKEEP 1, HAS_TLAST 1, HAS_TREADY 1, HAS_TSTRB 0, "
            "TDEST_WIDTH 0, TID_WIDTH 0, TUSER_WIDTH 0",
        ),
    ),
}


def modules() -> tuple[str, ...]:
    """Names of the modules that `generate_module` knows."""
    return tuple(BLOCKS)


def generate(config: Config, passed: Passed | None = None) -> str:
    """The Verilog of the whole accelerator; its top module is TOP. passed: is told ELABORATED, and then CONVERTED."""
    top = Top(config)
    return _with_interfaces(_convert(top, members(top, "_"), TOP, config, passed), config)


def generate_module(config: Config, name: str) -> str:
    """The Verilog of one module alone, as it is in an accelerator of that configuration; its top module is `cnna_NAME`.

    ConfigError: there is no such module; the message lists them.
    """
    if name not in BLOCKS:
        raise ConfigError(f"module {name}: no such module; there are {', '.join(modules())}")
    block = BLOCKS[name](config)
    return _convert(DomainRenamer({"core": "sync"})(block), members(block), f"cnna_{name}", config)


def write(config: Config, directory: Path, module: str | None = None, verilog: str | None = None) -> list[Path]:
    """Writes cnna_CONFIG.v or cnna_CONFIG_MODULE.v, registers.rdl and registers.md; returns their paths.

    verilog: of the whole accelerator, if it was generated before.

    ConfigError: there is no such module.
    """
    name = f"cnna_{config.name}" + (f"_{module}" if module else "") + ".v"
    text = verilog or (generate_module(config, module) if module else generate(config))
    files = {name: text, "registers.rdl": describe.systemrdl(config), "registers.md": describe.markdown()}
    for file, content in files.items():
        (directory / file).write_text(content)
    return [directory / file for file in files]


def _convert(block: Elaboratable, ports: Iterable[Member], name: str, config: Config, passed: Passed | None = None) -> str:
    """The Verilog, with the modules of its memories and a header. passed: as of `generate`."""
    directed = [(port, signal, PortDirection.Input if inward else PortDirection.Output) for signal, port, inward in ports]
    rams = MemoryModules()
    with no_collection():
        fragment = Fragment.get(block, rams)
        if passed:
            passed(ELABORATED)
        made = convert(fragment.prepare(ports=directed, hierarchy=(name,), missing_domain=missing_domain), name)
        if passed:
            passed(CONVERTED)
        text = verilog._convert_rtlil_text(tidy_rtlil(made.rtlil), strip_internal_attrs=True)
    text = lay_out(place_attributes(tidy_verilog(_EMPTY.sub("", text.partition("*/\n")[2]))), name, made.blocks)
    told = {key: value for key, value in as_dict(config).items() if key != "name" and (key, value) != ("depth", 1)}
    sizes = ", ".join(f"{key} = {value}" for key, value in told.items())  # depth 1 is what a reader expects
    header = f"// {name} of cnna {version('cnna')}, Apache-2.0. Generated by `cnna rtl`; edit its source instead.\n"
    return f"{header}// Configuration {config.name}: {sizes}.\n\n{text.strip()}\n\n{rams.text()}"


def missing_domain(name: str) -> ClockDomain:
    """The clock domain of a module that is generated alone; `aclk2x` resets nothing."""
    return ClockDomain(name, reset_less=name == FAST)


@contextmanager
def no_collection() -> Iterator[None]:
    """Switches the garbage collector off: searching millions of small objects that all live to the end would take half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _with_interfaces(text: str, config: Config) -> str:
    """Adds the attributes that tell Vivado's IP packager which ports belong to which interface."""
    at = text.index(f"module {TOP}(")
    end = text.index("endmodule", at)
    masters, streams = [f"m_axi_gmem{port}" for port in range(config.ports)], ["s_axis", "m_axis"] if config.streams else []
    buses = ":".join(["s_axi_control", *masters, *streams])
    single = {
        "aclk": ("signal:clock:1.0 aclk CLK", f"ASSOCIATED_BUSIF {buses}, ASSOCIATED_RESET aresetn"),
        "aclk2x": ("signal:clock:1.0 aclk2x CLK", ""),
        "aresetn": ("signal:reset:1.0 aresetn RST", "POLARITY ACTIVE_LOW"),
        "interrupt": ("signal:interrupt:1.0 interrupt INTERRUPT", "SENSITIVITY LEVEL_HIGH"),
    }

    def attributed(found: re.Match[str]) -> str:
        port = found[3]
        if port in single:
            info, parameters = single[port]
            named = f"XIL_INTERFACENAME {port}, {parameters}".removesuffix(", ")
        else:
            bus, _, signal = port.rpartition("_")
            kind, parameters = _INTERFACES[bus.rstrip("0123456789")]
            info, named = f"interface:{kind}:1.0 {bus} {signal.upper()}", f"XIL_INTERFACENAME {bus}, {parameters}"
            named = named if signal in ("awaddr", "tdata") else ""
        parameter = f', X_INTERFACE_PARAMETER = "{named}"' if named else ""
        return f'  (* X_INTERFACE_INFO = "xilinx.com:{info}"{parameter} *)\n{found[0]}'

    return text[:at] + _PORT.sub(attributed, text[at:end]) + text[end:]
