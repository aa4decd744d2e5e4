"""The emulator's queue of runs: what a queued start takes with it, what an error or a reset leaves, what the registers show."""

import pytest

from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.config import preset
from cnna.spec.errors import RunError
from cnna.spec.regmap import PLACES, REGISTERS, offset

from ..programs import Program

CTRL = REGISTERS["CTRL"]
WORDS = 4  # that a run copies from its input to its output
BYTES = 4 * WORDS


def fields(device, name):
    return REGISTERS[name].unpack(device.read(offset(name)))


def copying(ends=True):
    """A program that copies a few words from the input segment to the output segment."""
    program = Program()
    program.go("load", seg=2, fm=0, run=WORDS, runs=1, blocks=1)
    program.go("store", seg=3, fm=0, run=WORDS, runs=1, blocks=1, wait_load_enable=1, wait_load_count=1)
    if ends:
        program.write("END", 1)
    return program


class Host:
    """A host of an emulator, with the copying program in memory."""

    def __init__(self, ends=True):
        self.device = EmulatorDevice(preset("tiny"), 1 << 16, base=1 << 20)
        program = copying(ends).bytes()
        self.set(PROG_BASE_LO=self.device.allocate(len(program)), PROG_COUNT=len(program) // 8)
        self.device.store(self.device.read(offset("PROG_BASE_LO")), program)
        self.places = []

    def set(self, **words):
        for name, word in words.items():
            self.device.write(offset(name), word)

    def prepare(self, text):
        """Gives the next run its own input and output."""
        source, target = (self.device.allocate(BYTES) for _ in range(2))
        self.device.store(source, text)
        self.set(SEG_INPUT_LO=source, SEG_OUTPUT_LO=target, SEG_OUTPUT_BYTES=BYTES)
        self.places.append(target)

    def ctrl(self, **values):
        self.device.write(CTRL.offset, CTRL.pack(**values))

    def answers(self):
        return [self.device.load(place, BYTES) for place in self.places]


def texts(count):
    return [bytes([65 + number]) * BYTES for number in range(count)]


def test_a_queued_start_when_nothing_runs_is_a_start_that_leaves_done():
    """The end of the run before would be lost to a host that has not looked yet."""
    host = Host()
    for number, text in enumerate(texts(3)):
        host.prepare(text)
        host.ctrl(**{"queue" if number else "start": 1})
        assert fields(host.device, "STATUS") | {"engines": 0} == {"busy": 0, "done": 1, "error": 0, "resetting": 0, "engines": 0}
        assert host.device.read(offset("FINISHED")) == number + 1
    assert host.answers() == texts(3)


def test_each_queued_start_keeps_its_own_registers():
    """A run would read or write where the host wants the next one to."""
    host, words = Host(), texts(PLACES + 1)
    host.prepare(words[0])
    host.ctrl(begin=1)
    for number, text in enumerate(words[1:]):
        host.prepare(text)
        host.ctrl(queue=1)
        assert fields(host.device, "QUEUE")["pending"] == number + 1
    for name, value in (("SEG_INPUT_LO", 0), ("RUN_LIMIT", 1), ("CTRL", CTRL.pack(queue=1))):
        with pytest.raises(RunError, match=f"SLVERR to {name}: {PLACES} queued starts are pending"):
            host.device.write(offset(name), value)
    assert host.device.read(offset("FINISHED")) == 0
    for where, value in copying().writes:
        host.device.write(where, value)
    assert host.answers() == words
    assert host.device.read(offset("FINISHED")) == PLACES + 1
    assert fields(host.device, "QUEUE") == {"pending": 0, "dropped": 0, "places": PLACES, "queued": 0}


@pytest.mark.parametrize("by", ["error", "soft_reset"])
def test_what_stops_a_run_drops_what_is_queued(by):
    """Runs would go on with what a failed run has left, or a host would wait for runs that never come."""
    host = Host()
    host.prepare(texts(1)[0])
    host.ctrl(begin=1)
    host.ctrl(queue=1)
    host.ctrl(queue=1)
    if by == "error":
        host.device.write(offset("ID"), 0)
        assert fields(host.device, "STATUS")["error"]
        assert (fields(host.device, "QUEUE")["pending"], fields(host.device, "QUEUE")["dropped"]) == (0, 2)
        for dropped in (3, 4):
            host.ctrl(queue=1)
            assert (fields(host.device, "QUEUE")["pending"], fields(host.device, "QUEUE")["dropped"]) == (0, dropped)
        assert fields(host.device, "STATUS")["error"]
    host.ctrl(soft_reset=1)
    assert (fields(host.device, "QUEUE")["pending"], fields(host.device, "QUEUE")["dropped"]) == (0, 0)
    assert host.device.read(offset("FINISHED")) == 0
    host.ctrl(queue=1)
    assert host.device.read(offset("FINISHED")) == 1
    assert host.answers() == texts(1)


def test_counters_of_the_run_before_stay_while_a_queued_one_runs():
    """A host that comes late would read the counters of another run; one that looks for a hang could not see it."""
    host = Host()
    host.prepare(texts(1)[0])
    host.set(WATCHDOG=0)
    host.ctrl(start=1)
    before = {name: host.device.read(offset(name)) for name in ("PC", "DONE_LOAD", "DONE_STORE")}
    writes = host.device.read(offset("PROG_COUNT"))
    host.set(PROG_COUNT=writes // 2)  # without END
    host.ctrl(queue=1)
    assert fields(host.device, "QUEUE")["queued"]
    assert fields(host.device, "STATUS")["busy"]
    assert fields(host.device, "STATUS")["done"]
    assert {name: host.device.read(offset(name)) for name in before} == before
    host.ctrl(live=1)
    assert host.device.read(offset("PC")) == writes // 2
    host.ctrl(queue=1)
    assert fields(host.device, "QUEUE")["pending"] == 1
    host.device.write(offset("ID"), 0)
    assert host.device.read(offset("FINISHED")) == 1
    assert fields(host.device, "QUEUE")["dropped"] == 1
