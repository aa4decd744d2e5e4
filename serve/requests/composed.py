"""Models that are made of others: their steps are checked when they are loaded, and asked in order for each request.

A step that is a model is asked as any client would ask it, but with the request's id, priority and what is left of its deadline. A
function or an ONNX piece is a model of its own, called `PIPELINE:STEP`, which a board of the kind `cpu` runs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cnna.serve.models.labels import Labels
from cnna.serve.models.pipeline import Pipeline, Step
from cnna.serve.models.signature import Signature
from cnna.serve.requests.request import Request, Result
from cnna.serve.runtimes.interface import CNNA, Arrays, error_of, name_of
from cnna.spec.errors import BusyError, CnnaError

RUNTIME = "pipeline"
Ask = Callable[[str, Arrays, str | None, Request, bool], Awaitable[Sequence[Result]]]  # model, inputs, version, of what, whole


@dataclass(frozen=True)
class Part:
    """A step that was checked: the model that it asks, by that name, and what this one takes and gives.

    version: of a piece, the one that was loaded for this composition; of a model, pipeline.yaml's.
    """

    step: Step
    model: str
    version: str | None
    signature: Signature


@dataclass(frozen=True)
class Composition:
    """A pipeline whose steps fit each other. parts: each behind those that it waits for."""

    pipeline: Pipeline
    signature: Signature
    parts: tuple[Part, ...]


async def answer(composition: Composition, request: Request, ask: Ask) -> None:
    """Asks all steps, each as soon as what it needs is there, and puts the outputs into the request.

    An error of a step is the request's, with the step's name; the other steps are given up.
    """
    values: dict[str, Any] = dict(request.inputs)
    labels: dict[str, Sequence[str]] = {}
    tasks: dict[str, asyncio.Task[None]] = {}

    async def run(part: Part) -> None:
        await asyncio.gather(*(tasks[name] for name in part.step.after))
        given = {name: values[source] for name, source in part.step.inputs.items()}
        outputs, own = await _outputs(part, given, request, ask)
        values.update({f"{part.step.name}.{name}": array for name, array in outputs.items()})
        labels.update({f"{part.step.name}.{name}": names for name, names in own.items()})

    for part in composition.parts:
        tasks[part.step.name] = asyncio.create_task(run(part))
    try:
        await asyncio.gather(*tasks.values())
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    sources = composition.pipeline.outputs
    request.outputs = {name: values[source] for name, source in sources.items()}
    request.labels = {name: labels[source] for name, source in sources.items() if source in labels}


async def _outputs(part: Part, given: Arrays, request: Request, ask: Ask) -> tuple[Arrays, Labels]:
    """A step's answer, and names of its classes. No samples are no request; more than its model takes at once are several."""
    alone, samples = part.signature.alone, len(next(iter(given.values())))
    if not alone and not samples:
        return {one.name: np.zeros([0, *(size or 0 for size in one.shape)], one.dtype) for one in part.signature.outputs}, {}
    try:
        results = await ask(part.model, given, part.version, request, alone)
    except CnnaError as error:
        raise _of_step(part.step, error) from None
    for result in results:
        request.run_seconds += result.run_seconds
        if part.step.kind == "model" and result.runtime != CNNA:
            request.runtime = result.runtime
    names = [one.name for one in part.signature.outputs]
    if len(results) == 1:
        return {name: results[0].outputs[name] for name in names}, results[0].labels
    return {name: np.concatenate([result.outputs[name] for result in results]) for name in names}, results[0].labels


def _of_step(step: Step, error: CnnaError) -> CnnaError:
    text = f"step {step.name}: {error}"
    return BusyError(text, error.seconds, error.full) if isinstance(error, BusyError) else error_of(name_of(error), text)


def bounds(samples: int, most: int) -> list[slice]:
    """Parts of at most so many samples."""
    return [slice(start, start + most) for start in range(0, samples, most)]
