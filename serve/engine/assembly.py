"""Puts pipelines together: reads them, describes their functions and ONNX pieces, and checks that all steps fit."""

import asyncio

from cnna.serve.engine.served import Models
from cnna.serve.models.pipeline import Pipeline, Step, check_step, input_of, signature_of_pipeline
from cnna.serve.models.repository import Repository
from cnna.serve.models.settings import Settings
from cnna.serve.models.signature import described_signature
from cnna.serve.models.version import Compiled, Version
from cnna.serve.requests.composed import Composition, Part
from cnna.serve.runtimes import function
from cnna.serve.runtimes.describe import described
from cnna.serve.runtimes.interface import Place, Tensor
from cnna.spec.errors import BusyError, CnnaError, UnknownError, UserError

ONLY = "1"  # the version of every pipeline
PIECE = Settings(max_delay_us=0, queue=1_000_000, deadline_ms=3_600_000, max_request_samples=function.MOST_ROWS)


class Assembly:
    """The pipelines of a repository, among its models."""

    def __init__(self, repository: Repository, models: Models) -> None:
        self._repository, self._models = repository, models

    async def checked(self, name: str, pipeline: Pipeline) -> tuple[Composition, list[Version]]:
        """What answers a pipeline's requests, and the versions of its pieces, which nobody has loaded yet.

        UserError, BusyError: a step does not fit, or its model is not there; the line names file and step.
        """
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
            found = await asyncio.to_thread(described, runtime, place)
        except CnnaError as error:
            raise UserError(f"{pipeline.path}: step {step.name}: {error}") from None
        compiled = Compiled(place.folder, runtime, found.batch, 0, found.seconds, runtime, place)
        return Version(model, number, described_signature(model, found), {runtime: (compiled,)}, None, runtime)

    def refusal(self, composition: Composition) -> str | None:
        """Why a step's model takes no requests now; None: all do."""
        reasons = ((part.step.name, self._why(part)) for part in composition.parts)
        return next((f"step {name}: {reason}" for name, reason in reasons if reason is not None), None)

    def _why(self, part: Part) -> str | None:
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
