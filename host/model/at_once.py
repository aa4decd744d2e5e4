"""A single run by one call of the library: it takes the turn, packs, starts, waits, unpacks, and gives the turn back.

It is for a batch like one that the plan knows, of a model that has had a turn before. If anything stands in its way, nothing is
done, and the run takes the way of all others (`BoardModel._fly`), with its waits, resets and messages.
"""

import ctypes
from collections.abc import Callable
from ctypes import addressof
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.board_device import CAPABILITY_WORDS, STATUS
from cnna.host.board.turn import LOOK_AT_FILE_SECONDS, LocalTurn
from cnna.host.model.native_runs import NativeRuns
from cnna.host.model.planned import Form, Plan, PlannedFlight, PlannedJob
from cnna.host.native.library import BUSY, EXPIRED, OK
from cnna.host.native.loop import Arrays, CTurn, CWrite, Loop
from cnna.host.native.tensors import address_of

if TYPE_CHECKING:
    from cnna.host.model.board_model import BoardModel


ENDED = (OK, EXPIRED)  # codes of a run that has answers, at once or after a wait


class _Known(NamedTuple):
    """A feed's type and shape. form: the plan's. arrays: of C, where `tensors` and `places` change with each run. call: runs it."""

    form: Form
    arrays: Arrays
    tensors: Any
    places: Any
    call: Callable[[], int]


class AtOnce:
    """The single runs of a model for as long as its loop is there. One thread at a time has the turn, and so all of this."""

    def __init__(self, model: "BoardModel", plan: Plan, runs: NativeRuns, loop: Loop, turn: LocalTurn) -> None:
        self._model, self._plan, self._runs, self.loop, self._turn = model, plan, runs, loop, turn
        self._turns = model.board.turns
        self._names, self._rooms, self._batch = plan.names, plan.rooms, plan.batch
        self._known: dict[Any, _Known | None] = {}
        assert turn.file is not None
        self._file, self._who, self._holder = turn.file, turn.who, ctypes.create_string_buffer(turn.name, len(turn.name))
        same = [CWrite(4 * word, value) for word, value in zip(CAPABILITY_WORDS, model.board.capabilities, strict=True)]
        self._idle = (CWrite * (len(same) + 1))(*same, CWrite(STATUS, 0))
        self._c_turn = CTurn(self._file, 0, addressof(self._holder), len(turn.name), len(self._idle), addressof(self._idle))
        self._counters = np.zeros(loop.counters, np.uint32)

    @classmethod
    def of(cls, model: "BoardModel", plan: Plan | None, runs: NativeRuns) -> Optional["AtOnce"]:
        """Of a model whose run has just ended; None: this process cannot take its turn at once, or its loop is gone."""
        turn, loop = model.board.turns.turn, runs.loop
        if plan is None or loop is None or not isinstance(turn, LocalTurn) or turn.file is None:
            return None
        return cls(model, plan, runs, loop, turn)

    def stands(self, loop: Loop | None) -> bool:
        """Whether it may still run anything, by that loop."""
        return self.loop is loop and self._turn.file == self._file

    def run(self, x: Any) -> dict[str, NDArray[Any]] | None:
        """What `Model.run` returns for a dict; None: nothing was done. RunError: as of `NativeRuns.run_alone`."""
        if type(x) is not dict or len(x) != len(self._names):
            return None
        given: list[NDArray[Any]] = []
        key: Any = None
        for name in self._names:
            one = x.get(name)
            if type(one) is not np.ndarray or not one.flags.c_contiguous:
                return None
            given.append(one)
            key = one.dtype, one.shape, key
        known = self._known.get(key) or self._learnt(key)
        began, turn, model = monotonic(), self._turn, self._model
        if known is None or turn.who != self._who or turn.file != self._file:
            return None
        if began - turn.seen >= LOOK_AT_FILE_SECONDS and not turn.is_there(self._file):
            turn.seen -= LOOK_AT_FILE_SECONDS  # the way of all others looks again
            return None
        if not model.joined():
            return None
        try:
            return self._in_turn(known, given, began)
        finally:
            model.end_run()

    def _learnt(self, key: Any) -> _Known | None:
        """What a plan knows of such a feed, with C arrays for this way alone."""
        if key not in self._known:
            form = self._plan.known(key)
            if form is None:  # it may know it later
                return None
            arrays = self._plan.arrays(form.tensors)
            arrays.job.program, arrays.job.counters = 0, self._counters.ctypes.data
            call = self.loop.in_turn(arrays, self._c_turn)
            self._known[key] = None if form.copied else _Known(form, arrays, [*arrays.tensors], arrays.places, call)
        return self._known[key]

    def _in_turn(self, known: _Known, given: list[NDArray[Any]], began: float) -> dict[str, NDArray[Any]] | None:
        """A run between the turn's beginning and its end among this process's threads; None: nothing was done."""
        turns = self._turns
        if not turns.enter():
            return None
        outputs: dict[str, NDArray[Any]] = {}
        code, sound = BUSY, False
        try:
            form, _, tensors, places, call = known
            samples = form.samples
            for number, one in enumerate(given):
                tensors[number].data = address_of(one)
            for number, room in enumerate(self._rooms):
                y, places[number] = room.fresh()
                outputs[room.name] = y if samples == self._batch else y[: samples * room.rows]
            code = call()
            if code == OK:
                self.loop.taken += 1
            elif code == EXPIRED:
                self._await(form, given, outputs)
            if code in ENDED:
                self._model.note_run(self._counters.tobytes(), monotonic() - began, samples)
            sound = True
        finally:
            if sound and code != EXPIRED:
                turns.leave()
            else:
                self._end(sound)
        return outputs if code in ENDED else None

    def _await(self, form: Form, given: list[NDArray[Any]], outputs: dict[str, NDArray[Any]]) -> None:
        """Waits for a run that goes on by itself, in the turn that the library has kept."""
        self._model.turn.adopt()
        flight = PlannedFlight(self._plan, form, given)
        flight.outputs = outputs
        self.loop.left((given, outputs))
        self._runs.go_on((PlannedJob(0, flight), outputs, self._counters))

    def _end(self, sound: bool) -> None:
        """The end of a turn that the library may have kept. sound: whether the run has ended; else it may be on the accelerator."""
        kept, self._c_turn.kept = self._c_turn.kept, 0
        if not sound:
            self._runs.close()  # what it knows of jobs may be wrong
        if not kept:
            self._turns.leave()
            return
        self._model.turn.adopt()  # if it is not yet
        try:
            if not sound:
                self._model.board.reset()
        finally:
            self._model.turn.__exit__()
