"""Puts pipelines together: reads them, describes their functions and ONNX pieces, checks that all steps fit, loads the pieces."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from cnna.serve.engine.served import Models, Served, ServedModel, refusal_of
from cnna.serve.lifecycle.versions import Next
from cnna.serve.models.pipeline import Pipeline, Step, check_step, input_of, signature_of_pipeline
from cnna.serve.models.repository import Repository
from cnna.serve.models.settings import Settings
from cnna.serve.models.signature import described_signature
from cnna.serve.models.version import Compiled, Version
from cnna.serve.requests.composed import RUNTIME, Composition, Part, first_refusal
from cnna.serve.runtimes import function
from cnna.serve.runtimes.describe import described
from cnna.serve.runtimes.interface import Place, Tensor
from cnna.spec.errors import BusyError, CnnaError, UnknownError, UserError

ONLY = "1"  # the version of every pipeline
PIECE = Settings(max_delay_us=0, queue=1_000_000, deadline_ms=3_600_000, max_request_samples=function.MOST_ROWS)


@dataclass(frozen=True)
class Steps:
    """What the assembly asks of the catalogue. trial: keeps versions on boards while they are tested. test: tests one there.

    happened: takes a step in a model's life.
    """

    trial: Callable[[Sequence[Version]], AbstractAsyncContextManager[None]]
    test: Callable[[Version], Awaitable[None]]
    happened: Callable[[ServedModel, Next], None]


class Assembly:
    """The pipelines of a repository, among its models."""

    def __init__(self, repository: Repository, models: Models, steps: Steps) -> None:
        self._repository, self._models, self._steps = repository, models, steps

    async def load(self, model: ServedModel) -> str | None:
        """Reads a pipeline's file and puts it in the place of the one that was served; returns why, if it is refused.

        What was served before is served on then. A model that is loaded later may cure it: `needs` has the names.
        """
        try:
            pipeline = await asyncio.get_running_loop().run_in_executor(None, self._repository.pipeline, model.name)
            model.needs = frozenset(pipeline.models())
            composition, pieces = await self._checked(model.name, pipeline)
            async with self._steps.trial(pieces):
                for piece in pieces:
                    await self._steps.test(piece)
                self._take(model, pieces)
        except Exception as error:
            reason = str(refusal_of(error))
            self._steps.happened(model, model.life.refused(ONLY, reason))
            return reason
        except BaseException:
            self._steps.happened(model, model.life.broken_off(ONLY))
            raise
        self._put(model, Version(model.name, ONLY, composition.signature, {}, None, RUNTIME), composition)
        model.needs, model.refusal = frozenset(), lambda: first_refusal(composition, self._why)
        return None

    def pieces(self, pipeline: str) -> list[ServedModel]:
        """The models that are its functions and ONNX pieces."""
        return [model for name, model in self._models.items() if name.startswith(f"{pipeline}:")]

    def _put(self, model: ServedModel, version: Version, composition: Composition | None = None, reason: str = "") -> None:
        """Serves a version of a pipeline, or of a piece of one, and no other. Requests that are open keep theirs."""
        old = model.versions.get(version.name)
        new = Served(model.name, version.name, version, composition=composition)
        if old is not None:
            new.stats = old.stats
        model.versions[version.name] = new
        self._steps.happened(model, model.life.taken(version.name, reason))

    def _take(self, model: ServedModel, pieces: list[Version]) -> None:
        """Serves these pieces, and no others."""
        before = {piece.name: piece for piece in self.pieces(model.name)}
        for version in pieces:
            own = before.pop(version.model, None) or self._models.setdefault(version.model, ServedModel(version.model, PIECE))
            self._put(own, version, reason="the pipeline was loaded again")
        for left in before.values():
            self._steps.happened(left, left.life.unload("the pipeline has no such step any more"))

    async def _checked(self, name: str, pipeline: Pipeline) -> tuple[Composition, list[Version]]:
        """UserError, BusyError: a step does not fit, or its model is not there; the line names file and step."""
        tensors: dict[str, Tensor] = {tensor.name: tensor for tensor in pipeline.inputs}
        parts, pieces = list[Part](), list[Version]()
        for step in pipeline.steps:
            if step.kind == "model":
                part = self._model(pipeline, step)
            else:
                piece = await self._piece(name, pipeline, step, tensors)
                pieces.append(piece)
                part = Part(step, piece.model, piece.name, piece.signature)
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

    async def _piece(self, name: str, pipeline: Pipeline, step: Step, tensors: dict[str, Tensor]) -> Version:
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
        return Version(model, number, described_signature(model, found), {runtime: (compiled,)}, None, runtime)

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
