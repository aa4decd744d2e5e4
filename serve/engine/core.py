"""The engine in one asyncio loop: starts boards and models, and admits requests. `dispatcher` sends batches.

Nothing here waits for a single request; only the steps of a pipeline do.
"""

import asyncio
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from cnna.serve.boards.board_spec import CPU, BoardSpec
from cnna.serve.boards.limits import Limits
from cnna.serve.engine.board import EngineBoard
from cnna.serve.engine.catalogue import Catalogue
from cnna.serve.engine.dispatcher import Dispatcher, version_of
from cnna.serve.engine.served import Served, ServedModel
from cnna.serve.lifecycle.boards import OUT, READY, WITHOUT
from cnna.serve.models.repository import Repository
from cnna.serve.models.settings import Settings
from cnna.serve.models.thresholds import of_request
from cnna.serve.models.version import Version
from cnna.serve.requests import composed
from cnna.serve.requests.budget import RequestBytes
from cnna.serve.requests.composed import Composition
from cnna.serve.requests.cover import seconds_of
from cnna.serve.requests.history import History, Log, silent
from cnna.serve.requests.open_requests import OpenRequests
from cnna.serve.requests.request import BatchRun, Request, Result
from cnna.serve.runtimes.interface import CNNA
from cnna.spec.counts import shown
from cnna.spec.errors import BusyError, CnnaError, DataError, LateError, RunError, UserError

REASONS = 4  # models that the server names if it is not ready
USUAL = 100  # the priority of requests that name none, or 0: those of 1 to 99 go first
CAUSES = ((UserError, "data"), (LateError, "deadline"))  # of failed requests to pipelines; of all other errors a step


class Core:
    """Models of a repository on boards. All methods belong to the loop in which `start` was called."""

    def __init__(self, repository: Repository, specs: Sequence[BoardSpec], limits: Limits | None = None, log: Log = silent) -> None:
        self.repository, self.specs, self.limits = repository, specs, limits or Limits()
        self.history = History(log)
        self.log = log = self.history.note
        self.boards: list[EngineBoard] = []
        self._changed: Callable[[], None] = lambda: self.dispatcher.pump()  # what can be sent is sent
        self.requests = OpenRequests(self.history, self._changed)
        self.catalogue = Catalogue(repository, self.boards, self.requests, log, self.board_for, self._changed)
        self.dispatcher: Dispatcher = Dispatcher(self.boards, self.catalogue, self.requests, log)
        self.budget = RequestBytes()
        self.draining = self.starting = False
        self._numbers = itertools.count()

    # --- its life ---

    async def start(self) -> None:
        """Starts the boards and loads all models. What cannot be loaded says why in `catalogue`; it keeps nothing else back.

        If it is closed meanwhile, no other model is loaded.
        """
        self.starting = True
        self.boards += [self._board(spec) for spec in self.specs]
        for board in self.boards:
            await board.settled.wait()
        for cause in self.repository.ignored():
            self.log("warning", "nothing to load", cause=cause)
        for name in sorted(self.repository.models(), key=self.repository.has_pipeline):  # pipelines need others: they come last
            if self.dispatcher.closed:
                break
            try:
                await self.catalogue.load(name)
            except CnnaError:
                continue  # the model's reason says it
        self.starting = False

    async def board_for(self, runtime: str) -> None:
        """Makes sure that some board takes models of a runtime without an accelerator: one of the kind `cpu`, named after it."""
        if runtime == CNNA or self.dispatcher.closed or any(board.spec.takes(runtime) for board in self.boards):
            return
        name = runtime if self.board(runtime) is None else f"{runtime}.cpu"
        board = self._board(BoardSpec(name, CPU, runtime=runtime))
        self.boards.append(board)
        await board.settled.wait()

    def _board(self, spec: BoardSpec) -> EngineBoard:
        return EngineBoard(spec, self.limits, self.catalogue.wanted, self._changed, self.log, self.catalogue.lost)

    async def drain(self, seconds: float) -> bool:
        """Takes no more requests, and waits until those that are open have ended. Whether they all did in time."""
        self.draining = True
        return await self.requests.wait(seconds)

    async def close(self) -> None:
        """Ends all requests and all workers."""
        self.draining = True
        self.dispatcher.close()
        self.requests.close()
        self.catalogue.close()
        await asyncio.gather(*(board.close() for board in self.boards))

    @property
    def ready(self) -> bool:
        """Whether every model has a version that is ready, or was unloaded; some board is not out; it neither starts nor ends."""
        return self.why_not_ready() is None

    def why_not_ready(self) -> str | None:
        """Why the server as a whole is not ready, in a line that names the first few models; None: it is."""
        if self.draining or self.starting:
            return "the server is ending" if self.draining else "the server is starting"
        if not self.catalogue.models and all(board.state == OUT for board in self.boards):
            boards = [f"{board.spec.name}: {board.life.cause}" for board in self.boards]
            return f"no board can answer: {'; '.join(boards) or 'there is none'}"
        found = [reason for model in self.catalogue.models.values() if (reason := self._missing(model)) is not None]
        more = f"; and {len(found) - REASONS} more models" if len(found) > REASONS else ""
        return "; ".join(found[:REASONS]) + more if found else None

    def _missing(self, model: ServedModel) -> str | None:
        """What a model lacks that is to be served; None: nothing."""
        if model.life.unloaded:
            return None
        if model.default is None:
            return f"model {model.name} has no version that is ready: {model.why()}"
        return None if self._alive(model.default) else self._no_board(model.default)

    def board(self, name: str) -> EngineBoard | None:
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
        runs: list[BatchRun] | None = None,
        detect: Mapping[str, Any] | None = None,
        scale_seconds: float = 0.0,
    ) -> Request:
        """Admits a request; its `future` ends in a `Result` or an error. It is bound to its version from here on.

        timeout_us: an earlier deadline than the model's. outputs: those that the client wants; all are computed. within: it is part
        of a request that was admitted. runs: takes what happens to its batches, for a trace. detect: what counts as a detection in
        place of model.yaml's `least`, `overlap` and `labels`. scale_seconds: that its pictures took. DataError: inputs or outputs
        do not fit. BusyError: the queue is full, or nothing is ready. UnknownError: there is no such model or version.
        """
        served = self._chosen(model, version, sequence_id or request_id, within)
        signature, settings = version_of(served).signature, self.catalogue.models[model].settings
        there = [tensor.name for tensor in signature.outputs]
        if unknown := [name for name in outputs if name not in there]:
            raise DataError(f"model {model} has no output {shown(unknown[0])}; there are {', '.join(there)}")
        wanted = of_request(model, signature, settings.wanted, detect or {})
        samples, arrays = signature.request(inputs)
        self._check_size(version_of(served), settings, samples)
        self._check_room(served, settings, samples)
        loop = asyncio.get_running_loop()
        now, seconds = loop.time(), settings.deadline_ms / 1e3
        deadline = now + (min(seconds, timeout_us / 1e6) if timeout_us > 0 else seconds)
        future: asyncio.Future[Result] = loop.create_future()
        order, stats = (priority or USUAL, next(self._numbers)), served.stats
        own: dict[str, Any] = {"alone": signature.alone, "within": within, "labels": version_of(served).labels}
        own |= {"detects": signature.detects, "detect": wanted, "scale_seconds": scale_seconds}
        request = Request(model, served.name, arrays, samples, order, now, deadline, future, stats, request_id, runs, **own)
        self.requests.add(request, self._held(served))
        if served.composition is None:
            served.pending.add(request)
            self.dispatcher.pump()
        else:
            task = loop.create_task(self._compose(served.composition, request))
            future.add_done_callback(lambda _: task.cancel())
        return request

    def _chosen(self, model: str, version: str | None, identity: str, within: bool) -> Served:
        """The version of a request. Its errors are those of `admit`."""
        if self.starting and model not in self.catalogue.models:
            raise BusyError("the server is starting")
        one = self.catalogue.model(model)
        if self.draining and not within:
            raise BusyError("the server is ending")
        return one.chosen(version, identity, within)

    def _held(self, served: Served) -> Callable[[], None]:
        """Keeps a version for a request, and the pieces of its own that a pipeline may ask. To be called when it has ended."""
        parts = () if served.composition is None else served.composition.parts
        own = ((self.catalogue.models[part.model], part.version) for part in parts if part.step.kind != "model")
        pieces = [model.versions[version] for model, version in own if version]

        def count(number: int) -> None:
            served.open += number
            for piece in pieces:
                piece.held += number

        count(1)
        return partial(count, -1)

    def _check_size(self, version: Version, settings: Settings, samples: int) -> None:
        """DataError: a request has too many samples."""
        most, why = settings.max_request_samples, "samples (max_request_samples in model.yaml)"
        if version.signature.alone and version.whole_samples() < most:
            most, why = version.whole_samples(), "samples in one batch, which cannot be cut; send several requests"
        if samples > most:
            raise DataError(f"model {version.model}: {samples} samples: a request has at most {most} {why}")

    def _check_room(self, served: Served, settings: Settings, samples: int) -> None:
        """BusyError: no board can answer, or too many samples wait; of a pipeline, those of all its open requests count."""
        if not self._alive(served):
            raise BusyError(self._no_board(served))
        open_samples = (one.samples for one in self.requests.of(served.model, served.name))
        waiting = served.pending.samples if served.composition is None else sum(open_samples)
        if waiting and waiting + samples > settings.queue:
            served.stats.failed["queue full"] += 1
            self.history.refused()
            full = f"model {served.model}: its queue of {settings.queue} samples is full"
            raise BusyError(full, self._wait_seconds(served), True)

    async def _compose(self, composition: Composition, request: Request) -> None:
        """Answers a request to a pipeline."""
        request.begun = asyncio.get_running_loop().time()
        try:
            await composed.answer(composition, request, self._ask)
            self.requests.succeed(request)
        except CnnaError as error:
            self.requests.fail(request, error, next((cause for kind, cause in CAUSES if isinstance(error, kind)), "step"))
        except Exception as error:
            own = RunError(f"model {request.model}: internal error: {type(error).__name__}: {error}")
            self.requests.fail(request, own, "internal")

    async def _ask(
        self, model: str, inputs: Mapping[str, NDArray[Any]], version: str | None, request: Request, whole: bool
    ) -> list[Result]:
        """The answers to a step of a request, in parts that its model takes unless it is `whole`."""
        samples = len(next(iter(inputs.values())))
        most = self.catalogue.model(model).settings.max_request_samples
        left = request.deadline - asyncio.get_running_loop().time()
        more: dict[str, Any] = {"request_id": request.request_id, "priority": request.order[0], "runs": request.runs}
        more |= {"timeout_us": max(1, int(left * 1e6)), "within": True}
        asked: list[Request] = []
        try:
            for part in [slice(None)] if whole else composed.bounds(samples, most):
                given = {name: array[part] for name, array in inputs.items()}
                asked.append(self.admit(model, given, version, **more))
            return [await one.future for one in asked]
        finally:
            for one in asked:
                one.future.cancel()

    def _alive(self, served: Served) -> bool:
        """Whether a board that is not out may answer. A pipeline's steps have boards of their own."""
        if served.composition is not None:
            defaults = [(part, self.catalogue.model(part.model)) for part in served.composition.parts]
            parts = [model.versions.get(part.version) if part.version else model.default for part, model in defaults]
            return all(part is not None and self._alive(part) for part in parts)
        return any(self._may(board, version_of(served)) for board in self.boards)

    def _may(self, board: EngineBoard, version: Version) -> bool:
        """Whether a board has a version, or may have it when it comes back: its configuration may be unknown until then."""
        takes = any(map(board.spec.takes, version.runtimes())) and board.held.get(version) != WITHOUT
        return takes and board.state != OUT and (bool(board.fitting(version)) or board.state != READY)

    def _no_board(self, served: Served) -> str:
        """Why no board will answer for a version."""
        reasons = list[str]()
        for board in self.boards:
            without = board.held.get(version_of(served)) == WITHOUT
            why = board.life.cause if board.state == OUT else "is without this version" if without else "runs other models"
            reasons.append(f"{board.spec.name}: {why}")
        return f"model {served.model}: no board can answer: {'; '.join(reasons)}"

    def _wait_seconds(self, served: Served) -> float:
        """In how many seconds the queue will be shorter, as predicted. A fallback counts where nothing else is there."""
        version = version_of(served)
        there = [(board, one) for board in self.boards for one in board.runs(version)]
        usual = [(board, one) for board, one in there if one.runtime == version.runtime] or there
        boards = list(dict.fromkeys(board for board, _ in usual))
        if not boards:
            return 1.0
        compiled = [one for board, one in usual if board is boards[0]]
        return max(1.0, math.ceil(seconds_of(served.pending.samples, compiled) * boards[0].ratio / len(boards)))
