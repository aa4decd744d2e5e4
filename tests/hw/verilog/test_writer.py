"""The generated Verilog: what every user of it relies on; its lint and size, and the zcu102's budget."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

import cnna.hw
from cnna.hw.axi.buses import Axi4, Axi4Lite, AxiStream
from cnna.hw.verilog import writer
from cnna.hw.verilog.instances import count_instances
from cnna.sim.rtl.build import to_stderr
from cnna.sim.rtl.sources import generated
from cnna.spec.config import ConfigError, preset
from cnna.spec.files import default_cache

from ...rigs.lint import lint
from ..attributed import check_attributes

TINY, ZCU102 = preset("tiny"), preset("zcu102")
DSP48E2_LIMIT, MEMORY_LIMIT_KIB = 2520, 4 << 20
MOST_MODULES, MOST_BYTES = 280, 4 << 20  # of `zcu102`
SOURCE = Path(cnna.hw.__file__).resolve().parent.parent
WRITE = (
    "import sys; from cnna.spec.config import preset; from cnna.hw.verilog.writer import generate_module;"
    "sys.stdout.write(generate_module(preset('tiny'), sys.argv[1]))"
)


@pytest.fixture(scope="module")
def tiny() -> str:
    """The whole `tiny` accelerator, as some process has written it for a simulator."""
    return generated(TINY, default_cache(), to_stderr)


@pytest.mark.parametrize("name", ["dma", "regfile", "weights"])
def test_equal_bytes_in_every_process(name):
    """Text that depends on the order of hashes, on a path or on the time would differ between clones."""
    texts = [
        subprocess.run(
            [sys.executable, "-c", WRITE, name], capture_output=True, text=True, check=True, env={**os.environ, **extra}
        ).stdout
        for extra in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo"})
    ]
    assert texts[0] == texts[1]
    assert str(SOURCE) not in texts[0]
    for file in re.findall(r"\S+\.py\b", texts[0]):
        assert (SOURCE / file).is_file(), "a comment names no file of the project"


@pytest.mark.parametrize("name", writer.modules())
def test_every_block_can_be_made_alone(name):
    """A block that elaborates only inside the accelerator could not be proven or synthesised by itself."""
    text = writer.generate_module(TINY, name)
    assert re.search(rf"^module cnna_{name}\(", text, re.M)
    assert text.startswith(f"// cnna_{name} of cnna ")


def test_an_unknown_block_is_refused():
    """The user would get a traceback instead of the list of blocks."""
    with pytest.raises(ConfigError, match=r"module foo: no such module; there are array, .*, writes$"):
        writer.generate_module(TINY, "foo")


def test_ports_have_the_names_that_others_rely_on(tiny):
    """Vivado would find no interface, or a testbench no port."""
    head = tiny[tiny.index("module cnna(") : tiny.index("endmodule")]
    found = {name: bits for bits, name in re.findall(r"^  (?:input|output) (?:\[(\d+):0\] )?(\w+);$", head, re.M)}
    expected = {"aclk", "aclk2x", "aresetn", "interrupt"}
    expected |= {f"s_axi_control_{name}" for name in Axi4Lite().members} | {f"m_axi_gmem0_{name}" for name in Axi4().members}
    assert set(found) == expected
    assert (found["m_axi_gmem0_rdata"], found["m_axi_gmem0_araddr"], found["s_axi_control_wdata"]) == ("127", "39", "31")
    assert head.count("X_INTERFACE_INFO") == len(expected)
    clocks = ("signal:clock:1.0 aclk CLK", "signal:clock:1.0 aclk2x CLK")
    for interface in ("aximm:1.0 s_axi_control AWADDR", "aximm:1.0 m_axi_gmem0 RDATA", *clocks):
        assert interface in head
    assert "ASSOCIATED_BUSIF s_axi_control:m_axi_gmem0," in head


@pytest.mark.cosim
def test_streams_have_their_ports_and_are_lint_clean(tiny):
    """Vivado would find no AXI4-Stream interface, or one without a clock; or there would be stream ports without streams."""
    assert "axis" not in tiny
    text = generated(replace(TINY, streams=True), default_cache(), to_stderr)
    head = text[text.index("module cnna(") : text.index("endmodule")]
    for name, drives in (("s_axis", "output"), ("m_axis", "input")):
        for member in AxiStream().members:
            way = drives if member == "tready" else {"output": "input", "input": "output"}[drives]
            assert re.search(rf"axis:1.0 {name} {member.upper()}\".*\n  {way} (\[\d+:0\] )?{name}_{member};", head), (name, member)
    assert "ASSOCIATED_BUSIF s_axi_control:m_axi_gmem0:s_axis:m_axis," in head
    assert lint(text) == ""


@pytest.mark.cosim
def test_a_decoder_of_weights_is_there_where_asked_and_lint_clean(tiny):
    """Other accelerators would change with it, or it would bring what a linter finds."""
    assert "decoder" not in tiny
    text = generated(replace(TINY, codebook=True), default_cache(), to_stderr)
    assert "codebook = 1" in text.splitlines()[1]
    assert len(re.findall(r"^  \S+ +decoder \($", text, re.M)) == 1
    assert lint(text) == ""


def test_a_testbench_finds_what_it_looks_into(tiny):
    """A testbench would not find names below the top that `sim/rtl/testbench_top.py` reads."""
    top = tiny[tiny.index("module cnna(") : tiny.index("endmodule")]
    names = "featmem conv vector load store weights ring vector_ring sequencer regfile control faults counters counts read0 write0"
    for name in names.split():
        assert re.search(rf"^  \S+ +{name} \($", top, re.M), name
    for name in ("probe_write", "probe_row", "probe_word", "started", "number"):
        assert re.search(rf"\b{name}\b", tiny), name


def test_every_module_says_what_it_is_and_none_is_there_twice(tiny):
    """A reader would find `\\port$12$0`, modules without a source, and forty texts that differ in names alone."""
    assert "\\" not in tiny
    parts = re.findall(r"^// (\S+)[^\n]*\n(?:\(\*[^\n]*\n)?module (\w+)(.*?)^endmodule$", tiny, re.M | re.S)
    assert len(parts) == tiny.count("\nendmodule")
    assert len({body for _, _, body in parts}) == len(parts)
    for file, name, body in parts:
        assert name.startswith("cnna_ram_") or (SOURCE / file.rstrip(",")).is_file(), name
        assert "$" not in body.partition(");")[0], name


@pytest.mark.cosim
def test_tiny_is_the_same_twice_and_lint_clean(tiny, tmp_path, monkeypatch):
    """There would be a warning of -Wall without a waiver, or text that another run changes, or a second one in one process.

    A notebook that imported the hardware before it was edited would store the old text under the new one's name.
    """
    assert writer.generate_module(TINY, "dma") == writer.generate_module(TINY, "dma")
    monkeypatch.setattr(writer, "generate", lambda config: "imported long ago")
    monkeypatch.setattr("cnna.sim.rtl.sources.STAGE_SECONDS", 0)
    monkeypatch.setattr("cnna.sim.rtl.generate.TICK_SECONDS", 0.1)
    said = []
    assert generated(TINY, tmp_path, said.append) == tiny
    assert said[0] == "generating the Verilog of tiny"
    left = [int(re.fullmatch(rf"{said[0]}, about (\d+) s left", line)[1]) for line in said[1:]]
    assert left[0] >= left[-1], "the user would not know how long to wait"
    assert lint(tiny) == ""


@pytest.mark.cosim
def test_lint_finds_what_is_never_waived(tiny):
    """The waivers would hide a signal that nothing drives."""
    broken = tiny.replace("    .interrupt(interrupt),\n", "", 1)
    assert broken != tiny
    assert "%Warning-UNDRIVEN" in lint(broken)


def test_a_waiver_names_what_it_lets_pass():
    """A rule that is waived for everything would find nothing any more; a waiver without a reason looks like an oversight."""
    reasons = 0
    for line in (files("cnna.sim.rtl") / "lint.vlt").read_text().splitlines()[1:]:
        reasons = reasons + 1 if line.startswith("//") else reasons if line else 0
        if line and not line.startswith("//"):
            found = re.fullmatch(r'lint_off -rule (\w+) -file "\*" -match "[^"*]*\'([^\']*)\'\*?"', line) or re.fullmatch(
                r'lint_off -rule (DECLFILENAME) -file "\*" -match "Filename \* does not match MODULE name: \'(cnna\*)\'"', line
            )
            assert found, line
            assert found[1] not in ("UNDRIVEN", "MULTIDRIVEN", "LATCH", "COMBDLY", "UNOPTFLAT"), line
            assert re.search(r"\w", found[2]), line
            assert reasons, line


def test_every_copy_has_its_attributes(tiny: str) -> None:
    """Vivado would merge the copies, and their nets would have thousands of loads at 300 MHz."""
    check_attributes(tiny, TINY)


@pytest.mark.parametrize(
    "line", ['  (* dont_touch = "true" *)\n', '  (* keep = "true" *)\n  always', '(* keep_hierarchy = "yes" *)\n']
)
def test_a_lost_attribute_is_noticed(tiny: str, line: str) -> None:
    """Otherwise the test above could not fail."""
    with pytest.raises(AssertionError):
        check_attributes(tiny.replace(line, "  always" if "always" in line else ""), TINY)


@pytest.mark.cosim
def test_four_ports_and_blocks_of_sixteen_are_lint_clean():
    """What `zcu102` has and `tiny` has not would have faults: it is this accelerator with four times the pixels."""
    config = replace(ZCU102, name="narrow", pix=ZCU102.pix // 4)
    text = generated(config, default_cache(), to_stderr)
    assert lint(text) == ""
    check_attributes(text, config)


@pytest.mark.slow  # two minutes of a processor; `make baseline` runs it, and so does .ci/run
@pytest.mark.cosim
def test_zcu102_fits_and_is_lint_clean():
    """The product would need more DSPs than the chip has, or have faults that smaller accelerators are too small for."""
    text = generated(ZCU102, default_cache(), to_stderr)
    count = count_instances(text, writer.TOP, "DSP48E2")
    assert ZCU102.macs // 2 < count <= DSP48E2_LIMIT
    assert text.count("\nendmodule") <= MOST_MODULES
    assert len(text) <= MOST_BYTES
    assert lint(text) == ""
    check_attributes(text, ZCU102)


@pytest.mark.slow
def test_zcu102_is_written_within_a_laptops_memory(tmp_path):
    """`cnna rtl --config zcu102` would be stopped for want of memory."""
    command = "from cnna.spec.config import preset; from cnna.hw.verilog.writer import write; import sys, pathlib;"
    command += "write(preset('zcu102'), pathlib.Path(sys.argv[1]));"
    command += "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", command, str(tmp_path)], check=True, capture_output=True, text=True)
    assert int(done.stdout.splitlines()[-1]) < MEMORY_LIMIT_KIB


def test_feature_memory_in_uram_has_no_initial_value() -> None:
    """Vivado would build block RAM, which a chip with UltraRAM has too little of: UltraRAM takes no initial value."""
    text = writer.generate_module(replace(TINY, name="ultra", uram=True), "featmem")
    bank = text[text.index("module cnna_ram_32x1024_ultra(") :]
    bank = bank[: bank.index("endmodule")]
    assert '(* ram_style = "ultra" *) reg [31:0] mem [0:1023];' in bank
    assert "initial" not in bank
    assert "else b_data <= mem[b_addr];" in bank, "an UltraRAM's port keeps its word while it writes"
    assert "cnna_ram_32x1024_dual" not in text
    assert "uram = 1" in text.splitlines()[1]
    assert "ultra" not in writer.generate_module(TINY, "featmem")
