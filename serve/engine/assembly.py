"""Puts pipelines together: reads them, describes their functions and ONNX pieces, checks that all steps fit, loads the pieces."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cnna.serve.engine.composed import RUNTIME, Composition, Part, first_refusal
from cnna.serve.engine.served import BROKEN_OFF, READY, UNAVAILABLE, Models, Served, ServedModel, refusal_of
from cnna.serve.models.pipeline import Pipeline, Step, check_step, input_of, signature_of_pipeline
from cnna.serve.models.repository import Repository
from cnna.serve.models.settings import Settings
from cnna.serve.models.signature import described_signature
from cnna.serve.models.version import Compiled, Version
from cnna.serve.runtimes import function
from cnna.serve.runtimes.describe import described
from cnna.serve.runtimes.interface import Place, Tensor
from cnna.spec.errors import BusyError, CnnaError, UnknownError, UserError

ONLY = "1"  # the version of every pipeline
PIECE = Settings(max_delay_us=0, queue=1_000_000, deadline_ms=3_600_000, max_request_samples=function.MOST_ROWS)


@dataclass(frozen=True)
class Steps:
    """What the assembly asks of the catalogue. test: loads a version on boards. unload: frees it there at once.

    retire: frees a piece that was served, for a reason, once the pipeline that it belonged to has answered its open requests.
    """

    test: Callable[[Version], Awaitable[None]]
    unload: Callable[[Version], Awaitable[None]]
    retire: Callable[[Served, str, Served | None], None]


class Assembly:
    """The pipelines of a repository, among its models."""

    def __init__(self, repository: Repository, models: Models, steps: Steps) -> None:
        self._repository, self._models, self._steps = repository, models, steps

    async def load(self, model: ServedModel) -> list[Served]:
        """Reads a pipeline's file and puts it in the place of the one that was served; returns it if it is refused.

        What was served before is served on then. A model that is loaded later may cure it: `needs` has the names.
        """
        old = model.versions.get(ONLY)
        try:
            pipeline = await asyncio.get_running_loop().run_in_executor(None, self._repository.pipeline, model.name)
            model.needs = frozenset(pipeline.models())
            composition, pieces = await self._checked(model.name, pipeline)
            await self._test([piece.version for piece in pieces if piece.version is not None])
        except Exception as error:
            return [self._refused(model, str(refusal_of(error)))]
        except asyncio.CancelledError:
            self._refused(model, BROKEN_OFF)
            raise
        self._take(model, pieces)
        version = Version(model.name, ONLY, composition.signature, {}, None, RUNTIME)
        new = Served(model.name, ONLY, version, READY, composition=composition)
        if old is not None:
            new.stats = old.stats
        model.versions[ONLY] = model.default = new
        model.needs, model.refusal = frozenset(), lambda: first_refusal(composition, self._why)
        return []

    def pieces(self, pipeline: str) -> list[ServedModel]:
        """The models that are its functions and ONNX pieces."""
        return [model for name, model in self._models.items() if name.startswith(f"{pipeline}:")]

    def _refused(self, model: ServedModel, reason: str) -> Served:
        """A pipeline that is not served. It takes no place of one that is."""
        old, refused = model.versions.get(ONLY), Served(model.name, ONLY, state=UNAVAILABLE, reason=reason)
        if old is None or old.state != READY:
            model.versions[ONLY] = refused
        return refused

    async def _test(self, pieces: list[Version]) -> None:
        """Loads all pieces on boards, or none."""
        try:
            for piece in pieces:
                await self._steps.test(piece)
        except (Exception, asyncio.CancelledError):
            for piece in pieces:
                await self._steps.unload(piece)
            raise

    def _take(self, model: ServedModel, pieces: list[Served]) -> None:
        """Serves these pieces, and no others. Requests that are open keep those with which they have begun."""
        whole = model.versions.get(ONLY)
        before = {piece.name: piece for piece in self.pieces(model.name)}
        for served in pieces:
            own = before.pop(served.model, None) or self._models.setdefault(served.model, ServedModel(served.model, PIECE))
            for old in list(own.versions.values()):
                self._steps.retire(old, "the pipeline was loaded again", whole)
            served.state = READY
            own.versions[served.name] = own.default = served
            own.unloaded = False
        for left in before.values():
            left.default, left.unloaded = None, True
            for old in left.versions.values():
                self._steps.retire(old, "the pipeline has no such step any more", whole)

    async def _checked(self, name: str, pipeline: Pipeline) -> tuple[Composition, list[Served]]:
        """UserError, BusyError: a step does not fit, or its model is not there; the line names file and step."""
        tensors: dict[str, Tensor] = {tensor.name: tensor for tensor in pipeline.inputs}
        parts, pieces = list[Part](), list[Served]()
        for step in pipeline.steps:
            if step.kind == "model":
                part = self._model(pipeline, step)
            else:
                piece = await self._piece(name, pipeline, step, tensors)
                pieces.append(piece)
                assert piece.version is not None
                part = Part(step, piece.model, piece.name, piece.version.signature)
            check_step(pipeline, step, part.signature, tensors)
            tensors |= {f"{step.name}.{tensor.name}": tensor for tensor in part.signature.outputs}
            parts.append(part)
        return Composition(pipeline, signature_of_pipeline(name, pipeline, tensors), tuple(parts)), pieces

    def _model(self, pipeline: Pipeline, step: Step) -> Part:
        where = f"{pipeline.path}: step {step.name}"
        model = self._models.get(step.what)
        if model is None or self._repository.has_pipeline(step.what):
            others = ", ".join(name for name in self._models if ":" not in name) or "none"
            why = "is a pipeline too; name its steps here" if model is not None else f"is not there; there are {others}"
            raise UserError(f"{where}: model {step.what} {why}")
        try:
            served = model.chosen(step.version, "")
        except BusyError as error:
            raise BusyError(f"{where}: {error}") from None
        except UnknownError as error:
            raise UserError(f"{where}: {error}") from None
        assert served.version is not None
        return Part(step, step.what, step.version, served.version.signature)

    async def _piece(self, name: str, pipeline: Pipeline, step: Step, tensors: dict[str, Tensor]) -> Served:
        """A function or an ONNX file, as a model of its own."""
        model = f"{name}:{step.name}"
        there = self._models[model].versions if model in self._models else {}
        number = str(max(map(int, there), default=0) + 1)
        if step.kind == "function":
            runtime, options = function.NAME, function.options_of(step.what, input_of(pipeline, step, tensors), step.outputs)
        else:
            runtime, options = "onnxruntime", {"file": step.what}
        place = Place(model, number, pipeline.path.parent, options)
        try:
            found = await asyncio.get_running_loop().run_in_executor(None, described, runtime, place)
        except CnnaError as error:
            raise UserError(f"{pipeline.path}: step {step.name}: {error}") from None
        compiled = Compiled(place.folder, runtime, found.batch, 0, found.seconds, runtime, place)
        version = Version(model, number, described_signature(model, found), {runtime: (compiled,)}, None, runtime)
        return Served(model, number, version)

    def _why(self, part: Part) -> str | None:
        """Why a step's model takes no requests now."""
        if part.model not in self._models:
            return f"there is no model {part.model!r}"
        try:
            served = self._models[part.model].chosen(part.version, "")
        except CnnaError as error:
            return str(error)
        assert served.version is not None
        now, then = served.version.signature, part.signature
        if (now.inputs, now.outputs) != (then.inputs, then.outputs):
            changed = "takes or gives other tensors than when the pipeline was loaded; load it again"
            return f"model {part.model}, version {served.name} {changed}"
        return None
