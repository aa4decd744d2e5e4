"""`evaluate`: measures models on the same samples, side by side. `cnna eval` is a thin layer on it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cnna.evaluate.chosen_task import Choice, columns_of, fit_of, task_name, task_of
from cnna.evaluate.datasets.dataset import ArrayFile, Dataset
from cnna.evaluate.datasets.labels import read_labels
from cnna.evaluate.datasets.layouts import Reading, read_data
from cnna.evaluate.journal import Journal
from cnna.evaluate.loop import Count, Loop, step_of, targets_of
from cnna.evaluate.result import Evaluation, difference_of, model_result
from cnna.evaluate.runners import FLOAT, Identity, Runner, close_all, open_models
from cnna.evaluate.tasks.task import Task
from cnna.spec.counts import many
from cnna.spec.errors import DataError, UserError
from cnna.spec.files import default_cache, make_folder
from cnna.spec.json_text import json_text

File = str | PathLike[str]
Say = Callable[[str], object]  # takes a line for the user
FOLDER = "evaluations"  # of journals, below the cache
JOURNAL = 2  # how a journal is written, and what its records hold
GROUPED_SEED = 0  # of samples that lie class by class, where the first ones would be of one class


def evaluate(
    models: File | Sequence[File],
    data: File,
    *,
    task: str | None = None,
    device: Any = "emulator",
    device_options: Mapping[str, Any] | None = None,
    base: File | None = None,
    output: str | None = None,
    labels: File | None = None,
    metric: str | Callable[..., Any] | None = None,
    top: int | None = None,
    offset: int | None = None,
    decode: str | Callable[..., Any] | None = None,
    min_score: float | None = None,
    overlap: float | None = None,
    ignored: int | None = None,
    coordinates: str | None = None,
    columns: str | Sequence[str] | None = None,
    images: File | None = None,
    fit: str | None = None,
    preprocess: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    limit: int | None = None,
    seed: int | None = None,
    batch: int | None = None,
    skip_unreadable: bool = False,
    journal: File | None = None,
    cache: Path | None = None,
    count: Count | None = None,
    say: Say | None = None,
) -> Evaluation:
    """Measures models on data, and compares each with one of them.

    models: .cnna and .onnx files. data: samples and what is right for them (docs/eval.md has every layout). task: classification,
    embedding, ...; None: what suits the data, or `own` where `metric` is given. device: where each .cnna runs, as of
    `InferenceSession`; device_options go to it. base: the model, by its file's name, with which the others are compared; None: the
    first float one, or else the first. output: the output that is judged. labels: a file with the names of classes. metric: a
    function of answers and target, or FILE.py:NAME. top: the k of top-k. offset: outputs before the first class. decode: makes
    boxes of a detector's outputs: "yolov5", "yolov8", "yolox", "boxes", a function of answers and (rows, columns), or FILE.py:NAME.
    min_score, overlap: of boxes that are kept, and of boxes of one object. ignored: the number of a mask's pixels that do not
    count. coordinates: "pixels" or "shares", of an output that has points. columns: of a CSV. images: the folder of COCO's
    pictures. fit: how whole pictures meet a detector's input, "letterbox" or "whole". preprocess: how pictures become inputs,
    before what models store. shapes: sizes of inputs that an .onnx leaves open. limit: so many samples, the first, or drawn with
    `seed`. batch: samples that are taken together. skip_unreadable: leaves pictures out that cannot be read, and counts them.
    journal: the file that keeps what is measured; None: one in the cache, which goes when all is done. count: called with the
    samples that are done, and all. say: called with lines for the user.

    UserError: a file, an option or a sample is at fault. RunError: the accelerator stopped.
    """
    paths = [Path(models)] if isinstance(models, str | PathLike) else [Path(model) for model in models]
    _check(paths, limit, seed, batch)
    tell = say or (lambda line: None)
    choice = Choice(output, metric, top, offset, decode, min_score, overlap, ignored, coordinates)
    named = task_name(task, Path(data), metric)
    choice.check(named)
    names = read_labels(Path(labels)) if labels is not None else None
    reading = Reading(names, columns_of(columns), Path(images) if images is not None else None, fit_of(fit), skip_unreadable)
    samples = read_data(Path(data), named, reading)
    for note in samples.notes:
        tell(f"note: {note}")
    if isinstance(samples.source, ArrayFile):
        samples.source.note = tell
    judge = task_of(named, choice, samples)
    numbers, selection = _selected(samples, limit, seed)
    runners = open_models(paths, device, device_options or {}, preprocess or {}, shapes or {})
    try:
        chosen = _base([runner.identity for runner in runners], base)
        about = _about(runners, samples, judge, choice)
        loop = Loop(samples, judge, runners, numbers, step_of(runners, batch), skip_unreadable, count)
        with Journal(_journal(journal, cache, about), about) as kept:
            with _said(kept, numbers, tell):
                loop.run(kept)
            found = _evaluation(loop, kept, chosen, selection)
            if journal is None:
                kept.remove()
        return found
    finally:
        close_all(runners)


def _check(paths: Sequence[Path], limit: int | None, seed: int | None, batch: int | None) -> None:
    """UserError: a number that no evaluation has."""
    if not paths:
        raise UserError("there is no model to measure")
    for option, value, least in (("limit", limit, 1), ("seed", seed, 0), ("batch", batch, 1)):
        if value is not None and value < least:
            raise UserError(f"--{option} {value}: must be at least {least}")
    if seed is not None and limit is None:
        raise UserError("--seed draws the samples of --limit N; give that too")


def _selected(data: Dataset, limit: int | None, seed: int | None) -> tuple[list[int], str]:
    """The samples to take, and in words how they were chosen."""
    count = len(data)
    if limit is None or limit >= count:
        return list(range(count)), f"all {count:,}"
    if seed is None and not data.grouped:
        return list(range(limit)), f"the first {limit:,} of {count:,}"
    seed = GROUPED_SEED if seed is None else seed
    drawn = np.random.default_rng(seed).choice(count, limit, replace=False)
    return sorted(map(int, drawn)), f"{limit:,} of {count:,}, drawn with seed {seed}"


def _base(models: Sequence[Identity], base: File | None) -> Identity | None:
    """The model with which the others are compared. UserError: there is none of that name."""
    if base is not None:
        found = [model for model in models if str(base) in (model.name, model.file)]
        if not found:
            raise UserError(f"--base {base}: no model of this evaluation; there are {', '.join(model.name for model in models)}")
        return found[0]
    if len(models) < 2:
        return None
    return next((model for model in models if model.kind == FLOAT), models[0])


def _about(runners: Sequence[Runner], data: Dataset, task: Task, choice: Choice) -> dict[str, Any]:
    """Of which evaluation a journal is: all that a record depends on, by the names that messages use."""
    return {
        "models": [runner.identity.digest for runner in runners],
        "device": [runner.identity.device for runner in runners],
        "data": data.identity,
        "task": task.name,
        "preprocessing": [dict(runner.intake.table) for runner in runners],
        "options": choice.about(),
        "version": JOURNAL,
    }


def _journal(given: File | None, cache: Path | None, about: Mapping[str, Any]) -> Path:
    """The journal's file: the user's, or one in the cache that is named after its evaluation."""
    if given is not None:
        return Path(given)
    folder = (cache or default_cache()) / FOLDER
    make_folder(folder)
    return folder / f"{sha256(json_text(dict(about), sort_keys=True).encode()).hexdigest()[:16]}.jsonl"


@contextmanager
def _said(journal: Journal, numbers: Sequence[int], say: Say) -> Iterator[None]:
    """Says what is kept: before the work, and where it ends early."""
    total = len(numbers)
    there = len(journal.entries.keys() & set(numbers))
    if there:
        say(f"{many(there, 'sample')} of {total:,} are in {journal.path}; going on from there")
    try:
        yield
    except BaseException:
        if kept := len(journal.entries.keys() & set(numbers)):
            say(f"{many(kept, 'sample')} of {total:,} are kept in {journal.path}; the same command goes on from there")
        raise


def _evaluation(loop: Loop, journal: Journal, base: Identity | None, selection: str) -> Evaluation:
    """The figures of what the journal holds. DataError: no sample could be read."""
    entries = {number: journal.entries[number] for number in loop.numbers}
    skipped = {loop.data.names[number]: entry.skipped for number, entry in entries.items() if entry.skipped is not None}
    kept = [number for number in loop.numbers if entries[number].skipped is None]
    if not kept:
        raise DataError(f"{loop.data.path}: no sample could be read; the first: {next(iter(skipped.values()))}")
    targets = targets_of(loop.data, kept)
    results = []
    for place, runner in enumerate(loop.runners):
        records = [entries[number].records[place] for number in kept]
        results.append(model_result(runner.identity, loop.task, records, targets, loop.seconds[place] or None))
    other = next((one for one in results if one.identity == base), None)
    differences = [difference_of(loop.task, one, other) for one in results if other is not None and one is not other]
    about = {"path": loop.data.path, "layout": loop.data.layout, "available": len(loop.data), "identity": loop.data.identity}
    name = base.name if base else None
    return Evaluation(
        loop.task, about, targets, loop.data.source, tuple(results), name, tuple(differences), skipped, selection, tuple(kept)
    )
