"""The engine in one asyncio loop: admits requests, sends batches to the board that will be free first, tries again elsewhere.

`pump` is called whenever something has changed: a request has come, a batch has been answered, a board or a version is ready, a
sample has waited long enough. It sends what can be sent, and returns. Nothing here waits for a single request.
"""

import asyncio
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from numpy.typing import NDArray

from cnna.serve.boards.board_spec import CPU, BoardSpec
from cnna.serve.boards.process import Answer, LostError
from cnna.serve.engine import composed
from cnna.serve.engine.board import Board, Limits, Log
from cnna.serve.engine.budget import Budget
from cnna.serve.engine.catalogue import Catalogue
from cnna.serve.engine.composed import Composition
from cnna.serve.engine.cover import choose, seconds_of
from cnna.serve.engine.history import History
from cnna.serve.engine.request import Batch, Piece, Request, Result, Run
from cnna.serve.engine.served import Served
from cnna.serve.models.repository import Repository
from cnna.serve.models.version import Compiled, Version
from cnna.serve.runtimes.interface import CNNA
from cnna.spec.errors import BusyError, CnnaError, DataError, LateError, RunError, UserError

BUSY_SECONDS = 0.1  # after the first failure of a runtime that cannot answer now; twice that after the second
USUAL = 100  # the priority of requests that name none, or 0: those of 1 to 99 go first


def silent(level: str, event: str, **more: Any) -> None:
    """A log that keeps nothing."""


class Core:
    """Models of a repository on boards. All methods belong to the loop in which `start` was called."""

    def __init__(self, repository: Repository, specs: Sequence[BoardSpec], limits: Limits | None = None, log: Log = silent) -> None:
        self.repository, self.specs, self.limits = repository, specs, limits or Limits()
        self.history = History(log)
        self.log = log = self.history.note
        self.boards: list[Board] = []
        self.catalogue = Catalogue(repository, self.boards, self.pump, log, self.board_for)
        self.budget = Budget()
        self.draining = False
        self.starting = False
        self._numbers = itertools.count()
        self._again: list[Batch] = []  # batches whose board has failed
        self.open_requests: set[Request] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._closed = False

    # --- its life ---

    async def start(self) -> None:
        """Starts the boards and loads all models. What cannot be loaded says why in `catalogue`; it keeps nothing else back."""
        self.starting = True
        self.boards += [self._board(spec) for spec in self.specs]
        for board in self.boards:
            await board.settled.wait()
        for name in sorted(self.repository.models(), key=self.repository.has_pipeline):  # pipelines need others: they come last
            try:
                await self.catalogue.load(name)
            except UserError:
                continue  # the model's reason says it
        self.starting = False

    async def board_for(self, runtime: str) -> None:
        """Makes sure that some board takes models of a runtime without an accelerator: one of the kind `cpu`, named after it."""
        if runtime == CNNA or self._closed or any(board.spec.takes(runtime) for board in self.boards):
            return
        name = runtime if self.board(runtime) is None else f"{runtime}.cpu"
        board = self._board(BoardSpec(name, CPU, runtime=runtime))
        self.boards.append(board)
        await board.settled.wait()

    def _board(self, spec: BoardSpec) -> Board:
        return Board(spec, self.limits, self.catalogue.wanted, self.pump, self.log, self._lost)

    def _lost(self, board: Board, version: Version, reason: str) -> None:
        """A board came back without a version. If none is left that has it, requests that are bound to it can have no answer."""
        served = self.catalogue.lost(board, version, reason)
        if served is None:
            return
        for request in [one for one in self.open_requests if (one.model, one.version) == (served.model, served.name)]:
            self._end(request, BusyError(f"model {served.model}, version {served.name} is unavailable: {reason}"), "lost")

    async def drain(self, seconds: float) -> bool:
        """Takes no more requests, and waits until those that are open have ended. Whether they all did in time."""
        self.draining = True
        self._empty.clear()
        if self.open_requests:
            try:
                await asyncio.wait_for(self._empty.wait(), seconds)
            except asyncio.TimeoutError:
                return False
        return True

    async def close(self) -> None:
        """Ends all requests and all workers."""
        self.draining = self._closed = True
        for request in list(self.open_requests):
            self._end(request, BusyError("the server is closed"), "closed")
        self.catalogue.close()
        await asyncio.gather(*(board.close() for board in self.boards))
        if self._timer is not None:
            self._timer.cancel()

    @property
    def ready(self) -> bool:
        """Whether every model has a version that is ready, or was unloaded; some board is not out; it neither starts nor ends."""
        models = self.catalogue.models.values()
        return bool(
            not (self.draining or self.starting)
            and (models or self._alive(None))
            and all(model.unloaded or (model.default is not None and self._alive(model.default)) for model in models)
        )

    def board(self, name: str) -> Board | None:
        """The board of that name."""
        return next((board for board in self.boards if board.spec.name == name), None)

    # --- admission ---

    def admit(
        self,
        model: str,
        inputs: Mapping[str, NDArray[Any]],
        version: str | None = None,
        *,
        request_id: str = "",
        sequence_id: str = "",
        priority: int = 0,
        timeout_us: int = 0,
        outputs: Sequence[str] = (),
        within: bool = False,
        runs: list[Run] | None = None,
    ) -> Request:
        """Admits a request; its `future` ends in a `Result` or an error. It is bound to its version from here on.

        timeout_us: an earlier deadline than the model's. outputs: those that the client wants; all are computed. within: it is part
        of a request that was admitted. runs: takes what happens to its batches, for a trace. DataError: inputs or outputs do not
        fit. BusyError: the queue is full, or nothing is ready. UnknownError: there is no such model or version.
        """
        if self.starting and model not in self.catalogue.models:
            raise BusyError("the server is starting")
        one = self.catalogue.model(model)
        settings = one.settings
        if self.draining and not within:
            raise BusyError("the server is ending")
        served = one.chosen(version, sequence_id or request_id)
        assert served.version is not None
        there = [tensor.name for tensor in served.version.signature.outputs]
        if unknown := [name for name in outputs if name not in there]:
            raise DataError(f"model {model} has no output {unknown[0]!r}; there are {', '.join(there)}")
        samples, arrays = served.version.signature.request(inputs)
        if samples > settings.max_request_samples:
            most = f"a request has at most {settings.max_request_samples} samples (max_request_samples in model.yaml)"
            raise DataError(f"model {model}: {samples} samples: {most}")
        if not self._alive(served):
            boards = [board for board in self.boards if self._takes(board, served)]
            raise BusyError("all boards are out: " + "; ".join(f"{board.spec.name}: {board.cause}" for board in boards))
        waiting = self._waiting(served)
        if waiting and waiting + samples > settings.queue:
            served.stats.failed["queue full"] += 1
            self.history.refused()
            raise BusyError(f"model {model}: its queue of {settings.queue} samples is full", self._wait_seconds(served), True)
        loop = asyncio.get_running_loop()
        now, seconds = loop.time(), settings.deadline_ms / 1e3
        deadline = now + (min(seconds, timeout_us / 1e6) if timeout_us > 0 else seconds)
        future: asyncio.Future[Result] = loop.create_future()
        order = priority or USUAL, next(self._numbers)
        alone = served.version.signature.alone
        request = Request(
            model, served.name, arrays, samples, order, now, deadline, future, request_id, runs, alone=alone, within=within
        )
        served.open += 1
        self.open_requests.add(request)
        timer = loop.call_at(deadline, self._late, request)
        future.add_done_callback(lambda _: self._ended(served, request, timer))
        if served.composition is None:
            served.pending.add(request)
            self.pump()
        else:
            task = loop.create_task(self._compose(served, served.composition, request))
            future.add_done_callback(lambda _: task.cancel())
        return request

    async def _compose(self, served: Served, composition: Composition, request: Request) -> None:
        """Answers a request to a pipeline."""
        request.begun = asyncio.get_running_loop().time()
        try:
            await composed.answer(composition, request, self._ask)
            self._succeed(served, request)
        except UserError as error:
            self._end(request, error, "data")
        except LateError as error:
            self._end(request, error, "deadline")
        except CnnaError as error:
            self._end(request, error, "step")
        except Exception as error:
            self._end(request, RunError(f"model {request.model}: internal error: {type(error).__name__}: {error}"), "internal")

    async def _ask(
        self, model: str, inputs: Mapping[str, NDArray[Any]], version: str | None, request: Request, whole: bool
    ) -> list[Result]:
        """The answers to a step of a request, in parts that its model takes unless it is `whole`."""
        samples = len(next(iter(inputs.values())))
        most = self.catalogue.model(model).settings.max_request_samples
        left = request.deadline - asyncio.get_running_loop().time()
        more: dict[str, Any] = {
            "request_id": request.request_id,
            "priority": request.order[0],
            "timeout_us": max(1, int(left * 1e6)),
            "runs": request.runs,
        }
        asked: list[Request] = []
        try:
            for part in [slice(None)] if whole else composed.bounds(samples, most):
                given = {name: array[part] for name, array in inputs.items()}
                asked.append(self.admit(model, given, version, within=True, **more))
            return [await one.future for one in asked]
        finally:
            for one in asked:
                one.future.cancel()

    def _waiting(self, served: Served) -> int:
        """Samples that wait; of a pipeline, those of all its open requests."""
        if served.composition is None:
            return served.pending.samples
        return sum(one.samples for one in self.open_requests if (one.model, one.version) == (served.model, served.name))

    def _alive(self, served: Served | None) -> bool:
        """Whether a board is not out, of those for a version or of all. A pipeline's steps have boards of their own."""
        if served is not None and served.composition is not None:
            defaults = [(part, self.catalogue.model(part.model)) for part in served.composition.parts]
            parts = [model.versions.get(part.version) if part.version else model.default for part, model in defaults]
            return all(part is not None and self._alive(part) for part in parts)
        return any(board.state != "out" and (served is None or self._takes(board, served)) for board in self.boards)

    def _takes(self, board: Board, served: Served) -> bool:
        return any(board.spec.takes(runtime) for runtime in self._version(served).runtimes())

    def _wait_seconds(self, served: Served) -> float:
        """In how many seconds the queue will be shorter, as predicted."""
        boards = [board for board in self.boards if served.version is not None and board.runs(served.version)]
        if not boards or served.version is None:
            return 1.0
        seconds = seconds_of(served.pending.samples, boards[0].runs(served.version)) * boards[0].ratio / len(boards)
        return max(1.0, math.ceil(seconds))

    # --- the dispatcher ---

    def pump(self) -> None:
        """Sends batches until no board can take one, or none is due."""
        while any(board.free for board in self.boards) and (self._send_again() or self._send_next()):
            pass
        self._wake()

    def _send_again(self) -> bool:
        """Sends a batch that has failed elsewhere, to another board where one could take it."""
        self._again.sort(key=lambda batch: batch.order if batch.pieces else (0, 0))
        for batch in list(self._again):
            batch.drop_ended()
            served = self.catalogue.models[batch.model].versions[batch.version]
            if not batch.pieces:
                self._again.remove(batch)
                continue
            able = self._able(served, batch)
            others = [board for board in able if board.spec.name not in batch.boards]
            boards = [board for board in others or able if board.free]
            if boards:
                board = self._soonest(boards)
                fitting = [one for one in self._choices(board, served, batch.spare) if one.batch >= batch.samples]
                if not fitting:  # this board's batches are smaller than those of the one that failed
                    self._again.remove(batch)
                    self._again += [replace(batch, pieces=[piece], boards=list(batch.boards)) for piece in _singles(batch)]
                    return True
                self._again.remove(batch)
                self._send(board, served, batch, min(fitting, key=lambda one: one.seconds))
                return True
        return False

    def _send_next(self) -> bool:
        """Sends one batch of the version whose first request goes first, if it is due."""
        now = asyncio.get_running_loop().time()
        waiting = [(head.order, served) for served in self.catalogue.served() if (head := served.pending.head)]
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
            for served in self.catalogue.served()
            if served.pending.head and any(board.free and board.idle for board in self._able(served))
        ]
        if due:
            self._timer = loop.call_at(max(min(due), loop.time()), self.pump)

    def _able(self, served: Served, batch: Batch | None = None) -> list[Board]:
        """Boards that run a version, free or not: its fallback's where no other is ready, or where the batch wants no other."""
        version = self._version(served)
        able = [board for board in self.boards if board.state == "ready" and board.runs(version)]
        own = [board for board in able if board.spec.takes(version.runtime)]
        spare = [board for board in able if board not in own]
        return spare or own if batch is not None and batch.spare else own or spare

    def _choices(self, board: Board, served: Served, spare: str = "") -> list[Compiled]:
        """What a board may run: a board of all runtimes may have the version's own and its fallback, which is for `spare` alone."""
        runs, runtime = board.runs(self._version(served)), self._version(served).runtime
        own = [one for one in runs if one.runtime == runtime]
        others = [one for one in runs if one.runtime != runtime]
        return others or own if spare else own or others

    def _soonest(self, boards: Sequence[Board]) -> Board:
        """The board with the least outstanding seconds."""
        return min(boards, key=lambda board: board.seconds * board.ratio)

    def _delay(self, served: Served) -> float:
        return self.catalogue.models[served.model].settings.max_delay_us / 1e6

    def _version(self, served: Served) -> Version:
        assert served.version is not None
        return served.version

    def _send(self, board: Board, served: Served, batch: Batch, compiled: Compiled) -> None:
        now = asyncio.get_running_loop().time()
        for piece in batch.pieces:
            if piece.request.begun is None:
                piece.request.begun = now
        if compiled.runtime != self._version(served).runtime:
            for piece in batch.pieces:
                piece.request.spare = batch.spare or self._why_none(served)
        future = board.run(batch, self._version(served), compiled)
        # Runs before anything else can use the slot: the callbacks of a future follow each other without a gap.
        future.add_done_callback(partial(self._finished, board, served, batch, compiled, now))

    def _why_none(self, served: Served) -> str:
        """Why no board of a version's own runtime can answer."""
        runtime = self._version(served).runtime
        boards = [f"board {one.spec.name} is {one.state}: {one.cause}" for one in self.boards if one.spec.takes(runtime)]
        return "; ".join(boards) or f"there is no board for the runtime {runtime}"

    # --- answers ---

    def _finished(
        self, board: Board, served: Served, batch: Batch, compiled: Compiled, sent: float, future: "asyncio.Future[Answer]"
    ) -> None:
        error = future.exception()
        for piece in batch.pieces:
            if piece.request.runs is not None:
                seconds = future.result().seconds if error is None else 0.0
                run = Run(
                    served.model,
                    board.spec.name,
                    compiled,
                    batch.samples,
                    sent,
                    asyncio.get_running_loop().time(),
                    seconds,
                    str(error or ""),
                )
                piece.request.runs.append(run)
        if error is None:
            self._answered(board, served, batch, compiled, future.result())
        elif isinstance(error, UserError) and len(batch.pieces) > 1:  # one request's data is at fault: each goes by itself
            self._again += [replace(batch, pieces=[piece], boards=list(batch.boards)) for piece in batch.pieces]
        elif isinstance(error, UserError):
            self._end(batch.pieces[0].request, error, "data")
        elif isinstance(error, LateError):
            for piece in batch.pieces:
                self._end(piece.request, error, "deadline")
        else:
            self._failed(board, served, batch, error)
        self.pump()

    def _answered(self, board: Board, served: Served, batch: Batch, compiled: Compiled, answer: Answer) -> None:
        board.answered(compiled, answer.seconds)
        if board.spec.takes(self._version(served).runtime):
            self.catalogue.went_well(served)
        served.stats.ran(batch.samples, answer.seconds, compiled.clocks)
        first, outputs = 0, self._version(served).signature.outputs
        for piece in batch.pieces:
            request = piece.request
            if not request.future.done():
                request.run_seconds += answer.seconds
                if compiled.runtime != CNNA:
                    request.runtime = compiled.runtime
                if request.answer(piece, outputs, answer.outputs, first):
                    self._succeed(served, request)
            first += piece.count

    def _failed(self, board: Board, served: Served, batch: Batch, error: BaseException) -> None:
        """The board is at fault, or the version on it: the batch goes elsewhere while its model's `retries` last.

        BusyError: neither is, but the runtime cannot answer now. The batch is tried again after a pause.
        """
        busy = isinstance(error, BusyError)
        if not isinstance(error, LostError) and not busy:
            board.fail(str(error))
        if self._closed:
            return
        if not isinstance(error, LostError) or error.first:  # a batch that waited behind another one has not failed
            batch.boards.append(board.spec.name)
            if not busy and board.spec.takes(self._version(served).runtime):
                self.catalogue.fault(served, board.spec.name)
        batch.drop_ended()
        if len(batch.boards) > self.catalogue.models[batch.model].settings.retries:
            cause = f"failed {len(batch.boards)} times, last: {error}"
            if not batch.spare and len(self._version(served).runtimes()) > 1:
                batch.spare, batch.boards = cause, []
                self._again.append(batch)
                return
            for piece in batch.pieces:
                self._end(piece.request, BusyError(f"model {batch.model}, version {batch.version}: {cause}"), "board")
        elif batch.pieces:
            served.stats.retries += 1
            if busy:
                asyncio.get_running_loop().call_later(BUSY_SECONDS * len(batch.boards), self._once_more, batch)
            else:
                self._again.append(batch)
            self.log("warning", "batch again", model=batch.model, version=batch.version, board=board.spec.name, cause=str(error))

    def _once_more(self, batch: Batch) -> None:
        self._again.append(batch)
        self.pump()

    def _succeed(self, served: Served, request: Request) -> None:
        now, stats = asyncio.get_running_loop().time(), served.stats
        waited = (request.begun or now) - request.admitted
        stats.succeeded += 1
        if request.spare:
            stats.fallbacks[request.runtime] += 1
            known = {"request_id": request.request_id, "model": request.model, "version": request.version}
            self.log("warning", "answered by the fallback", runtime=request.runtime, cause=request.spare, **known)
        stats.samples += request.samples
        stats.wait_seconds += waited
        stats.run_seconds += request.run_seconds
        stats.total_seconds += now - request.admitted
        stats.last = time.time()
        self.history.answered(request.model, request.samples, request.within)
        seconds = request.run_seconds
        request.future.set_result(Result(request.model, request.version, request.outputs, waited, seconds, request.runtime))

    def _late(self, request: Request) -> None:
        seconds = request.deadline - request.admitted
        doing = "waited for a board" if request.begun is None else "ran"
        error = LateError(f"model {request.model}: no answer within its deadline of {seconds:g} s; it {doing}")
        self._end(request, error, "deadline")
        self.pump()

    def _end(self, request: Request, error: CnnaError, cause: str) -> None:
        """Fails a request as a whole; what other batches answer of it is dropped."""
        if request.future.done():
            return
        stats = self.catalogue.models[request.model].versions[request.version].stats
        stats.failed[cause] += 1
        if not request.within:
            self.history.failed()
        stats.failed_seconds += asyncio.get_running_loop().time() - request.admitted
        more = {"request_id": request.request_id, "model": request.model, "version": request.version}
        self.log("error", "request failed", cause=str(error), **more)
        request.future.set_exception(error)
        request.future.exception()  # a client that has gone is not told

    def _ended(self, served: Served, request: Request, timer: asyncio.TimerHandle) -> None:
        timer.cancel()
        served.open -= 1
        self.open_requests.discard(request)
        if not self.open_requests:
            self._empty.set()


def _singles(batch: Batch) -> list[Piece]:
    """Pieces of one sample each: they fit every board."""
    return [Piece(piece.request, piece.start + number, 1) for piece in batch.pieces for number in range(piece.count)]
