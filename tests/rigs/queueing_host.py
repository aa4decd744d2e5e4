"""A host that queues runs of an accelerator and keeps book: which were accepted, which must have ended, what each must have done.

A run copies its input to its own output, a beat for each command; its program has a length of its own. Some runs must fail. An
*epoch* is what lies between two soft resets: its runs begin in order, and none begins behind one that has failed.
"""

from dataclasses import dataclass, field

import numpy as np

from cnna.sim.rtl.cosim import CosimDevice
from cnna.spec.config import BEAT_BYTES
from cnna.spec.errors import RunError
from cnna.spec.regmap import ERRORS, NO_LIMIT, PLACES, REGISTERS, offset

from ..sim.programs import Program

CAUSES = {  # how a run fails, by kind
    "illegal": "illegal_register",
    "outside": "outside_segment",
    "limit": "run_limit",
    "hang": "watchdog",
    "bad": "read_response",
}
MOST_UNITS = 12
WORDS = 4  # of a beat, at `tiny`
WATCHDOG_CLOCKS = 1500
LIMIT_CLOCKS = 30  # of a run that must not have the time to end
SETTLE_LOOKS, LOOK_CLOCKS = 600, 100


@dataclass(frozen=True)
class Run:
    """One run: its kind ("copy", or a key of CAUSES), the beats that it copies, where, and how long its program is."""

    kind: str
    units: int
    text: bytes
    target: int
    writes: int

    @property
    def fails(self) -> bool:
        return self.kind in CAUSES


@dataclass
class Epoch:
    """Runs that were accepted between two resets, in order; `finished`: how many ended, once that is known."""

    base: int  # FINISHED at its begin
    runs: list[Run] = field(default_factory=list)
    finished: int = 0


def program(kind: str, units: int) -> Program:
    """Loads and stores of `units` beats; a hanging program waits for a unit that never comes, an illegal one writes to ID."""
    made = Program()
    for unit in range(units):
        made.go("load", seg=2, ddr=BEAT_BYTES * unit, fm=WORDS * unit, run=WORDS)
    if kind == "hang":
        made.go("load", seg=2, run=WORDS, wait_conv_enable=1, wait_conv_count=1)
    if kind == "illegal":
        made.write("ID", 0)
    for unit in range(units):
        wait = {"wait_load_enable": 1, "wait_load_count": units + (kind == "hang")}
        made.go("store", seg=3, ddr=BEAT_BYTES * unit, fm=WORDS * unit, run=WORDS, **wait)
    made.write("END", 1)
    return made


class QueueingHost:
    """Does one thing at a time, and asserts at each what the registers may show."""

    def __init__(self, device: CosimDevice, rng: np.random.Generator) -> None:
        self.device, self.rng = device, rng
        device.release_all()
        device.clear_faults()
        self._programs: dict[tuple[str, int], tuple[int, int]] = {}
        self._held: dict[str, int] = {}  # what the host has written
        self._cleared = -1  # FINISHED after done was cleared
        self._past: list[Epoch] = []
        self.epoch = Epoch(self.word("FINISHED"))
        self._reset(wait=True)
        for half in ("PROG_BASE_HI", *(f"SEG_{name}_HI" for name in ("INPUT", "OUTPUT", "CONSTANT", "WORKSPACE"))):
            device.write(offset(half), device.base >> 32)
        device.write(offset("WATCHDOG"), WATCHDOG_CLOCKS)

    def fields(self, name: str) -> dict[str, int]:
        return REGISTERS[name].unpack(self.device.read(offset(name)))

    def word(self, name: str) -> int:
        return self.device.read(offset(name))

    @property
    def open_runs(self) -> int:
        """Runs of this epoch that have not finished."""
        return len(self.epoch.runs) - (self.word("FINISHED") - self.epoch.base)

    def _full(self) -> bool:
        """Whether no place is free: FINISHED shows one run that has not ended and all places behind it, and STATUS no error."""
        return self.open_runs > PLACES and not self.fields("STATUS")["error"]

    # --- what it does ---

    def submit(self, how: str, kind: str = "copy") -> None:
        """Prepares a run, and starts it by CTRL.start or CTRL.queue."""
        run, words = self._made(kind)
        for name, word in words.items():
            if self._held.get(name) != word:
                full = self._full()
                try:
                    self.device.write(offset(name), word)
                except RunError:
                    assert full, f"{name} was refused"
                    return
                self._held[name] = word
        refusable = self._full() if how == "queue" else self.open_runs
        try:
            self.device.write(offset("CTRL"), REGISTERS["CTRL"].pack(**{how: 1}))
        except RunError:
            assert refusable, f"{how} was refused"
            return
        after = self.open_runs
        if how == "queue":
            assert after <= PLACES or self.fields("STATUS")["error"], "a start was queued that no place was free for"
        elif after:  # it ended an epoch that an error had stopped
            self._end()
            assert self._past[-1].runs[self._past[-1].finished].fails
        self.epoch.runs.append(run)

    def reset(self) -> None:
        """A soft reset; sometimes it waits for the end."""
        self._reset(wait=bool(self.rng.integers(2)))

    def clear_done(self) -> None:
        self.device.write(offset("STATUS"), REGISTERS["STATUS"].pack(done=1))
        self._cleared = self.word("FINISHED")

    def read_back(self) -> None:
        """Run registers read what was written last, whatever runs."""
        for name, word in self._held.items():
            assert self.word(name) == word, name

    def read_counters(self) -> None:
        """While a queued run runs, the counters are those of the run before it."""
        number, queued = self.word("FINISHED"), self.fields("QUEUE")["queued"]
        found = [self.word(name) for name in ("PC", "DONE_LOAD", "DONE_STORE")]
        if queued and self.fields("QUEUE")["queued"] and self.word("FINISHED") == number:
            done = number - self.epoch.base
            assert found == (self._counters(self.epoch.runs[done - 1]) if done else [0, 0, 0])

    # --- what must be true at the end ---

    def settle(self) -> None:
        """Waits until all has ended, and checks all that was accepted."""
        for _ in range(SETTLE_LOOKS):
            status = self.fields("STATUS")
            if not (status["busy"] or status["resetting"]):
                break
            self.device.run_clocks(LOOK_CLOCKS)
        else:
            raise AssertionError(f"it hangs: {status}, {self.fields('QUEUE')}")
        runs, finished = self.epoch.runs, self.word("FINISHED")
        failing = next((number for number, run in enumerate(runs) if run.fails), None)
        queue = self.fields("QUEUE")
        assert finished - self.epoch.base == (len(runs) if failing is None else failing), "a run was lost"
        assert (queue["pending"], queue["queued"]) == (0, 0)
        assert status["error"] == (failing is not None)
        if failing is not None:
            assert ERRORS[self.fields("ERROR")["cause"]] == CAUSES[runs[failing].kind]
            assert queue["dropped"] == len(runs) - failing - 1
            assert not status["done"]
        elif runs:
            assert self._counters(runs[-1]) == [self.word(name) for name in ("PC", "DONE_LOAD", "DONE_STORE")]
            assert status["done"] == (finished != self._cleared)
        self.read_back()
        self._end()
        for epoch in self._past:
            self._check(epoch)

    def _check(self, epoch: Epoch) -> None:
        for number, run in enumerate(epoch.runs):
            found = self.device.load(run.target, len(run.text))
            if number < epoch.finished:
                assert not run.fails
                assert found == run.text, "an answer is wrong"
            elif number == epoch.finished:  # it was stopped
                for at in range(0, len(found), BEAT_BYTES):
                    assert found[at : at + BEAT_BYTES] in (run.text[at : at + BEAT_BYTES], bytes(BEAT_BYTES))
            else:
                assert not any(found), "a dropped run has begun"

    def _counters(self, run: Run) -> list[int]:
        return [run.writes, run.units, run.units]

    def _end(self) -> None:
        """Ends the epoch, and begins the next one."""
        finished = self.word("FINISHED")
        self.epoch.finished = finished - self.epoch.base
        self._past.append(self.epoch)
        self.epoch = Epoch(finished)

    def _reset(self, wait: bool) -> None:
        self.device.write(offset("CTRL"), REGISTERS["CTRL"].pack(soft_reset=1))
        self._end()
        self._cleared = self.epoch.base
        while wait and self.fields("STATUS")["resetting"]:
            self.device.run_clocks(LOOK_CLOCKS)

    def _made(self, kind: str) -> tuple[Run, dict[str, int]]:
        """A run with a place of its own, and the words of its run registers."""
        units = int(self.rng.integers(1 + (kind == "limit"), MOST_UNITS + 1))  # one may take an engine a single clock
        size = units * BEAT_BYTES
        source, target = self.device.allocate(size), self.device.allocate(size)
        text = self.rng.integers(1, 256, size, np.uint8).tobytes()  # no zeros: these mean that nothing was written
        self.device.store(source, text)
        self.device.store(target, bytes(size))
        if kind == "bad":
            self.device.fault(write=False, response=2, low=source, high=source + size, times=-1)
        at, writes = self._placed(kind if kind in ("hang", "illegal") else "copy", units)
        addresses = {"PROG_BASE_LO": at, "SEG_INPUT_LO": source, "SEG_OUTPUT_LO": target}
        words = {name: address & 0xFFFFFFFF for name, address in addresses.items()} | {"PROG_COUNT": writes}
        words |= {"SEG_OUTPUT_BYTES": size - BEAT_BYTES if kind == "outside" else size, "SEG_INPUT_BYTES": NO_LIMIT}
        words |= {"RUN_LIMIT": LIMIT_CLOCKS if kind == "limit" else int(self.rng.choice([0, 1 << 20]))}
        return Run(kind, units, text, target, writes), words

    def _placed(self, kind: str, units: int) -> tuple[int, int]:
        """Address and length of a program in memory."""
        if (kind, units) not in self._programs:
            made = program(kind, units)
            at = self.device.allocate(len(made.bytes()))
            self.device.store(at, made.bytes())
            self._programs[kind, units] = at, len(made.writes)
        return self._programs[kind, units]
