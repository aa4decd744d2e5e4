"""The emulator: a `spec.device.Device` that executes the register program on a memory image, without a clock.

Each command runs to completion at its GO write: program order is a valid serial order, see `docs/engines.md`. A command that no
accelerator could carry out (`spec.checks.program.fault`) stops the emulator with `illegal_value` at the engine's GO. A wait that
program order cannot meet stops it with `watchdog`. In both cases `wait` names the command. A program in memory that has no END
stops with `watchdog` too. The emulator has no clock, so RUN_LIMIT stops a program as soon as an engine's commands would take longer
even if nothing ever held them up. A command whose waits are not met, or that leaves its segment, stops the program for that reason,
because the accelerator finds these before it works. A queued start waits only while the host or another thread plays a program, or
one has hung.
`spec.program.commands` decodes, `engines` executes; nothing is shared with the compiler's scheduling.
"""

from functools import lru_cache

import numpy as np

from cnna.sim.emulator.engines import ENGINE_RUNS, check_segment
from cnna.sim.emulator.memory import DDR_BASE, SimulatedMemory
from cnna.sim.emulator.run_queue import COUNTS, RunQueue, Words, snapshot
from cnna.sim.emulator.state import BusError, EmulatorState, LoggedWrite, OutsideError, ProgramError
from cnna.spec.checks.program import fault
from cnna.spec.config import Config
from cnna.spec.errors import RunError
from cnna.spec.identity import capability_words
from cnna.spec.program.commands import WRITE_BYTES, Command, Decoder, IllegalWriteError, program_writes
from cnna.spec.regmap import BY_OFFSET, CODED, COUNT_BITS, COUNTED, ENGINES, ERRORS, REGISTERS, SEGMENTS, Register

FAULTS_KEPT = 1 << 12  # commands for which the verdict is remembered


class EmulatorDevice(SimulatedMemory):
    """One emulated accelerator with `memory_bytes` of DDR from bus address `base` on. Only pages that are touched take memory.

    With `logging`, `log` holds what every command of the last run wrote.
    """

    name = "emulator"

    def __init__(self, config: Config, memory_bytes: int = 1 << 30, logging: bool = False, base: int = DDR_BASE) -> None:
        self.config, self.logging = config, logging
        super().__init__(np.zeros(memory_bytes, np.uint8), base)
        self.state = EmulatorState(config, self.data, base)
        self._failure: RunError | None = None
        self._registers: dict[str, int] = {}
        self._words: Words = {}  # of the run registers, as the program has them
        self._decoder = Decoder()
        self._runs = RunQueue()
        self._reset()

    # --- the Device protocol ---

    def read(self, offset: int) -> int:
        """The register at a byte offset. RunError: there is no register."""
        if offset not in BY_OFFSET or self._lacks(offset):
            raise RunError(f"there is no register at offset {offset:#x}")
        name = BY_OFFSET[offset].name
        if name in self._runs.last and not REGISTERS["CTRL"].unpack(self._registers["CTRL"])["live"]:
            return self._runs.last[name]
        if name == "STATUS" and self._runs.pending:
            return self._registers[name] | REGISTERS[name].pack(busy=1)
        own = {"PC": lambda: self._decoder.writes, "FINISHED": lambda: self._runs.finished, "QUEUE": lambda: self._runs.word}
        return own[name]() if name in own else self._registers.get(name, 0)

    def write(self, offset: int, value: int) -> None:
        """Sets a register. A start runs the whole program before this returns; STATUS and ERROR then say what stopped it."""
        self.set(offset, value)
        self.follow()

    def set(self, offset: int, value: int) -> None:
        """As `write`, but leaves what is queued for `follow`."""
        register = BY_OFFSET.get(offset)
        if register is not None and register.name.startswith("STREAM_") and not self.config.streams:
            raise RunError(f"{register.name} cannot be written: configuration {self.config.name} has no streams")
        if register is not None and register.block == "general" and register.name != "END":
            self._write_general(register, value)
        elif self._busy:
            self._play([(offset, value)])
        else:
            self.stop("illegal_register", offset=offset)

    @property
    def busy(self) -> bool:
        """Whether a program runs or waits, so that no other may start."""
        return self._busy or self._runs.pending > 0

    @property
    def follows(self) -> bool:
        """Whether `follow` would run a program."""
        return self._runs.pending > 0 and not self._busy

    def follow(self) -> None:
        """Runs the programs that are queued, unless one still runs."""
        while not self._busy and (words := self._runs.take()) is not None:
            self._begin(words, queued=True)
            self._play_all()

    def wait(self) -> None:
        """Returns when STATUS shows done or error. RunError: a command that no accelerator could carry out."""
        if self._failure is not None:
            raise self._failure
        if self._busy:
            raise RunError(f"the program has not ended after {self._decoder.writes} writes: it waits for more")

    def _lacks(self, offset: int) -> bool:
        """Whether the register is one that only accelerators with books have."""
        return not self.config.codebook and offset in BY_OFFSET and BY_OFFSET[offset].name in CODED

    def close(self) -> None:
        """Does nothing: an emulator holds nothing open."""

    def start_log(self) -> None:
        """Logs what every command writes, from the next start on."""
        self.logging = True

    @property
    def log(self) -> list[LoggedWrite]:
        """What each command of the last run wrote, in program order."""
        return self.state.log or []

    # --- registers ---

    def _reset(self) -> None:
        """Sets the state after a reset. Read-write registers of the general block survive a soft reset."""
        kept = {n: self._registers.get(n, _word(r)) for n, r in REGISTERS.items() if r.block == "general"}
        self._registers = kept | capability_words(self.config)
        state = self.state
        self.state = EmulatorState(self.config, state.ddr, state.ddr_base)
        self.state.features = state.features  # memories keep what they hold
        self._decoder = Decoder()
        self._runs.reset()
        self._restart(busy=False)

    def _restart(self, busy: bool, done: int = 0) -> None:
        """Clears counters, errors and progress."""
        self._done = dict.fromkeys(COUNTED, 0)
        self._clocks = dict.fromkeys(ENGINES, 0)
        self._busy, self._failure = busy, None
        self._decoder.restart()
        self.state.tables.clear()
        self.state.books.clear()
        self._registers |= {"STATUS": REGISTERS["STATUS"].pack(busy=int(busy), done=done), "ERROR": 0, "ERROR_INFO": 0}
        self._registers |= {f"DONE_{engine.upper()}": 0 for engine in COUNTED}

    def _write_general(self, register: Register, value: int) -> None:
        if register.name == "CTRL":
            fields = register.unpack(value)
            self._registers["CTRL"] = register.pack(irq_enable=fields["irq_enable"], live=fields["live"])
            if fields["soft_reset"]:
                self._reset()
            elif fields["start"] or fields["begin"]:
                if self.busy:
                    raise RunError("the accelerator answers SLVERR to CTRL: it is busy")
                self._begin(snapshot(self._registers))
                if fields["start"]:
                    self._play_all()
            elif fields["queue"]:
                self._queue()
        elif register.name == "STATUS":
            done = REGISTERS["STATUS"].pack(done=1)
            with self._runs.lock:
                self._registers["STATUS"] &= ~(value & done)
        elif all(field.access == "rw" for field in register.fields):
            self._runs.check_write(register.name, self._busy)
            self._registers[register.name] = value & ((1 << sum(field.bits for field in register.fields)) - 1)
        else:
            self.stop("illegal_register", offset=register.offset)

    def _queue(self) -> None:
        """Queues a start, or drops it if an error has stopped the accelerator. RunError: no place is free."""
        with self._runs.lock:
            if REGISTERS["STATUS"].unpack(self._registers["STATUS"])["error"]:
                self._runs.drop()
            else:
                self._runs.add(snapshot(self._registers), self._busy)

    def _begin(self, words: Words, queued: bool = False) -> None:
        """Begins a program with these words of the run registers."""
        with self._runs.lock:
            self._runs.begin({name: self.read(REGISTERS[name].offset) for name in COUNTS} if queued else None)
            self._restart(busy=True, done=REGISTERS["STATUS"].unpack(self._registers["STATUS"])["done"] if queued else 0)
        self._words = words
        self.state.log = [] if self.logging else None
        self.state.segments = [words[f"SEG_{name.upper()}_LO"] | words[f"SEG_{name.upper()}_HI"] << 32 for name in SEGMENTS]
        self.state.sizes = [words[f"SEG_{name.upper()}_BYTES"] for name in SEGMENTS]

    def _play_all(self) -> None:
        """Plays the program in memory with which the accelerator was started."""
        self._play(self._fetch())
        if self._busy and self._registers["WATCHDOG"]:  # there is no END
            self.stop("watchdog")

    def _fetch(self) -> list[tuple[int, int]]:
        base = self._words["PROG_BASE_LO"] | self._words["PROG_BASE_HI"] << 32
        size = WRITE_BYTES * self._words["PROG_COUNT"]
        try:
            start = int(self.state.bus(np.array([base]), size)[0])
        except IndexError:
            self.stop("read_response", port=0, response=3)
            return []
        return program_writes(self.state.ddr[start : start + size].tobytes())

    def stop(self, cause: str, offset: int = 0, port: int = 0, response: int = 0) -> None:
        """Sets the registers as an error does. PC stays at the write that failed."""
        self._registers["ERROR"] = REGISTERS["ERROR"].pack(cause=ERRORS.index(cause), port=port, response=response)
        self._registers["ERROR_INFO"] = REGISTERS["ERROR_INFO"].unpack(offset)["offset"]  # of 16 bits
        self._end(error=1)

    def _end(self, **status: int) -> None:
        """The program has ended; STATUS gets these fields."""
        with self._runs.lock:
            self._busy = False
            self._registers["STATUS"] = REGISTERS["STATUS"].pack(**status)
            self._runs.end(finished="done" in status)

    # --- the program ---

    def _play(self, writes: list[tuple[int, int]]) -> None:
        for offset, value in writes:
            if not self._busy:
                return
            try:
                if self._lacks(offset):
                    raise IllegalWriteError("illegal_register", offset)
                made = self._decoder.write(offset, value)
                if isinstance(made, Command):
                    self._take(made)
                elif made == "end":
                    self._end(done=1)
            except IllegalWriteError as error:
                self.stop(error.cause, offset=error.offset)
            except OutsideError:
                assert isinstance(made, Command)
                self.stop("outside_segment", offset=REGISTERS[f"{made.engine.upper()}_SEG"].offset)
            except BusError as error:
                self.stop(error.cause, port=error.port, response=error.response)
            except (ProgramError, ValueError) as error:
                self.stop("watchdog")
                self._failure = RunError(f"emulator: {made} {error}")

    def _take(self, command: Command) -> None:
        """Carries out a command, or stops the program because of it, with the cause that the accelerator finds first.

        ProgramError: no accelerator could carry it out. OutsideError, BusError: an error that stops it.
        """
        if command.engine in COUNTED:
            self._check_waits(command, command.units(self.config.chunk_blocks))
        check_segment(self.state, command)
        if self._too_long(command):
            self.stop("run_limit")
        elif not self._refuses(command):
            self.execute(command)

    def _too_long(self, command: Command) -> bool:
        """Whether the command would keep its engine at work for more than RUN_LIMIT clocks."""
        self._clocks[command.engine] += command.least_clocks(self.config)
        return 0 < self._words["RUN_LIMIT"] < self._clocks[command.engine]

    def _refuses(self, command: Command) -> bool:
        """Whether no accelerator could carry out the command; if so, the program stops here."""
        wrong = _fault(command.engine, tuple(vars(command.f).items()), self.config)
        if wrong is not None:
            self.stop("illegal_value", offset=REGISTERS[f"{command.engine.upper()}_GO"].offset)
            self._failure = RunError(f"emulator: {command} {wrong}")
        return wrong is not None

    def execute(self, command: Command) -> None:
        """Carries out one command to its end.

        ProgramError: no accelerator could. BusError: an error that stops it.
        """
        units = command.units(self.config.chunk_blocks)
        ENGINE_RUNS[command.engine](self.state, command)
        if units:
            done = self._done[command.engine] = (self._done[command.engine] + units) % (1 << COUNT_BITS)
            self._registers[f"DONE_{command.engine.upper()}"] = done

    def _check_waits(self, command: Command, units: int) -> None:
        """ProgramError: a unit waits for what no earlier command provides (differences are 24-bit signed)."""
        sign = 1 << (COUNT_BITS - 1)
        for engine in COUNTED:
            enable, step, count = (getattr(command.f, f"wait_{engine}_{part}") for part in ("enable", "step", "count"))
            for unit in range(units) if enable else ():
                done = self._done[engine] + (unit if engine == command.engine else 0)
                needed = count + (unit if step else 0)
                if (done - needed + sign) % (2 * sign) < sign:
                    raise ProgramError(f"waits for unit {needed} of {engine}, which program order never reaches (at {done})")


@lru_cache(maxsize=FAULTS_KEPT)
def _fault(engine: str, fields: tuple[tuple[str, int], ...], config: Config) -> str | None:
    """The result of `program.fault`, computed once for equal commands, because batches play the same program again."""
    return fault(engine, dict(fields), config)


def _word(register: Register) -> int:
    return register.pack(**{field.name: field.reset for field in register.fields})


def open_device(config: Config, memory_bytes: int = 1 << 30) -> EmulatorDevice:
    """Opens an emulator, for `host.model.model`, which opens devices by name."""
    return EmulatorDevice(config, memory_bytes)
