"""Sends batches to the board that will be free first, and to another one if that fails. `core` admits the requests.

`pump` is called whenever something has changed: a request has come, a batch has been answered, a board or a version is ready, a
sample has waited long enough. It sends what can be sent, and returns.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from cnna.serve.boards.process import Answer, LostError
from cnna.serve.engine.board import EngineBoard
from cnna.serve.engine.catalogue import Catalogue
from cnna.serve.engine.served import Served
from cnna.serve.lifecycle.batches import AGAIN, BEHIND, BUSY, CUT, DATA, END, FAULT, LATE, LATER, LOST, SPARE, Tried, verdict
from cnna.serve.models.version import Compiled, Version
from cnna.serve.requests.cover import choose
from cnna.serve.requests.history import Log
from cnna.serve.requests.open_requests import OpenRequests
from cnna.serve.requests.request import Batch, BatchRun, SampleRange
from cnna.serve.runtimes.interface import CNNA, misfit
from cnna.spec.errors import BusyError, CnnaError, LateError, UserError

BUSY_SECONDS = 0.1  # after the first failure of a runtime that cannot answer now; twice that after the second


class Dispatcher:
    """Forms batches and sends them. again: batches whose board has failed. closed: no batch is sent again."""

    def __init__(self, boards: Sequence[EngineBoard], catalogue: Catalogue, requests: OpenRequests, log: Log) -> None:
        self._boards, self._catalogue, self._requests, self._log = boards, catalogue, requests, log
        self.again: list[Batch] = []
        self.closed = False
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Sends nothing more."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()

    def pump(self) -> None:
        """Sends batches until no board can take one, or none is due."""
        while any(board.free for board in self._boards) and (self._send_again() or self._send_next()):
            pass
        self._wake()

    def _send_again(self) -> bool:
        """Sends a batch that has failed elsewhere, to another board where one could take it."""
        self.again.sort(key=lambda batch: batch.order if batch.ranges else (0, 0))
        for batch in list(self.again):
            batch.drop_ended()
            served = self._catalogue.models[batch.model].versions[batch.version]
            if not batch.ranges:
                self.again.remove(batch)
                continue
            able = self._able(served, batch)
            others = [board for board in able if board.spec.name not in batch.boards]
            boards = [board for board in others or able if board.free]
            if not boards:
                continue
            self.again.remove(batch)
            board = self._soonest(boards)
            fitting = [one for one in self._choices(board, served, batch.spare) if one.batch >= batch.samples]
            if fitting:
                self._send(board, served, batch, min(fitting, key=lambda one: one.seconds))
            else:  # this board's batches are smaller than those of the one that failed
                self.again += [replace(batch, ranges=[each], boards=list(batch.boards)) for each in _singles(batch)]
            return True
        return False

    def _send_next(self) -> bool:
        """Sends one batch of the version whose first request goes first, if it is due."""
        now = asyncio.get_running_loop().time()
        waiting = [(head.order, served) for served in self._catalogue.served() if (head := served.pending.head)]
        for _, served in sorted(waiting, key=lambda item: item[0]):
            boards = [board for board in self._able(served) if board.free]
            if not boards:
                continue
            board = self._soonest(boards)
            compiled, alike = self._choices(board, served), served.pending.alike()
            due = now >= served.pending.oldest() + self._delay(served)
            choice = choose(alike, compiled, board.idle, due)
            if choice is not None:
                batch = Batch(served.model, served.name, served.pending.take(choice.samples))
                self._send(board, served, batch, choice.compiled)
                return True
        return False

    def _wake(self) -> None:
        """Comes back when a part batch is due that some idle board could take."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        loop = asyncio.get_running_loop()
        due = [
            served.pending.oldest() + self._delay(served)
            for served in self._catalogue.served()
            if served.pending.head and any(board.free and board.idle for board in self._able(served))
        ]
        if due:
            self._timer = loop.call_at(max(min(due), loop.time()), self.pump)

    def _able(self, served: Served, batch: Batch | None = None) -> list[EngineBoard]:
        """Boards that run a version, free or not: its fallback's where no other is ready, or where the batch wants no other."""
        version = version_of(served)
        able = [board for board in self._boards if board.state == "ready" and board.runs(version)]
        own = [board for board in able if board.spec.takes(version.runtime)]
        spare = [board for board in able if board not in own]
        return spare or own if batch is not None and batch.spare else own or spare

    def _choices(self, board: EngineBoard, served: Served, spare: str = "") -> list[Compiled]:
        """What a board may run: a board of all runtimes may have the version's own and its fallback, which is for `spare` alone."""
        runs, runtime = board.runs(version_of(served)), version_of(served).runtime
        own = [one for one in runs if one.runtime == runtime]
        others = [one for one in runs if one.runtime != runtime]
        return others or own if spare else own or others

    def _soonest(self, boards: Sequence[EngineBoard]) -> EngineBoard:
        """An idle board, or else the one with the least outstanding seconds: batches that are said to cost 0 s take a while too."""
        return min(boards, key=lambda board: (not board.idle, board.seconds * board.ratio))

    def _delay(self, served: Served) -> float:
        return self._catalogue.models[served.model].settings.max_delay_us / 1e6

    def _send(self, board: EngineBoard, served: Served, batch: Batch, compiled: Compiled) -> None:
        now = asyncio.get_running_loop().time()
        for each in batch.ranges:
            if each.request.begun is None:
                each.request.begun = now
        if compiled.runtime != version_of(served).runtime:
            for each in batch.ranges:
                each.request.spare = batch.spare or self._why_none(served)
        future = board.run(batch, version_of(served), compiled)
        # Runs before anything else can use the slot: the callbacks of a future follow each other without a gap.
        future.add_done_callback(partial(self._finished, board, served, batch, compiled, now))

    def _why_none(self, served: Served) -> str:
        """Why no board of a version's own runtime can answer."""
        runtime = version_of(served).runtime
        boards = [f"board {one.spec.name} is {one.state}: {one.life.cause}" for one in self._boards if one.spec.takes(runtime)]
        return "; ".join(boards) or f"there is no board for the runtime {runtime}"

    # --- answers ---

    def _finished(
        self, board: EngineBoard, served: Served, batch: Batch, compiled: Compiled, sent: float, future: "asyncio.Future[Answer]"
    ) -> None:
        error = future.exception()
        if error is None and (wrong := misfit(version_of(served).signature.outputs, future.result().outputs, batch.samples)):
            error = BusyError(wrong)  # a remote model may have changed: its neighbours on the board are not at fault
        for each in batch.ranges:
            if each.request.runs is not None:
                seconds, now = 0.0 if error else future.result().seconds, asyncio.get_running_loop().time()
                run = BatchRun(served.model, board.spec.name, compiled, batch.samples, sent, now, seconds, str(error or ""))
                each.request.runs.append(run)
        if error is None:
            self._answered(board, served, batch, compiled, future.result())
        else:
            self._failed(board, served, batch, error)
        self.pump()

    def _answered(self, board: EngineBoard, served: Served, batch: Batch, compiled: Compiled, answer: Answer) -> None:
        board.answered(compiled, answer.seconds)
        if board.spec.takes(version_of(served).runtime):
            self._catalogue.went_well(served)
        served.stats.ran(batch.samples, answer.seconds, compiled.clocks, answer.decode_seconds)
        first, outputs = 0, version_of(served).signature.outputs
        for each in batch.ranges:
            request = each.request
            if not request.future.done():
                request.run_seconds += answer.seconds
                request.decode_seconds += answer.decode_seconds
                if compiled.runtime != CNNA:
                    request.runtime = compiled.runtime
                if request.answer(each, outputs, answer.outputs, first):
                    self._requests.succeed(request)
            first += each.count

    def _failed(self, board: EngineBoard, served: Served, batch: Batch, error: BaseException) -> None:
        """Does what `serve.lifecycle.batches` says: the batch goes elsewhere while its model's `retries` last, or ends."""
        retries, spare = self._catalogue.models[batch.model].settings.retries, len(version_of(served).runtimes()) > 1
        tried = Tried(len(batch.boards), retries, len(batch.ranges), spare, bool(batch.spare), self.closed)
        found = verdict(tried, _outcome(error))
        if found.board:
            board.fail(str(error))
        if found.tries > len(batch.boards):
            batch.boards.append(board.spec.name)
        if found.counts and board.spec.takes(version_of(served).runtime):
            self._catalogue.fault(served, board.spec.name)
        cause = f"failed {len(batch.boards)} times, last: {error}"
        if found.what == CUT:
            self.again += [replace(batch, ranges=[each], boards=list(batch.boards)) for each in batch.ranges]
        elif found.what == END:
            known = found.cause != "board" and isinstance(error, CnnaError)
            end = error if known else BusyError(f"model {batch.model}, version {batch.version}: {cause}")
            for each in batch.ranges:
                self._requests.fail(each.request, cast("CnnaError", end), found.cause)
        elif found.what == SPARE:
            batch.spare, batch.boards = cause, []
            self.again.append(batch)
        elif found.what in (AGAIN, LATER):
            self._try_again(served, batch, found.what == LATER, board.spec.name, str(error))

    def _try_again(self, served: Served, batch: Batch, later: bool, board: str, cause: str) -> None:
        """Sends a batch once more, if anybody still waits for it. later: after a pause, which grows."""
        batch.drop_ended()
        if not batch.ranges:
            return
        served.stats.retries += 1
        if later:
            asyncio.get_running_loop().call_later(BUSY_SECONDS * len(batch.boards), self._once_more, batch)
        else:
            self.again.append(batch)
        self._log("warning", "batch again", model=batch.model, version=batch.version, board=board, cause=cause)

    def _once_more(self, batch: Batch) -> None:
        self.again.append(batch)
        self.pump()


def version_of(served: Served) -> Version:
    """A version that has been read."""
    assert served.version is not None
    return served.version


def _singles(batch: Batch) -> list[SampleRange]:
    """Ranges of one sample each: they fit every board."""
    return [SampleRange(each.request, each.start + number, 1) for each in batch.ranges for number in range(each.count)]


def _outcome(error: BaseException) -> str:
    """How a batch has failed, in the words of `serve.lifecycle.batches`."""
    if isinstance(error, LostError):
        return LOST if error.first else BEHIND
    kinds = ((UserError, DATA), (LateError, LATE), (BusyError, BUSY))
    return next((outcome for kind, outcome in kinds if isinstance(error, kind)), FAULT)
