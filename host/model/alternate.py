"""Batches of several models on one board within one turn: while one model's batch runs, the next one's is packed and copied.

It is for servers: batches may come at any time, and each answer is given as soon as it is there. `runs_of` chooses
what runs the models' programs.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from cnna.host.model.board_model import BoardModel, TurnOf, runs_of
from cnna.host.model.flight import NOT_YET, Asked, Flight, NotYet
from cnna.host.model.inputs import Arrays
from cnna.host.model.native_runs import NativeRuns
from cnna.host.model.pingpong import slots_of
from cnna.host.model.planned import Plan, PlannedFlight
from cnna.host.samples.rows import Given
from cnna.spec.errors import DataError


@dataclass(eq=False)
class BoardBatch:
    """A batch for the model of that number. inputs: of at most the model's batch of samples. tag: the caller's own."""

    model: int
    flight: Flight | PlannedFlight
    tag: Any = None
    asked: bool = False  # a job of it was handed out, and its answers have not come

    @classmethod
    def of(
        cls,
        models: Sequence[BoardModel],
        model: int,
        inputs: "Given | Mapping[str, Given]",
        tag: Any = None,
        plan: Plan | None = None,
    ) -> "BoardBatch":
        """plan: of the model's `detecting`. DataError: the inputs do not fit the model, or are more than a batch."""
        return cls(model, models[model].flight(inputs, plan), tag)


Answers: TypeAlias = Generator[tuple[BoardBatch, Arrays], None, None]


def alternate(models: Sequence[BoardModel], batches: Iterable[BoardBatch | NotYet]) -> Answers:
    """Each batch with its outputs by name, as soon as they are there. Batches of one model stay in order.

    The source may say NOT_YET, and is asked again; it must not wait while one of its batches has no answer. The turn begins with
    the first answer that is asked for, and ends with the iterator, which leaves the accelerator idle. DataError: the models are on
    several boards, or one has nothing for the accelerator. RunError: as of `BoardModel.run`; what was open is lost.
    """
    if len({id(model.board) for model in models}) != 1:
        raise DataError("models can alternate on one board: these are on several, or there is none")
    for model in models:
        if not model.accelerators:
            raise DataError(f"model {model.manifest['name']} has nothing for the accelerator: run it by itself")
    return _alternated(models, batches)


def _alternated(models: Sequence[BoardModel], batches: Iterable[BoardBatch | NotYet]) -> Answers:
    first = [0, *accumulate(len(model.accelerators) for model in models)]
    opened: list[BoardBatch] = []  # in the order of their beginning
    running: list[BoardBatch] = []  # those whose jobs were handed out, in that order
    together = slots_of(models[0].board)  # open at once: one runs, or a piece of it on the CPU, while others wait or are packed
    with ExitStack() as held:
        for model in models:
            held.enter_context(model.going())
        held.enter_context(TurnOf(models))
        accelerators = [accelerator for model in models for accelerator in model.accelerators]
        runs = runs_of(models[0].board, accelerators, max(model.retries for model in models), together)
        if isinstance(runs, NativeRuns):
            held.callback(runs.close)
        for answers, _ in runs.run(_jobs(batches, together, opened, running, first)):
            batch = running.pop(0)
            model, last = models[batch.model], batch.flight.program == len(models[batch.model].accelerators) - 1
            batch.flight.take(answers)
            batch.asked = False
            if last:
                batch.flight.advance()  # what is left for the CPU, while the next job runs
                opened.remove(batch)
                yield batch, model.landed(batch.flight)


def _jobs(
    batches: Iterable[BoardBatch | NotYet], together: int, opened: list[BoardBatch], running: list[BoardBatch], first: Sequence[int]
) -> Iterator[Asked]:
    """Jobs of open batches before those of new ones. together: batches that may be open. first: the number of each model's first
    program among all.
    """
    source, ended = iter(batches), False
    while opened or not ended:
        ready = next((batch for batch in opened if not batch.asked), None)
        if ready is None and not ended and len(opened) < together:
            found = next(source, None)
            if found is None:
                ended = True
                continue
            if isinstance(found, NotYet):
                yield NOT_YET
                continue
            ready = found
            opened.append(ready)
        if ready is None:
            yield None  # every batch that is open waits for answers
            continue
        job: Any = ready.flight.advance()  # a `Job` or a `PlannedJob`
        assert job is not None
        ready.asked = True
        running.append(ready)
        yield job._replace(program=first[ready.model] + job.program)
