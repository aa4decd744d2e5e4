"""The DDR model on its plain road: latency, bandwidth, order, errors, protocol checks."""

import numpy as np
import pytest

from cnna.sim.rtl.testbench_top import PORTS

from ...rigs.ddr_bus import BASE, SIZE, Bus, Reader, Writer, compiled, run

DECERR, SLVERR = 3, 2


@pytest.fixture(scope="module")
def library(tmp_path_factory, root):
    """The model as a shared library."""
    return compiled(root, tmp_path_factory.mktemp("ddr"))


@pytest.fixture
def bus(library, tmp_path):
    """Makes a bus with settings."""
    return lambda **settings: Bus(library, tmp_path / "memory", **settings)


@pytest.mark.parametrize("latency", [1, 120, 500])
def test_a_read_takes_its_latency(bus, latency):
    """Cycle counts of the simulated accelerator depend on this number."""
    b = bus(latency=latency)
    reader = Reader(b, 2, [(BASE, 1)])
    run(b, [reader], lambda: not reader.bursts)
    assert run(b, [reader], lambda: b.see["rvalid"][2]) == latency - 1


@pytest.mark.parametrize(("road", "rest"), [(0, 20), (1, 90)])
def test_bursts_take_the_same_clocks_whenever_they_start(bus, road, rest):
    """A program's clocks would depend on how many registers the host accessed before the start."""
    b, found = bus(latency=9, road=road), set()
    for pause in range(rest, rest + 2 * PORTS):
        run(b, [], iter([False] * pause + [True]).__next__)
        readers = [Reader(b, p, [(BASE + p * 65536 + 256 * i, 16) for i in range(3)]) for p in range(PORTS)]
        progress = []
        while not progress or min(progress[-1]) < 48:
            run(b, readers, iter((False, True)).__next__)  # one clock
            progress.append(tuple(len(reader.got) for reader in readers))
        found.add(tuple(progress))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("ports", "bytes_per_clock"), [(4, 48), (4, 32), (4, 12), (4, 8), (4, 4), (3, 32), (3, 12), (2, 16), (2, 12)]
)
def test_all_ports_share_the_bandwidth_fairly(bus, ports, bytes_per_clock):
    """48 bytes a clock: four reading ports together must get three beats a clock, and none less than its share.

    With less than a beat a clock, the clocks without one must not always fall on the turn of the same ports. The turns of ports
    that the accelerator lacks must not all fall to port 0: of two ports it had three beats in four.
    """
    b = bus(latency=4, bytes_per_clock=bytes_per_clock, ports=ports)
    readers = [Reader(b, p, [(BASE + p * 65536 + 256 * i, 16) for i in range(40)]) for p in range(ports)]
    clocks = run(b, readers, lambda: min(len(r.got) for r in readers) >= 500)
    total = sum(len(r.got) for r in readers)
    assert abs(total - bytes_per_clock / 16 * clocks) < 100
    assert max(len(r.got) for r in readers) < 510


@pytest.mark.parametrize(("stall", "road"), [(0, 0), (100, 0), (220, 0), (100, 1), (100, 2)])
def test_what_is_written_is_read_whatever_the_pace(bus, stall, road):
    """Beats lost, doubled or reordered under back-pressure, or strobes ignored, would show here."""
    rng = np.random.default_rng(stall)
    b = bus(stall=stall, seed=stall, latency=7, write_latency=3, road=road)
    golden = np.zeros(SIZE, np.uint8)
    writers = []
    for p in range(PORTS):
        bursts = []
        for i in range(12):
            address, count = p * 8192 + i * 256, int(rng.integers(1, 17))
            beats = [(int.from_bytes(rng.bytes(16), "little"), int(rng.integers(0, 1 << 16))) for _ in range(count)]
            for k, (data, strobe) in enumerate(beats):
                for byte in range(16):
                    if strobe >> byte & 1:
                        golden[address + 16 * k + byte] = data >> (8 * byte) & 255
            bursts.append((BASE + address, beats))
        writers.append(Writer(b, p, bursts, rng))
    run(b, writers, lambda: all(len(w.responses) == 12 for w in writers))
    assert np.array_equal(b.memory, golden)
    readers = [Reader(b, p, [(BASE + p * 8192 + i * 256, 16) for i in range(12)], rng) for p in range(PORTS)]
    run(b, readers, lambda: all(len(r.got) == 192 for r in readers))
    for p, reader in enumerate(readers):
        assert b"".join(data.to_bytes(16, "little") for data, _, _ in reader.got) == golden[p * 8192 : p * 8192 + 3072].tobytes()
        assert [last for _, _, last in reader.got] == ([0] * 15 + [1]) * 12
    assert b.violation == ""


def test_outside_the_memory_is_a_decode_error(bus):
    """A lost address bit must not read or write somewhere else."""
    b = bus(latency=2, write_latency=2)
    reader, writer = Reader(b, 0, [(BASE - 16, 1), (BASE + SIZE, 1), (BASE, 1)]), Writer(b, 1, [(BASE + SIZE, [(1, 0xFFFF)] * 2)])
    run(b, [reader, writer], lambda: len(reader.got) == 3 and writer.responses)
    assert [response for _, response, _ in reader.got] == [DECERR, DECERR, 0]
    assert writer.responses == [DECERR]


def test_faults_strike_where_and_as_often_as_told(bus):
    """Tests of the accelerator's error handling depend on this."""
    b = bus(latency=2, write_latency=2)
    b.c.ddr_fault(0, 0, BASE, BASE + 4096, SLVERR, 2, 1)
    b.c.ddr_fault(-1, 1, BASE + 4096, BASE + 8192, DECERR, 0, -1)
    reader = Reader(b, 0, [(BASE, 4), (BASE, 4)])
    writer = Writer(b, 3, [(BASE, [(1, 0xFFFF)]), (BASE + 4096, [(1, 0xFFFF)]), (BASE + 4112, [(1, 0xFFFF)])])
    run(b, [reader, writer], lambda: len(reader.got) == 8 and len(writer.responses) == 3)
    assert [response for _, response, _ in reader.got] == [0, 0, SLVERR, 0, 0, 0, 0, 0]
    assert writer.responses == [0, DECERR, DECERR]


def test_a_hang_answers_nothing_until_it_is_lifted(bus):
    """Tests of the accelerator's watchdog depend on this."""
    b = bus(latency=2)
    b.c.ddr_set(b"hang_after", 5)
    reader = Reader(b, 0, [(BASE, 16)])
    with pytest.raises(AssertionError, match="not done"):
        run(b, [reader], lambda: len(reader.got) == 16, limit=300)
    assert len(reader.got) == 5
    b.c.ddr_set(b"hang_after", -1)
    run(b, [reader], lambda: len(reader.got) == 16, limit=50)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda d: d.update(arvalid=[1] * PORTS, araddr=[BASE + 4080] * PORTS, arlen=[1] * PORTS), "4 KiB"),
        (lambda d: d.update(arvalid=[1] * PORTS, araddr=[BASE + 8] * PORTS), "multiple of 16"),
        (lambda d: d.update(awvalid=[1] * PORTS, awaddr=[BASE] * PORTS, awburst=[0] * PORTS), "incrementing"),
    ],
)
def test_a_bad_burst_is_reported(bus, break_it, message):
    """The model would forgive what a real memory controller would not."""
    b = bus()
    b.clock()
    break_it(b.drive)
    b.clock()
    assert message in b.violation


@pytest.mark.parametrize(
    ("signals", "message"),
    [(("arvalid", "araddr"), "AR changed"), (("awvalid", "awaddr"), "AW changed"), (("wvalid", "wdata"), "W changed")],
)
def test_a_payload_that_moves_while_it_waits_is_reported(bus, signals, message):
    """AXI wants valid and payload held until ready."""
    b = bus(stall=255, seed=5)
    valid, payload = signals
    b.drive[valid] = [1, 0, 0, 0]
    for value in (BASE, BASE + 16, BASE + 32, BASE + 48):
        b.drive[payload] = [value, 0, 0, 0]
        b.clock()
    assert message in b.violation


def test_a_misplaced_last_is_reported(bus):
    """WLAST one beat early would hang a real slave."""
    b = bus(write_latency=1)
    writer = Writer(b, 0, [(BASE, [(1, 0xFFFF)] * 3)])
    writer.beats[1], writer.beats[2] = (1, 0xFFFF, True), (1, 0xFFFF, False)
    run(b, [writer], lambda: writer.responses)
    assert "WLAST" in b.violation
