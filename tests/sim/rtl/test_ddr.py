"""The DDR model `ddr.cpp`, compiled alone and driven signal by signal: latency, bandwidth, order, errors, protocol checks."""

import ctypes
import subprocess

import numpy as np
import pytest

from cnna.sim.rtl.build import verilator_root
from cnna.sim.rtl.testbench_top import FROM_MASTER, PORTS, TO_MASTER

BASE, SIZE = 1 << 34, 1 << 20
DECERR, SLVERR = 3, 2


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, root):
    """The model as a shared library."""
    library = tmp_path_factory.mktemp("ddr") / "ddr.so"
    include = verilator_root() / "include" / "vltstd"
    command = [
        "g++",
        "-O1",
        "-Wall",
        "-Werror",
        "-shared",
        "-fPIC",
        f"-I{include}",
        str(root / "sim" / "rtl" / "ddr.cpp"),
        "-o",
        str(library),
    ]
    subprocess.run(command, check=True)
    return library


class Bus:
    """All signals of all ports as lists of ints. `clock()` is one clock edge, and counts what was transferred."""

    def __init__(self, library, path, **settings):
        path.write_bytes(bytes(SIZE))
        private = path.with_suffix(".so")  # a copy for each test: the model has one state in a process
        private.write_bytes(library.read_bytes())
        self.c = ctypes.CDLL(str(private))
        self.c.ddr_open.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64]
        self.c.ddr_set.argtypes = [ctypes.c_char_p, ctypes.c_int64]
        self.c.ddr_fault.argtypes = [ctypes.c_int, ctypes.c_int, *[ctypes.c_uint64] * 2, ctypes.c_int, *[ctypes.c_int64] * 2]
        self.c.ddr_violation.restype = ctypes.c_char_p
        assert self.c.ddr_open(str(path).encode(), BASE, SIZE) == 0
        for name, value in settings.items():
            assert self.c.ddr_set(name.encode(), value) == 0
        self.memory = np.memmap(path, np.uint8)
        self.drive = {name: [0] * PORTS for name, _ in FROM_MASTER}
        self.see = {name: [0] * PORTS for name, _ in TO_MASTER}
        self.drive["arsize"] = self.drive["awsize"] = [4] * PORTS
        self.drive["arburst"] = self.drive["awburst"] = [1] * PORTS
        self.clock(reset_n=0)

    def clock(self, reset_n=1):
        words_in = [_pack(self.drive[name], bits) for name, bits in FROM_MASTER]
        words_out = [_pack([0] * PORTS, bits) for _, bits in TO_MASTER]
        self.c.ddr_clock(ctypes.c_uint8(reset_n), *words_in, *words_out)
        for (name, bits), words in zip(TO_MASTER, words_out, strict=True):
            value = int.from_bytes(bytes(words), "little")
            self.see[name] = [value >> (port * bits) & ((1 << bits) - 1) for port in range(PORTS)]

    @property
    def violation(self):
        return self.c.ddr_violation().decode()


def _pack(values, bits):
    number = sum(value << (index * bits) for index, value in enumerate(values))
    count = -(-PORTS * bits // 32)
    return (ctypes.c_uint32 * count)(*[number >> (32 * i) & 0xFFFFFFFF for i in range(count)])


class Reader:
    """A master's read side on one port: bursts of (address, beats), pushed as fast as they are taken."""

    def __init__(self, bus, port, bursts, rng=None):
        self.bus, self.port, self.bursts, self.rng = bus, port, list(bursts), rng
        self.got, self.first = [], None

    def before(self):
        """Drives this clock's signals, and notes what the edge will transfer."""
        drive, see, p = self.bus.drive, self.bus.see, self.port
        drive["arvalid"][p] = int(bool(self.bursts))
        if self.bursts:
            drive["araddr"][p], drive["arlen"][p] = self.bursts[0][0], self.bursts[0][1] - 1
        drive["rready"][p] = int(self.rng is None or self.rng.random() < 0.6)
        self._address = drive["arvalid"][p] and see["arready"][p]
        if see["rvalid"][p] and drive["rready"][p]:
            self.got.append((see["rdata"][p], see["rresp"][p], see["rlast"][p]))

    def after(self):
        """Goes on from what was transferred."""
        if self._address:
            self.bursts.pop(0)


class Writer:
    """A master's write side on one port: bursts of (address, [(data, strobe), ...])."""

    def __init__(self, bus, port, bursts, rng=None):
        self.bus, self.port, self.rng = bus, port, rng
        self.addresses = [(address, len(beats)) for address, beats in bursts]
        self.beats = [(*beat, i == len(beats) - 1) for _, beats in bursts for i, beat in enumerate(beats)]
        self.responses = []

    def before(self):
        """As Reader.before."""
        drive, see, p = self.bus.drive, self.bus.see, self.port
        drive["awvalid"][p], drive["wvalid"][p] = int(bool(self.addresses)), int(bool(self.beats))
        if self.addresses:
            drive["awaddr"][p], drive["awlen"][p] = self.addresses[0][0], self.addresses[0][1] - 1
        if self.beats:
            drive["wdata"][p], drive["wstrb"][p], drive["wlast"][p] = (int(v) for v in self.beats[0])
        drive["bready"][p] = int(self.rng is None or self.rng.random() < 0.6)
        self._took = drive["awvalid"][p] and see["awready"][p], drive["wvalid"][p] and see["wready"][p]
        if see["bvalid"][p] and drive["bready"][p]:
            self.responses.append(see["bresp"][p])

    def after(self):
        """As Reader.after."""
        for queue, took in zip((self.addresses, self.beats), self._took, strict=True):
            if took:
                queue.pop(0)


def run(bus, masters, until, limit=20000):
    """Clocks until the condition holds; returns their number."""
    for clocks in range(limit):
        if until():
            return clocks
        for master in masters:
            master.before()
        bus.clock()
        for master in masters:
            master.after()
    raise AssertionError(f"not done after {limit} clocks")


@pytest.fixture
def bus(compiled, tmp_path):
    """Makes a bus with settings."""
    return lambda **settings: Bus(compiled, tmp_path / "memory", **settings)


@pytest.mark.parametrize("latency", [1, 120, 500])
def test_a_read_takes_its_latency(bus, latency):
    """Cycle counts of the simulated accelerator depend on this number."""
    b = bus(latency=latency)
    reader = Reader(b, 2, [(BASE, 1)])
    run(b, [reader], lambda: not reader.bursts)
    assert run(b, [reader], lambda: b.see["rvalid"][2]) == latency - 1


def test_bursts_take_the_same_clocks_whenever_they_start(bus):
    """A program's clocks would depend on how many registers the host accessed before the start."""
    b, found = bus(latency=9), set()
    for pause in range(20, 20 + 2 * PORTS):
        run(b, [], iter([False] * pause + [True]).__next__)
        readers = [Reader(b, p, [(BASE + p * 65536 + 256 * i, 16) for i in range(3)]) for p in range(PORTS)]
        progress = []
        while not progress or min(progress[-1]) < 48:
            run(b, readers, iter((False, True)).__next__)  # one clock
            progress.append(tuple(len(reader.got) for reader in readers))
        found.add(tuple(progress))
    assert len(found) == 1


@pytest.mark.parametrize("bytes_per_clock", [48, 32, 12, 8, 4])
def test_all_ports_share_the_bandwidth_fairly(bus, bytes_per_clock):
    """48 bytes a clock: four reading ports together must get three beats a clock, and none less than its share.

    With less than a beat a clock, the clocks without one must not always fall on the turn of the same ports.
    """
    b = bus(latency=4, bytes_per_clock=bytes_per_clock)
    readers = [Reader(b, p, [(BASE + p * 65536 + 256 * i, 16) for i in range(40)]) for p in range(PORTS)]
    clocks = run(b, readers, lambda: min(len(r.got) for r in readers) >= 500)
    total = sum(len(r.got) for r in readers)
    assert abs(total - bytes_per_clock / 16 * clocks) < 100
    assert max(len(r.got) for r in readers) < 510


@pytest.mark.parametrize("stall", [0, 100, 220])
def test_what_is_written_is_read_whatever_the_pace(bus, stall):
    """Beats lost, doubled or reordered under back-pressure, or strobes ignored, would show here."""
    rng = np.random.default_rng(stall)
    b = bus(stall=stall, seed=stall, latency=7, write_latency=3)
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
