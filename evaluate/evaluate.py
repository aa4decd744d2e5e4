"""`evaluate`: measures models on the same samples, side by side. `cnna eval` is a thin layer on it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cnna.evaluate.chosen_task import Choice, choice_of, reading_of, task_name, task_of
from cnna.evaluate.datasets.dataset import ArrayFile, Dataset
from cnna.evaluate.datasets.layouts import read_data
from cnna.evaluate.journal import Journal
from cnna.evaluate.loop import Count, Loop, step_of, targets_of
from cnna.evaluate.options import File, Options
from cnna.evaluate.result import Evaluation, difference_of, model_result
from cnna.evaluate.runners import FLOAT, Identity, Runner, close_all, open_models
from cnna.evaluate.tasks.task import Task
from cnna.spec.counts import many
from cnna.spec.errors import DataError, UserError
from cnna.spec.files import default_cache, make_folder
from cnna.spec.json_text import json_text

if TYPE_CHECKING:
    from typing_extensions import Unpack  # boards have Python 3.10, whose own typing lacks it

Say = Callable[[str], object]  # takes a line for the user
FOLDER = "evaluations"  # of journals, below the cache
JOURNAL = 3  # how a journal is written, and what its records hold
GROUPED_SEED = 0  # of samples that lie class by class, where the first ones would be of one class


def evaluate(
    models: File | Sequence[File], data: File, *, count: Count | None = None, say: Say | None = None, **options: "Unpack[Options]"
) -> Evaluation:
    """Measures models on data, and compares each with one of them.

    models: .cnna and .onnx files. data: samples and what is right for them (docs/eval.md has every layout). count: called with the
    samples that are done, and all. say: called with lines for the user. UserError: a file, an option or a sample is at fault.
    RunError: the accelerator stopped.
    """
    paths = [Path(models)] if isinstance(models, str | PathLike) else [Path(model) for model in models]
    _check(paths, options)
    tell = say or (lambda line: None)
    choice, where = choice_of(options), Path(data)
    named = task_name(options.get("task"), where, choice.metric)
    choice.check(named)
    samples = read_data(where, named, reading_of(options))
    for note in samples.notes:
        tell(f"note: {note}")
    if isinstance(samples.source, ArrayFile):
        samples.source.note = tell
    judge = task_of(named, choice, samples)
    numbers, selection = selected(samples, options.get("limit"), options.get("seed"))
    runners = open_models(paths, options, choice.of_heads(named))
    try:
        identities = [runner.identity for runner in runners]
        base, truth = _base(identities, options.get("base")), named_model(identities, "truth", options.get("truth"))
        about = _about(runners, samples, judge, choice, truth)
        step, skip = step_of(runners, options.get("batch")), options.get("skip_unreadable") or False
        loop = Loop(samples, judge, runners, numbers, step, skip, count, None if truth is None else identities.index(truth))
        with Journal(journal_path(options, about), about) as kept:
            with _said(kept, numbers, tell):
                loop.run(kept)
            found = _evaluation(loop, kept, base, selection)
            if options.get("journal") is None:
                kept.remove()
        return found
    finally:
        close_all(runners)


def _check(paths: Sequence[Path], options: Options) -> None:
    """UserError: a number that no evaluation has, or a model that stands for targets that nothing asks for."""
    if not paths:
        raise UserError("there is no model to measure")
    numbers = (("limit", options.get("limit"), 1), ("seed", options.get("seed"), 0), ("batch", options.get("batch"), 1))
    for option, value, least in numbers:
        if value is not None and value < least:
            raise UserError(f"--{option} {value}: must be at least {least}")
    if options.get("seed") is not None and options.get("limit") is None:
        raise UserError("--seed draws the samples of --limit N; give that too")
    if options.get("truth") is not None and options.get("metric") is None:
        raise UserError("--truth names the model whose answers --metric FILE.py:NAME takes for right; give that too")


def selected(data: Dataset, limit: int | None, seed: int | None) -> tuple[list[int], str]:
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
    """The model with which the others are compared; None: there are no others. UserError: there is none of that name."""
    if base is None and len(models) < 2:
        return None
    return named_model(models, "base", base) or next((model for model in models if model.kind == FLOAT), models[0])


def named_model(models: Sequence[Identity], option: str, name: File | None) -> Identity | None:
    """The model that an option names; None: it names none. UserError: there is none of that name."""
    if name is None:
        return None
    found = next((model for model in models if str(name) in (model.name, model.file)), None)
    if found is None:
        raise UserError(f"--{option} {name}: no model of this evaluation; there are {', '.join(model.name for model in models)}")
    return found


def _about(runners: Sequence[Runner], data: Dataset, task: Task, choice: Choice, truth: Identity | None) -> dict[str, Any]:
    """Of which evaluation a journal is: all that a record depends on, by the names that messages use."""
    return {
        "models": [runner.identity.digest for runner in runners],
        "device": [runner.identity.device for runner in runners],
        "data": data.identity,
        "task": task.name,
        "preprocessing": [dict(runner.intake.table) for runner in runners],
        "options": {**choice.about(), **({} if truth is None else {"truth": truth.digest})},
        "version": JOURNAL,
    }


def journal_path(options: Options, about: Mapping[str, Any]) -> Path:
    """The journal's file: the user's, or one in the cache that is named after its evaluation."""
    given, cache = options.get("journal"), options.get("cache")
    if given is not None:
        return Path(given)
    folder = (default_cache() if cache is None else Path(cache)) / FOLDER
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
    return Evaluation(
        task=loop.task,
        data=about,
        targets=targets,
        source=loop.data.source,
        models=tuple(results),
        base=base.name if base else None,
        differences=tuple(differences),
        skipped=skipped,
        selection=selection,
        numbers=tuple(kept),
        truth=None if loop.truth is None else loop.runners[loop.truth].identity.name,
    )
