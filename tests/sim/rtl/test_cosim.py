"""The simulated RTL as a device: buses under stress, faults and recovery, single writes, waveforms, processes, cache."""

import re
from dataclasses import replace

import numpy as np
import pytest

from cnna.host.device.accelerator import Accelerator
from cnna.sim.rtl.linked_models import SETTINGS
from cnna.spec.codebook import BOOKS
from cnna.spec.config import as_dict
from cnna.spec.errors import RunError
from cnna.spec.identity import read_config
from cnna.spec.program.commands import commands
from cnna.spec.regmap import REGISTERS, offset

from ...agreement import CONFIGS, WATCHDOG_CLOCKS, Case, agree, case_of
from ...configurations import CODED

TINY = CONFIGS["tiny"]
# Networks whose stores use all ports.
NETWORK = {config.name: Case(config, "network", number) for config, number in ((TINY, 7), (CODED, 12))}
BOTH = pytest.mark.parametrize("config", [TINY, CODED], ids=lambda config: config.name)


@pytest.fixture
def device(config, rtl):
    """The simulated RTL with an undemanding memory, before and after each test."""
    opened = rtl(config)
    opened.release_all()
    yield opened
    opened.clear_faults()
    opened.set_ddr(**{name: default for name, (default, _) in SETTINGS.items()})
    agree(NETWORK[config.name], opened)  # whatever a test did, the accelerator must compute correctly afterwards


@pytest.mark.cosim
@BOTH
def test_capability_registers_say_what_it_is(config, device):
    """A driver decides by these whether a program fits."""
    found = as_dict(read_config(device.read))
    assert {**found, "name": config.name} == as_dict(config)


@pytest.mark.cosim
@BOTH
def test_one_write_at_a_time_is_the_same(config, device):
    """The register map is the instruction set: the sequencer is only a quicker host."""
    agree(NETWORK[config.name], device, by_register=True)


@pytest.mark.cosim
@BOTH
@pytest.mark.parametrize("latency", [1, 17, 120, 500])
@pytest.mark.parametrize("stall", [0, 90, 200])
def test_any_pace_of_the_buses_is_the_same(config, device, latency, stall):
    """Random back-pressure on every channel, and any latency, may cost clocks but never a byte."""
    device.set_ddr(latency=latency, write_latency=latency, stall=stall, seed=latency + stall)
    for seed in range(8):
        agree(case_of(config, "layer", 100 * stall + seed), device)
    agree(NETWORK[config.name], device)


@pytest.mark.cosim
@BOTH
def test_less_bandwidth_takes_longer(config, device):
    """The counters must show the limit of bytes a clock."""
    cycles = []
    for bytes_per_clock in (48, 16, 4):
        device.set_ddr(bytes_per_clock=bytes_per_clock)
        cycles.append(run(device, NETWORK[config.name]).counters["cycles"])
    assert cycles[0] <= cycles[1] < cycles[2]


def run(device, case):
    """The accelerator after a good run."""
    device.release_all()
    accelerator = Accelerator(device, case.piece, WATCHDOG_CLOCKS)
    accelerator.run(case.inputs)
    return accelerator


def beats(device, case):
    """{"read": beats by port, "write": ...} of a good run."""
    found = run(device, case).counters
    return {kind: [found[f"{kind}_beats{port}"] for port in range(case.config.ports)] for kind in ("read", "write")}


@pytest.mark.cosim
@BOTH
@pytest.mark.parametrize("response", [2, 3], ids=["SLVERR", "DECERR"])
@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_bad_response_in_the_middle_stops_and_names_its_port(config, device, kind, response):
    """On every port: cause, port, program write and layer; then a soft reset, and the next run is right (see `device`)."""
    case = NETWORK[config.name]
    counts = beats(device, case)[kind]
    assert all(counts), "a port without a beat cannot answer wrongly: take another network"
    for port in range(config.ports):
        device.fault(write=kind == "write", response=response, port=port, skip=counts[port] // 2)
        name = {2: "SLVERR", 3: "DECERR"}[response]
        message = rf"{kind}_response {name} on port {port} at program write \d+ of {len(case.piece.program) // 8}, layer "
        device.release_all()
        with pytest.raises(RunError, match=message):
            Accelerator(device, case.piece, WATCHDOG_CLOCKS).run(case.inputs)
        agree(case, device)


@pytest.mark.cosim
@BOTH
@pytest.mark.parametrize("part", [0.0, 0.3, 0.7, 0.95])
def test_a_memory_that_hangs_is_caught_by_the_watchdog(config, device, part):
    """It must stop and say where, and compute again after the memory answers and a soft reset."""
    case = NETWORK[config.name]
    total = sum(sum(counts) for counts in beats(device, case).values())
    device.release_all()
    accelerator = Accelerator(device, case.piece, WATCHDOG_CLOCKS)
    device.set_ddr(hang_after=int(total * part))
    with pytest.raises(RunError, match=rf"watchdog \(no progress for {WATCHDOG_CLOCKS} clocks\) at program write \d+") as stopped:
        accelerator.run(case.inputs)
    waiting = re.findall(r"port \d: (\d+) reads, (\d+) writes outstanding", str(stopped.value))
    assert len(waiting) == config.ports
    assert part == 0.0 or any(int(count) for counts in waiting for count in counts), "it waits for nothing, it says"


@pytest.mark.cosim
@BOTH
@pytest.mark.parametrize("by_register", [False, True])
def test_an_accelerator_that_was_stopped_runs_again(config, device, by_register):
    """The error of one run would be taken for the next one's while the reset between them waits for a slow bus."""
    case = NETWORK[config.name]
    accelerator = Accelerator(device, case.piece, WATCHDOG_CLOCKS)
    again = accelerator.run_by_register if by_register else accelerator.run
    device.fault(write=False, response=2)
    with pytest.raises(RunError, match="read_response SLVERR"):
        accelerator.run(case.inputs)
    device.set_ddr(latency=2_000)
    answers = again(case.inputs)
    assert all(np.array_equal(answers[name], case.golden[name]) for name in case.graph.outputs)


@pytest.mark.cosim
@BOTH
def test_a_soft_reset_in_the_middle_leaves_nothing_behind(config, device):
    """Bursts in progress must end, and no half-done command may go on."""
    case = NETWORK[config.name]
    for clocks in (50, 333, 1000):
        device.release_all()
        accelerator = Accelerator(device, case.piece, WATCHDOG_CLOCKS)
        accelerator.store_inputs(case.inputs)
        device.write(offset("CTRL"), REGISTERS["CTRL"].pack(start=1))
        device.run_clocks(clocks)
        agree(case, device)  # `agree` begins with a soft reset


def with_write(case, name, value, to=None):
    """The case's artifact with the first write of a register changed, and the number of that write."""
    writes = np.frombuffer(case.piece.program, "<u4").reshape(-1, 2).copy()
    index = int(np.flatnonzero(writes[:, 0] == offset(name))[0])
    writes[index] = offset(to or name), value
    return replace(case.piece, program=writes.tobytes()), index


@pytest.mark.cosim
@BOTH
@pytest.mark.parametrize(
    ("name", "value", "to", "cause"),
    [
        ("CONV_CHUNKS", 0, None, "illegal_value"),
        ("CONV_ADD_SHIFT", 60, None, "illegal_value"),
        ("LOAD_RUN", 0, None, "illegal_value"),
        ("CONV_CHUNKS", 1, "PROG_COUNT", "illegal_register"),
        ("CONV_CHUNKS", 1, "ID", "illegal_register"),
    ],
)
def test_an_illegal_write_of_a_program_is_refused(config, device, name, value, to, cause):
    """There must be cause, register and number of the write, and nothing of the command may be carried out."""
    case = NETWORK[config.name]
    artifact, index = with_write(case, name, value, to)
    device.release_all()
    message = rf"{cause} at offset {offset(to or name):#x} \({to or name}\) at program write {index} of"
    with pytest.raises(RunError, match=message):
        Accelerator(device, artifact, WATCHDOG_CLOCKS).run(case.inputs)


@pytest.mark.cosim
@BOTH
def test_layers_sum_to_the_counters(config, device):
    """What a report says of layers must sum to what was measured: clocks, stalls by cause, bytes."""
    case = NETWORK[config.name]
    counters = run(device, case).counters
    layers = device.profile(case.piece)
    assert sum(layer["cycles"] for layer in layers) == counters["cycles"]
    for cause in layers[0]["stalls"]:
        assert sum(layer["stalls"][cause] for layer in layers) == counters[f"stall_{cause}"]
    for kind in ("read", "write"):
        beats_seen = sum(counters[f"{kind}_beats{port}"] for port in range(config.ports))
        assert sum(layer[f"ddr_{kind}_bytes"] for layer in layers) == 16 * beats_seen


@pytest.mark.cosim
@BOTH
def test_a_second_run_leaves_what_the_first_left(config, device):
    """The figures would include the run before, or turns and queues would start differently; clocks must be equal."""
    case = NETWORK[config.name]
    device.release_all()
    accelerator = Accelerator(device, case.piece, WATCHDOG_CLOCKS)
    found = []
    for _ in range(3):
        accelerator.run(case.inputs)
        found.append((accelerator.counters, device.profile(case.piece), device.timeline(), device.weights(case.piece)))
        assert found[-1][2][0][0] > 1, "a unit was done in the program's first clock"
    assert found[0] == found[1] == found[2]


@pytest.mark.cosim
@BOTH
def test_the_timeline_ends_with_every_unit_done(config, device):
    """A picture of who worked when would lack an engine's units."""
    counters = run(device, NETWORK[config.name]).counters
    events = device.timeline()
    last = {engine: units for _, engine, units in events}
    assert all(device.read(offset(f"DONE_{engine.upper()}")) == units for engine, units in last.items())
    assert {"load", "conv", "store"} <= last.keys()
    assert [clock for clock, _, _ in events] == sorted(clock for clock, _, _ in events)
    assert events[-1][0] <= counters["cycles"]


@pytest.mark.cosim
@BOTH
def test_weights_are_seen_to_come_before_their_use(config, device):
    """The lane of weights would show another command's beats, or those of the run before."""
    case = NETWORK[config.name]
    cycles = run(device, case).counters["cycles"]
    spans = device.weights(case.piece)
    played = list(commands(case.piece.program))
    weights = [command.f for command in played if command.engine == "weight"]
    assert len(spans) == len(weights) > 1
    for (first, last), f in zip(spans, weights, strict=True):
        beats = 1 if f.code == BOOKS else f.beats * f.repeat  # the ring takes no book; the clock is that of the codes behind it
        assert last - first + 1 >= beats, "a column takes a beat a clock at most"
        assert 0 < first <= last < cycles
    for column in (0, 1):
        lasts = [last for (_, last), f in zip(spans, weights, strict=True) if f.ring == column]
        assert lasts == sorted(lasts)
    ends = {engine: [clock for clock, name, _ in device.timeline() if name == engine][-1] for engine in ("conv", "vector")}
    for ring, engine in enumerate(ends):
        taken = [last for (_, last), f in zip(spans, weights, strict=True) if f.ring == ring]
        assert max(taken, default=0) < ends[engine]
