"""Writes the testbench's top module, `tb`, for a configuration: the accelerator, the models at its ports, and probes.

cocotb drives `aclk`, `aresetn` and the AXI4-Lite signals, and reads `interrupt`. Everything else stays inside, so that Verilator
can optimise it; `aclk2x` is made of `aclk` (`doubled`). The probes only read, and the accelerator's Verilog is the one that is
synthesised.
"""

from cnna.spec.config import Config
from cnna.spec.machine import AXI_BITS, AXI_LITE_BITS, STREAM_BITS, signal_bits
from cnna.spec.regmap import COUNT_BITS, COUNTED, DECK_BIT

FEATURES, COUNTERS, ISSUE = "dut.featmem", "dut.counters", "dut.conv.issue"  # instances whose signals the probes read
RING, VECTOR_RING = "dut.ring", "dut.vector_ring"  # instances of `hw.weights.ring`, whose writes the probes read
CONTROL = "dut.control"  # instance whose signals the streams' ends read
PORTS = 4  # ports of the DDR model; those that the accelerator lacks stay idle


def _signals(widths: dict[str, int], *names: str) -> tuple[tuple[str, int], ...]:
    """(signal, bits) of bus signals by their names."""
    return tuple((name, signal_bits(name, widths)) for name in names)


FROM_MASTER = _signals(  # in the order of ddr_clock's arguments
    AXI_BITS,
    *("arvalid", "araddr", "arlen", "arsize", "arburst", "rready", "awvalid", "awaddr", "awlen", "awsize", "awburst"),
    *("wvalid", "wdata", "wstrb", "wlast", "bready"),
)
TO_MASTER = _signals(AXI_BITS, "arready", "rvalid", "rdata", "rresp", "rlast", "awready", "wready", "bvalid", "bresp")
_FROM_STREAMS = _signals(STREAM_BITS, "s_tready", "m_tvalid", "m_tdata", "m_tkeep", "m_tlast")  # as packets_clock's arguments
_TO_STREAMS = _signals(STREAM_BITS, "s_tvalid", "s_tdata", "s_tkeep", "s_tlast", "m_tready")
_CONTROL = _signals(
    AXI_LITE_BITS,
    *("awaddr", "awprot", "awvalid", "awready", "wdata", "wstrb", "wvalid", "wready", "bresp", "bvalid", "bready"),
    *("araddr", "arprot", "arvalid", "arready", "rdata", "rresp", "rvalid", "rready"),
)
_ANSWERS = ("awready", "wready", "bresp", "bvalid", "arready", "rdata", "rresp", "rvalid")  # outputs in _CONTROL

TRACE = (  # writes clocks trace_first..trace_last from the first start to the file of +cnna_trace=FILE; clock n is at time 2 n
    "  reg [31:0] trace_first /* verilator public_flat_rw */ = 0;",
    "  reg [31:0] trace_last /* verilator public_flat_rw */ = 0;",
    "  reg trace_armed /* verilator public_flat_rw */ = 0;",
    '  import "DPI-C" function void trace_open(input string file);',
    '  import "DPI-C" function void trace_dump(input int at);',
    '  import "DPI-C" function void trace_close();',
    "  reg trace_counts = 0, trace_on = 0, trace_edge = 0;",
    "  reg [31:0] trace_clock = 0;",
    "  string trace_file;",
    "  always @(posedge aclk) begin",
    "    trace_edge <= ~trace_edge;",
    f"    if ({COUNTERS}.clear) trace_counts <= 1;",
    "    if (trace_counts) trace_clock <= trace_clock + 1;",
    f"    if (trace_armed && (trace_counts || {COUNTERS}.clear) && trace_clock == trace_first) begin",
    '      if ($value$plusargs("cnna_trace=%s", trace_file) != 0) trace_open(trace_file);',
    "      trace_armed <= 0;",
    "      trace_on <= 1;",
    "    end else if (trace_on && trace_clock > trace_last) begin",
    "      trace_on <= 0;",
    "      trace_close();",
    "    end",
    "  end",
    "  always @(trace_edge) if (trace_on) trace_dump(2 * trace_clock);  // after all that the edge changed",
    "  always @(negedge aclk) if (trace_on) trace_dump(2 * trace_clock + 1);",
    "  final trace_close();",
)


def doubled(clock: str, fast: str) -> list[str]:
    """Lines that drive the wire `fast`, which rises with every edge of `clock`.

    It falls again at the same time, once everything else has acted on the edge: the second clock costs no time step of its own.
    Both clocks rise before any register changes, so no register of one sees what the other's has just become.
    """
    return [f"  reg {fast}_done = 0;", f"  assign {fast} = {clock} ^ {fast}_done;", f"  always @({clock}) {fast}_done <= {clock};"]


def text(config: Config, top: str, probes: bool, trace: bool) -> str:
    """The text of `tb.sv` around the module `top`. probes: with probes into it. trace: able to write a waveform."""
    arguments = [f"input bit [{PORTS * bits - 1}:0] {name}" for name, bits in FROM_MASTER]
    arguments += [f"output bit [{PORTS * bits - 1}:0] n_{name}" for name, bits in TO_MASTER]
    lines = [
        "`timescale 1ns / 1ps",
        "module tb;",
        f'  import "DPI-C" function void ddr_clock(input bit reset_n, {", ".join(arguments)});',
        "  reg aclk /* verilator public_flat_rw */ = 0;",
        "  wire aclk2x;",
        *doubled("aclk", "aclk2x"),
        "  reg aresetn /* verilator public_flat_rw */ = 0;",
        "  wire interrupt /* verilator public_flat_rd */;",
    ]
    for name, bits in _CONTROL:
        kind, access, start = ("wire", "rd", "") if name in _ANSWERS else ("reg", "rw", " = 0")
        lines.append(f"  {kind} [{bits - 1}:0] s_{name} /* verilator public_flat_{access} */{start};")
    lines += [f"  wire [{PORTS * bits - 1}:0] {name};" for name, bits in FROM_MASTER]
    lines += [f"  reg [{PORTS * bits - 1}:0] {name} = 0;" for name, bits in TO_MASTER]
    lines += [f"  bit [{PORTS * bits - 1}:0] n_{name};" for name, bits in TO_MASTER]
    for port in range(config.ports, PORTS):
        lines += [f"  assign {name}[{_slice(port, bits)}] = 0;" for name, bits in FROM_MASTER]
    passed = ["aresetn", *(name for name, _ in FROM_MASTER), *(f"n_{name}" for name, _ in TO_MASTER)]
    lines += ["  always @(posedge aclk) begin", f"    ddr_clock({', '.join(passed)});"]
    lines += [f"    {name} <= n_{name};" for name, _ in TO_MASTER]
    lines += ["  end", f"  {top} dut (", ",\n".join(f"    .{port}({signal})" for port, signal in _connections(config)), "  );"]
    lines += _streams() if config.streams else []
    return "\n".join([*lines, *(_probes(config) if probes else []), *(TRACE if trace else []), "endmodule", ""])


def _streams() -> list[str]:
    """The other ends of the stream ports, in `packets.cpp`."""
    arguments = [f"input bit {_range(bits)}{name}" for name, bits in _FROM_STREAMS]
    arguments += [f"output bit {_range(bits)}n_{name}" for name, bits in _TO_STREAMS]
    passed = ["aresetn", f"{CONTROL}.reset", *(name for name, _ in _FROM_STREAMS), *(f"n_{name}" for name, _ in _TO_STREAMS)]
    return [
        f'  import "DPI-C" function void packets_clock(input bit reset_n, input bit soft_reset, {", ".join(arguments)});',
        *(f"  wire {_range(bits)}{name};" for name, bits in _FROM_STREAMS),
        *(f"  reg {_range(bits)}{name} = 0;" for name, bits in _TO_STREAMS),
        *(f"  bit {_range(bits)}n_{name};" for name, bits in _TO_STREAMS),
        "  always @(posedge aclk) begin",
        f"    packets_clock({', '.join(passed)});",
        *(f"    {name} <= n_{name};" for name, _ in _TO_STREAMS),
        "  end",
    ]


def _range(bits: int) -> str:
    return f"[{bits - 1}:0] " if bits > 1 else ""


def _probes(config: Config) -> list[str]:
    """Passes to `probes.cpp` the state of the engines, each beat that the weight rings take and, while there is a log, every word
    written to feature memory.
    """
    banks, row_bits, word_bits = config.regions * config.banks, (config.bank_words - 1).bit_length(), 8 * config.ci
    row, word = f"{FEATURES}.probe_row[{row_bits} * i +: {row_bits}]", f"{FEATURES}.probe_word[{word_bits} * i +: {word_bits}]"
    rows = config.bank_words // config.depth
    address = f"(i / {config.banks} * {rows} + int'({row}) % {rows}) * {config.banks} + i % {config.banks}"
    if config.depth == 2:
        address += f" + (int'({row}) / {rows} << {DECK_BIT})"
    done = ", ".join(f"{{8'd0, dut.counts.done[{COUNT_BITS} * {index} +: {COUNT_BITS}]}}" for index in range(len(COUNTED)))
    columns = [f"{VECTOR_RING}.write__0__valid", *(f"{RING}.write__{port}__valid" for port in reversed(range(config.ports)))]
    return [
        '  import "DPI-C" function void probe_write(input int address, input bit [127:0] word, input int bytes);',
        '  import "DPI-C" function bit probe_logging();',
        '  import "DPI-C" function void probe_clock(input bit clear, input bit running, input int started, input bit untouched,',
        "    input int state, input int load, input int conv, input int vector, input int store);",
        '  import "DPI-C" function void probe_weights(input int columns);',
        f"  wire [{banks - 1}:0] written = {FEATURES}.probe_write;",
        f"  wire [{config.ports}:0] brought = {{{', '.join(columns)}}};",
        "  always @(posedge aclk) begin",
        f"    probe_clock({COUNTERS}.clear, {COUNTERS}.running, {ISSUE}.started, {ISSUE}.untouched & ~{ISSUE}.command__ready,",
        f"      {COUNTERS}.array_active ? 0 : 1 + {COUNTERS}.stall, {done});",
        f"    if (|brought && {COUNTERS}.running) probe_weights(int'(brought));",
        "    if (|written && probe_logging())",
        f"      for (int i = 0; i < {banks}; ++i)",
        "        if (written[i])",
        f"          probe_write({address}, 128'({word}), {config.ci});",
        "  end",
    ]


def _slice(port: int, bits: int) -> str:
    return f"{(port + 1) * bits - 1}:{port * bits}"


def _connections(config: Config) -> list[tuple[str, str]]:
    """(port of the accelerator, signal of the testbench)."""
    found = [(name, name) for name in ("aclk", "aclk2x", "aresetn", "interrupt")]
    found += [(f"s_axi_control_{name}", f"s_{name}") for name, _ in _CONTROL]
    for port in range(config.ports):
        found += [(f"m_axi_gmem{port}_{name}", f"{name}[{_slice(port, bits)}]") for name, bits in FROM_MASTER + TO_MASTER]
    if config.streams:
        found += [(f"{name[0]}_axis{name[1:]}", name) for name, _ in _FROM_STREAMS + _TO_STREAMS]
    return found
