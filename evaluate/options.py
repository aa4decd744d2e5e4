"""The options of an evaluation, once for `evaluate` and `cnna.eval`: both take them as keywords (docs/eval.md)."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict, TypeVar, get_type_hints

from cnna.spec.samples.preprocess import Preprocess

File = str | PathLike[str]
Made = TypeVar("Made", bound=Callable[..., Any])


class Options(TypedDict, total=False):
    """All may be left out, or be None, which stands for the default."""

    task: str | None  # classification, embedding, ...; None: what suits the data, or `own` where `metric` is given
    device: Any  # where each .cnna runs, as of `InferenceSession`; None: the emulator
    device_options: Mapping[str, Any] | None  # of `InferenceSession`
    base: File | None  # the model, by its file's name, with which the others are compared; None: the first float one, or the first
    truth: File | None  # the model, by its file's name, whose answers are the target of `metric`; None: the data have the targets
    judged: str | None  # the output that counts; None: the first
    labels: File | None  # a file with the names of classes
    metric: str | Callable[..., Any] | None  # a function of answers and target, or FILE.py:NAME
    top: int | None  # the k of top-k
    offset: int | None  # outputs before the first class
    decode: str | Callable[..., Any] | None  # makes boxes: a form, FILE.py:NAME, or a function of answers and (rows, columns)
    min_score: float | None  # of boxes that are kept
    overlap: float | None  # of boxes of one object
    ignored: int | None  # the number of a mask's pixels that do not count
    coordinates: str | None  # "pixels" or "shares", of an output that has points
    columns: str | Sequence[str] | None  # of a CSV: its files and its labels
    images: File | None  # the folder of COCO's pictures
    fit: str | None  # how whole pictures meet a detector's input: "letterbox", "corner" or "whole"
    preprocess: Mapping[str, Any] | Preprocess | None  # how pictures become inputs, before what models store
    shapes: Mapping[str, Sequence[int]] | Sequence[int] | None  # sizes of inputs that an .onnx leaves open
    limit: int | None  # so many samples, the first, or drawn with `seed`
    seed: int | None
    batch: int | None  # samples that are taken together
    skip_unreadable: bool  # leaves pictures out that cannot be read, and counts them
    journal: File | None  # the file that keeps what is measured; None: one in the cache, which goes when all is done
    cache: File | None  # the folder of such journals


def spelled_out(function: Made) -> Made:
    """The function, whose signature has each option by its name instead of `**options`: for help, notebooks and the pages."""
    own = inspect.signature(function)
    kept = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, keyword, default=False if kind is bool else None, annotation=kind)
        for name, kind in get_type_hints(Options).items()
    ]
    first = [one for one in kept if one.kind is not keyword]
    last = [one for one in kept if one.kind is keyword]
    function.__signature__ = own.replace(parameters=[*first, *options, *last])  # type: ignore[attr-defined]  # typeshed's Callable lacks it
    return function
