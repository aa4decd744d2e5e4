"""`check` must be able to fail: it finds and locates a flipped bit, a broken line of RTL, a write too many or too few."""

import re
from dataclasses import replace

import numpy as np
import pytest

from cnna.host.device.accelerator import Accelerator
from cnna.sim import check
from cnna.sim.emulator import engines
from cnna.sim.rtl.build import to_stderr
from cnna.sim.rtl.linked_models import STORED, WRITTEN
from cnna.sim.rtl.sources import generated
from cnna.spec.errors import CheckError
from cnna.spec.files import default_cache
from cnna.spec.program.commands import commands

from ..agreement import CONFIGS, WATCHDOG_CLOCKS, Case

TINY = CONFIGS["tiny"]
NETWORK = Case(TINY, "network", 7)


class Recorded:
    """What a testbench would have logged of a run that equals the emulator's; a test then spoils it."""

    def __init__(self, case):
        log, self.answers = check.emulate(case.piece, case.inputs)
        stored = [w for w in log if w.command.engine == "store"]
        others = [w for w in log if w.command.engine != "store"]
        ci, beat_words = case.config.ci, case.config.beat_words
        flat = np.concatenate([w.addresses.reshape(-1) for w in others])
        self.features = np.zeros(len(flat), STORED)
        self.features["address"] = flat
        self.features["word"][:, :ci] = np.concatenate([w.words.reshape(-1, ci) for w in others])
        flat = np.concatenate([w.addresses.reshape(-1) for w in stored])
        self.ddr = np.zeros(len(flat), WRITTEN)  # each word as a separate beat
        self.ddr["address"] = flat // 16 * 16
        lane = flat % 16 // ci
        words = np.concatenate([w.words.reshape(-1, ci) for w in stored])
        for index in range(beat_words):
            chosen = lane == index
            self.ddr["data"][chosen, index * ci : (index + 1) * ci] = words[chosen]
            self.ddr["strobe"][chosen] = ((1 << ci) - 1) << (index * ci)
        self.bases = {w.command.f.seg: int(w.addresses.flat[0]) - w.command.f.ddr for w in stored}

    def logged(self):
        return self.features, self.ddr

    def start_log(self):
        """Does nothing: these tests read the log once."""

    def read(self, offset):
        from cnna.spec.regmap import BY_OFFSET, SEGMENTS

        _, segment, half = BY_OFFSET[offset].name.split("_")
        base = self.bases.get(SEGMENTS.index(segment.lower()), 0)
        return base >> 32 if half == "HI" else base & 0xFFFFFFFF


def run_check(case, device):
    """The whole check against a recording."""
    return check.compare(case.piece, case.golden, case.inputs, device.answers, device)


def conv_tensors(case):
    """Names of the tensors that conv or vector commands write, in program order."""
    found = [entry["tensor"] for entry in case.piece.manifest["commands"] if entry["engine"] in ("conv", "vector")]
    return list(dict.fromkeys(name for name in found if name))


def test_a_faithful_recording_agrees():
    """Otherwise the tests below would prove nothing. The order of writes to different addresses is free."""
    device = Recorded(NETWORK)
    order = np.random.default_rng(0).permutation(len(device.ddr))
    device.ddr = device.ddr[order]
    found = run_check(NETWORK, device)
    assert found.executions == ("RTL", "emulator", "reference")
    assert found.tensors == len(conv_tensors(NETWORK))
    assert found.elements == sum(NETWORK.golden[name].size for name in conv_tensors(NETWORK))
    assert str(found) == f"RTL == emulator == reference: {found.tensors} tensors, {found.elements} elements"


def test_the_first_differing_element_is_named():
    """Of two wrong words, that of the earlier command must be reported, with layer, element and both values."""
    device = Recorded(NETWORK)
    log, _ = check.emulate(NETWORK.piece, NETWORK.inputs)
    written = next(w for w in log if w.command.engine == "conv")
    entry = NETWORK.piece.manifest["commands"][written.command.number]
    position = sum(w.addresses.size for w in log[: log.index(written)] if w.command.engine != "store")
    device.features["word"][position, 1] ^= 0x40
    device.features["word"][-1, 0] ^= 1
    n, block, y, x = entry["origin"]
    layer = NETWORK.piece.manifest["layers"][entry["layer"]]["name"]
    right = int(written.words.reshape(-1, TINY.ci).view(np.int8)[0, 1])
    wrong = int(np.int8(np.uint8(right & 0xFF) ^ np.uint8(0x40)))
    element = re.escape(f"[{n}, {block * TINY.ci + 1}, {y}, {x}]")
    message = rf"^RTL != emulator: layer {layer}, tensor {entry['tensor']}, element {element}: RTL {wrong}, emulator {right}$"
    with pytest.raises(CheckError, match=message):
        run_check(NETWORK, device)


def test_a_word_written_too_often_or_never_is_found():
    """Right values in the end are not enough: a race may write them twice, or not at all."""
    device = Recorded(NETWORK)
    device.features = np.concatenate([device.features, device.features[-1:]])
    with pytest.raises(CheckError, match=r"the RTL writes its word \(address 0x[0-9a-f]+\) \d+ times, not \d+"):
        run_check(NETWORK, device)
    device = Recorded(NETWORK)
    device.ddr = device.ddr[:-1]
    with pytest.raises(CheckError, match=r"layer .* store command .* 0 times, not 1"):
        run_check(NETWORK, device)


def test_a_partly_strobed_word_is_found():
    """A store that writes half a word would leave stale bytes, which the next run reads."""
    device = Recorded(NETWORK)
    device.ddr["strobe"][0] = 0b111
    with pytest.raises(CheckError, match="writes a part of a word"):
        run_check(NETWORK, device)


def test_a_wrong_tensor_of_the_program_is_found():
    """A fault of the compiler shows as emulator against reference; the earliest tensor must come first."""
    name = conv_tensors(NETWORK)[1]
    golden = {key: value.copy() for key, value in NETWORK.golden.items()}
    golden[name][0, 0, -1, -1] ^= 2
    log, _ = check.emulate(NETWORK.piece, NETWORK.inputs)
    _, _, height, width = golden[name].shape
    with pytest.raises(CheckError, match=rf"tensor {name}, element \[0, 0, {height - 1}, {width - 1}\]: emulator -?\d+, reference"):
        check.compare_tensors(NETWORK.piece, log, golden)


def test_an_output_that_is_read_back_wrong_is_found():
    """Every write may be right although the host unpacks them wrongly."""
    case = Case(CONFIGS["tiny"], "network", 7)
    _, answers = check.emulate(case.piece, case.inputs)
    name = next(iter(answers))
    bad = answers[name].copy()
    bad.reshape(-1)[-1] ^= 1
    with pytest.raises(CheckError, match=rf"emulator != reference: output {name}, element \["):
        check.compare(case.piece, case.golden, case.inputs, {**answers, name: bad}, None)


def test_an_element_that_no_command_writes_is_found():
    """A tile that is left out would pass because nothing of it was compared."""
    log, _ = check.emulate(NETWORK.piece, NETWORK.inputs)
    last = max(i for i, w in enumerate(log) if w.command.engine == "conv")
    short = replace(log[last], **{part: getattr(log[last], part)[:-1] for part in ("addresses", "words", "pixels")})
    with pytest.raises(CheckError, match="no command writes it"):
        check.compare_tensors(NETWORK.piece, [*log[:last], short, *log[last + 1 :]], NETWORK.golden)


FLIP = 0x40


def weight_bytes(case):
    """(byte in the constant segment, layer name) of a weight of each stream whose flipped bit changes what is written."""
    manifest, constants = case.piece.manifest, case.piece.constants
    clean, _ = check.emulate(case.piece, case.inputs)
    for command in commands(case.piece.program):
        if command.engine == "weight" and not command.f.ring:
            start = command.f.ddr + case.config.param_words * case.config.stripe_bytes
            stream = np.frombuffer(constants, np.int8)[start : command.f.ddr + command.f.beats * 16]
            for byte in (start + np.flatnonzero(stream)[::7]).tolist():
                flipped = constants[:byte] + bytes([constants[byte] ^ FLIP]) + constants[byte + 1 :]
                log, _ = check.emulate(replace(case.piece, constants=flipped), case.inputs)
                if any((a.words != b.words).any() for a, b in zip(clean, log, strict=True)):
                    yield byte, manifest["layers"][manifest["commands"][command.number]["layer"]]["name"]
                    break


@pytest.mark.cosim
def test_a_flipped_weight_bit_in_ddr_is_located(rtl):
    """If one bit of one weight flips, only in the RTL's memory, the check must name its layer, whichever it is."""
    device, located = rtl(TINY), 0
    for byte, layer in weight_bytes(NETWORK):
        device.release_all()
        accelerator = Accelerator(device, NETWORK.piece, WATCHDOG_CLOCKS)
        device.start_log()
        address = accelerator.address("constant") + byte
        device.store(address, bytes([device.load(address, 1)[0] ^ FLIP]))
        answers = accelerator.run(NETWORK.inputs)
        with pytest.raises(
            CheckError, match=rf"RTL != emulator: layer {layer}, tensor \w+, element \[\d+, \d+, \d+, \d+\]: RTL -?\d+"
        ):
            check.compare(NETWORK.piece, NETWORK.golden, NETWORK.inputs, answers, device)
        located += 1
    assert located >= 2


@pytest.mark.cosim
@pytest.mark.usefixtures("quick_build")
def test_a_broken_line_of_rtl_is_located(rtl):
    """If an adder of the array subtracts, the check must name the program's first convolution."""
    verilog = generated(TINY, default_cache(), to_stderr)
    start = verilog.index("\nmodule cnna_array_tile(")
    end = verilog.index("endmodule", start)
    broken, count = re.subn(r"(assign \S+ +=) (.+) \+ (.+;)", r"\1 \2 - \3", verilog[start:end], count=1)
    assert count == 1
    device = rtl(TINY, verilog=verilog[:start] + broken + verilog[end:])
    accelerator = Accelerator(device, NETWORK.piece, WATCHDOG_CLOCKS)
    device.start_log()
    answers = accelerator.run(NETWORK.inputs)
    entry = next(entry for entry in NETWORK.piece.manifest["commands"] if entry["engine"] == "conv")
    layer = NETWORK.piece.manifest["layers"][entry["layer"]]["name"]
    with pytest.raises(CheckError, match=rf"RTL != emulator: layer {layer}, tensor \w+, element"):
        check.compare(NETWORK.piece, NETWORK.golden, NETWORK.inputs, answers, device)


def test_an_element_late_in_a_large_command_is_located(monkeypatch):
    """The emulator takes a large command in portions: each must be compared at its own place."""
    monkeypatch.setattr(engines, "RESULTS", 1)
    monkeypatch.setattr(engines, "FEWEST_PIXELS", 8)
    log, _ = check.emulate(NETWORK.piece, NETWORK.inputs)
    assert any(written.pixels is not None and written.pixels[0] for written in log)
    check.compare_tensors(NETWORK.piece, log, NETWORK.golden)
    name = conv_tensors(NETWORK)[0]
    golden = {key: value.copy() for key, value in NETWORK.golden.items()}
    golden[name][-1, 0, -1, -1] ^= 1
    place = [len(golden[name]) - 1, 0, *(size - 1 for size in golden[name].shape[2:])]
    with pytest.raises(CheckError, match=re.escape(f"tensor {name}, element {place}")):
        check.compare_tensors(NETWORK.piece, log, golden)
