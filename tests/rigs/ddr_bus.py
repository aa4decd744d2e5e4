"""The DDR model (`sim/rtl/ddr.cpp`), compiled alone and driven signal by signal, by masters that only read or only write."""

import ctypes
import subprocess

import numpy as np

from cnna.sim.rtl.build import verilator_root
from cnna.sim.rtl.testbench_top import FROM_MASTER, PORTS, TO_MASTER

BASE, SIZE = 1 << 34, 1 << 20


def compiled(root, folder):
    """The model as a shared library in a folder. root: of the project."""
    library = folder / "ddr.so"
    include = verilator_root() / "include" / "vltstd"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run(["g++", *flags, str(root / "sim" / "rtl" / "ddr.cpp"), "-o", str(library)], check=True)
    return library


class Bus:
    """All signals of all ports as lists of ints. `clock()` is one clock edge, and counts what was transferred."""

    def __init__(self, library, path, size=SIZE, **settings):
        with path.open("wb") as file:
            file.truncate(size)
        private = path.with_suffix(".so")  # a copy for each test: the model has one state in a process
        private.write_bytes(library.read_bytes())
        self.c = ctypes.CDLL(str(private))
        self.c.ddr_open.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64]
        self.c.ddr_set.argtypes = [ctypes.c_char_p, ctypes.c_int64]
        self.c.ddr_fault.argtypes = [ctypes.c_int, ctypes.c_int, *[ctypes.c_uint64] * 2, ctypes.c_int, *[ctypes.c_int64] * 2]
        self.c.ddr_violation.restype = ctypes.c_char_p
        assert self.c.ddr_open(str(path).encode(), BASE, size) == 0
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
