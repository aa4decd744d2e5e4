"""`cnna.prune`: channels of a float model go, so that it takes fewer clocks of a configuration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cnna.jobs.data import Data, Table
from cnna.jobs.examine import GivenLabels, labels_of
from cnna.jobs.given import GivenModel, Progress, Shapes, Warn, Warnings, name_of, quiet, shaped, with_tools
from cnna.jobs.options.configurations import GivenConfig, config_of
from cnna.jobs.options.metrics import Metrics, metric_of, metrics_given
from cnna.jobs.quantize import Given, given, quantisation
from cnna.jobs.result import ASIDE, Result, page_html
from cnna.spec.counts import many
from cnna.spec.errors import DataError, ToolError, UserError, about_model
from cnna.spec.extras import install
from cnna.spec.files import check_outputs, check_writable, write_bytes, write_text
from cnna.spec.json_text import json_text

if TYPE_CHECKING:
    from onnx import ModelProto

    from cnna.compiler.quantise.answers import Judge, Results
    from cnna.pruning.prune import Goal
    from cnna.pruning.prune import Pruned as Found
    from cnna.spec.config import Config

DEFAULT = "zcu102"  # the configuration
FIGURES = ".json"  # the ending of a report that is no page
MOST_POINTS = 100
NONE_DIFFERS = 3  # of so many samples that differ, none is seen one time in twenty
EPOCHS, MOST_EPOCHS = 20, 10_000


@dataclass(frozen=True, eq=False, kw_only=True)
class Pruned(Result):
    """A pruned model, and what was done. Clocks are the predicted ones of an image.

    output: where it was written; None: nowhere, or nothing was removed. wanted, saved: shares of the clocks. met: whether as many
    were saved as wanted, for no more than the loss; said: why not. lost, of: the points that the int8 network loses against the
    whole one in int8, and what they are of; None: nothing can be compared. lost_error: the standard error of these points; None: it
    is not known. right_alone: samples that only the whole network in int8 has right, and those that only the pruned one has; None
    without labels. epochs: how many it was trained for; 0: it was not. judged_on: the number of samples that were judged.
    agreement: shares of them with the whole float network's answer, by network; top1: shares of right ones; None without labels.
    layers, groups, steps: as of `cnna.pruning`. proto: the model; None: nothing was removed. lines: what `str` says. notes: the
    lines that `warn` got.
    """

    output: Path | None
    name: str
    config: str
    wanted: float
    clocks: int
    clocks_left: int
    saved: float
    met: bool
    said: str | None
    lost: float | None
    lost_error: float | None
    right_alone: tuple[int, int] | None
    of: str | None
    epochs: int
    samples: int
    judged_on: int
    held_out: bool
    agreement: Mapping[str, float | None]
    top1: Mapping[str, float | None]
    layers: Sequence[Mapping[str, Any]]
    groups: Sequence[Mapping[str, Any]]
    steps: Sequence[Mapping[str, Any]]
    proto: "ModelProto | None" = field(metadata=ASIDE)
    lines: tuple[str, ...] = field(metadata=ASIDE)
    notes: tuple[str, ...] = field(metadata=ASIDE)

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the model whole, or not at all. UserError: nothing was removed, or it cannot be written."""
        if self.proto is None:
            raise UserError(f"{path}: nothing was removed, so there is no other model to write")
        write_bytes(Path(path), self.proto.SerializeToString())
        return Path(path)

    def save_report(self, path: str | PathLike[str]) -> Path:
        """Writes a page or, if the name ends in .json, the figures. UserError: it cannot be written."""
        text = self.page() if Path(path).suffix.lower() != FIGURES else json_text(self.figures(), indent=1) + "\n"
        write_text(Path(path), text)
        return Path(path)

    def page(self) -> str:
        """A page of HTML: each layer before and after, and which channels had to stay."""
        from cnna.pruning.page import prune_page

        return prune_page({**self.figures(), "lines": self.lines})

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        return page_html(self.page())


@with_tools
def prune(
    model: GivenModel,
    data: Data,
    config: GivenConfig | None = None,
    *,
    fewer_clocks: float,
    max_loss: float | None = None,
    test: Data | None = None,
    labels: GivenLabels | None = None,
    metrics: Metrics | None = None,
    preprocess: Table | None = None,
    shapes: Shapes | None = None,
    journal: str | PathLike[str] | None = None,
    finetune: Data | None = None,
    epochs: int = EPOCHS,
    checkpoint: str | PathLike[str] | None = None,
    output: str | PathLike[str] | None = None,
    reports: Sequence[str | PathLike[str]] = (),
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> Pruned:
    """Removes channels of a float model until it takes a share of predicted clocks fewer, and solves what is left anew.

    data: typical inputs, as of `quantize`; no labels are needed. config: as of `config_of`; None: zcu102. fewer_clocks: the share
    of clocks to save, such as 0.25. max_loss: points that the int8 network may lose against the whole one in int8. test: samples
    to judge on; None: every fourth of `data`, from which nothing is solved. labels: the right class of each of these. metrics: by
    which outputs are judged. journal: a file that keeps what was measured; the same call goes on from it, and removes it when all
    is done. finetune: samples to train the pruned network on, towards the whole one's answers, for so many epochs; classes beside
    them (`y`) are learned too. It needs torch. checkpoint: a file that keeps each epoch, as the journal does. reports: files that
    `save_report` writes; where one cannot be, the journal stays. UserError: an option or file is at fault. ModelError: the model
    cannot be read, is quantised, or does not compile for the configuration. DataError: the samples or labels do not fit. Nothing is
    written unless all has gone well.
    """
    check_wanted(fewer_clocks, max_loss)
    chosen, name = config_of(DEFAULT if config is None else config), name_of(model)
    if output is not None:
        check_outputs({"output": Path(output)}, ())
    kept = [Path(path) for path in (journal, checkpoint) if path is not None]
    for path in kept:
        check_writable(path)
    if finetune is not None:
        check_tuning(epochs)
    tell, warnings = progress or quiet, Warnings(warn)
    tell(0, 0, "reading")
    found = given(model, data, preprocess, shapes, warnings)
    source = shaped(model, shapes, Warnings(None)).proto
    with about_model(name):
        judged = _Judging.of(model, data, found, test, labels, metrics_given(metrics), preprocess, shapes, tell)
    place = None if checkpoint is None else Path(checkpoint)
    tuning = None if finetune is None else _tuning(model, source, finetune, found, preprocess, shapes, epochs, place, tell)
    from cnna.compiler.explore.kept import compiler_digest
    from cnna.compiler.quantise.sessions import feeds_of
    from cnna.pruning.journal import digest, opened
    from cnna.pruning.prune import Goal, prepared
    from cnna.pruning.prune import prune as pruned

    with about_model(name):
        count = len(next(iter(found.images.values())))
        feeds = list(feeds_of(found.graph, found.images, count, found.preprocess))
        memory = opened(
            None if journal is None else Path(journal),
            digest(source.SerializeToString(), found.images, f"{chosen} {version('cnna')} {compiler_digest()} {found.preprocess}"),
        )
        fit = prepared(source, name, feeds, tell)
        goal = Goal(chosen, fewer_clocks, max_loss, judged.loss if max_loss is not None else None)
        made = pruned(fit, goal, memory, tell)
        if tuning is not None and made.model is not None:
            made = replace(made, model=tuning(made.model, fit.found.network.proto))
        result = _result(made, judged, chosen, goal, len(fit.feeds), name, output, 0 if tuning is None else epochs, warnings)
    if output is not None and result.proto is not None:
        result.save(output)
    for report in reports:
        result.save_report(report)
    for path in kept:
        path.unlink(missing_ok=True)
    return result


def check_tuning(epochs: int) -> None:
    """UserError: there is no such number of epochs. ToolError: torch is missing."""
    if not 1 <= epochs <= MOST_EPOCHS:
        raise UserError(f"--epochs {epochs}: must lie within 1..{MOST_EPOCHS}")
    if find_spec("torch") is None:
        raise ToolError(f"--finetune needs the package torch, which is missing: {install('train')}")


def _tuning(
    model: GivenModel,
    whole: "ModelProto",
    data: Data,
    found: Given,
    preprocess: Table | None,
    shapes: Shapes | None,
    epochs: int,
    checkpoint: Path | None,
    tell: Progress,
) -> "Callable[[ModelProto, ModelProto], ModelProto]":
    """What trains a pruned network towards the whole one. ModelError: it cannot. DataError: samples or labels do not fit."""
    from cnna.compiler.quantise.sessions import feeds_of
    from cnna.pruning.finetune import Samples, Tuning, fine_tuned, teacher_of, varied

    images = given(model, data, preprocess, shapes, Warnings(None)).images
    right = labels_of(None, data, images)
    feeds = list(feeds_of(found.graph, images, len(next(iter(images.values()))), found.preprocess))
    inputs = {name: np.concatenate([one[name] for one in feeds]) for name in found.graph.inputs}
    samples = Samples(inputs, None if right is None else right.classes)
    teacher_of(whole, name_of(model), samples)  # what is wrong is said before the work
    tuning, augment = (Tuning.without_classes(epochs), varied) if right is None else (Tuning(epochs), None)

    def tuned(pruned: "ModelProto", whole: "ModelProto") -> "ModelProto":
        return fine_tuned(pruned, whole, name_of(model), samples, tuning, tell, checkpoint=checkpoint, augment=augment)

    return tuned


def check_wanted(fewer_clocks: float, max_loss: float | None) -> None:
    """UserError: there is no such share of clocks, or number of points."""
    if not 0 < fewer_clocks < 1:
        raise UserError(f"--fewer-clocks {fewer_clocks:.0%}: is no share of clocks above 0% and below 100%; 25% is")
    if max_loss is not None and not 0 <= max_loss <= MOST_POINTS:
        raise UserError(f"--max-loss {max_loss:g}: is no number of points, 0 to {MOST_POINTS}; 2 is")


class _Judging:
    """Judges networks, each quantised with the samples of the calibration, beside the whole float network."""

    def __init__(self, judge: "Judge", count: int, held_out: bool, source: Given, shapes: Shapes | None, tell: Progress) -> None:
        self.judge, self.count, self.held_out = judge, count, held_out
        self._source, self._shapes, self._tell = source, shapes, tell
        self._whole: tuple[Results, Results] | None = None

    @classmethod
    def of(
        cls,
        model: GivenModel,
        data: Data,
        found: Given,
        test: Data | None,
        labels: GivenLabels | None,
        metrics: Mapping[str, str],
        preprocess: Table | None,
        shapes: Shapes | None,
        tell: Progress,
    ) -> "_Judging":
        """What is judged on: `test`, or the samples of `data` that are held out. DataError: labels do not fit."""
        from cnna.compiler.quantise.answers import Judge
        from cnna.pruning.seen import HELD_OUT

        images = found.images if test is None else given(model, test, preprocess, shapes, Warnings(None)).images
        right = labels_of(labels, data if test is None else test, images)
        classes = None if right is None else right.classes
        if test is None:
            images = {name: rows[::HELD_OUT] for name, rows in images.items()}
            classes = None if classes is None else classes[::HELD_OUT]
        count, outputs = len(next(iter(images.values()))), found.graph.outputs
        chosen = {each: metric for each in outputs if (metric := metric_of(each, metrics, outputs))}
        try:
            judge = Judge(found.graph, images, count, found.preprocess, classes, None, chosen)
        except DataError as error:
            raise error if right is None else DataError(f"{right.name}: {error}") from None
        return cls(judge, count, test is None, found, shapes, tell)

    def results(self, model: "ModelProto") -> "tuple[Results, Results]":
        """Of a network in float and in int8."""
        from cnna.compiler.quantise.quantise import float_graph

        self._tell(0, 0, "quantising and judging")
        graph = float_graph(shaped(model, self._shapes, Warnings(None)))
        samples = Given(graph, self._source.images, self._source.preprocess, None)
        how = quantisation("minmax", 0, 8, {}, lambda done, total, what: None)
        int8, _ = how.calibrated(samples, self._source.images).source(())
        return self.judge.results(model), self.judge.results(int8.proto)

    def whole(self) -> "tuple[Results, Results]":
        """Of the network that nothing was removed from. Its float form is what others are compared with."""
        if self._whole is None:
            how = quantisation("minmax", 0, 8, {}, lambda done, total, what: None)
            source = self._source
            int8, _ = how.calibrated(Given(source.graph, source.images, source.preprocess, None), source.images).source(())
            self._whole = self.judge.in_float, self.judge.results(int8.proto)
        return self._whole

    def loss(self, model: "ModelProto") -> float:
        """The points that a network in int8 loses against the whole one in int8. UserError: no output can be compared."""
        found = self.lost(self.results(model)[1])
        if found is None:
            raise UserError("--max-loss: no output can be judged; leave it out, or say how by --metric")
        return found[0]

    def lost(self, results: "Results") -> tuple[float, str] | None:
        """The points, and what they are of."""
        return self.judge.more_lost(results, self.whole()[1])


NETWORKS = ("float", "int8", "pruned_float", "pruned_int8")


def _result(
    made: "Found",
    judged: _Judging,
    config: "Config",
    goal: "Goal",
    samples: int,
    name: str,
    output: str | PathLike[str] | None,
    epochs: int,
    warn: Warnings,
) -> Pruned:
    results: list[Results] = [*judged.whole()]
    if made.model is not None:
        results += judged.results(made.model)
    lost = None if made.model is None else judged.lost(results[-1])
    figures = made.figures()
    shown = {
        "clocks": made.before.total,
        "clocks_left": made.after.total,
        "saved": figures["saved"],
        "met": made.met,
        "said": made.said,
        "layers": figures["layers"],
        "groups": figures["groups"],
        "steps": figures["steps"],
    }
    agreement = {network: one.agreement for network, one in zip(NETWORKS, results, strict=False)}
    top1 = {network: one.top1 for network, one in zip(NETWORKS, results, strict=False)}
    points, of = lost or (None, None)
    error = None if lost is None else judged.judge.loss_error(results[-1], results[1])
    on = f"{many(judged.count, 'sample')} {'held out' if judged.held_out else 'of --test'}"
    return Pruned(
        **shown,
        output=Path(output) if output is not None and made.model is not None else None,
        name=name,
        config=config.name,
        wanted=goal.share,
        lost=points,
        lost_error=error,
        right_alone=None if lost is None else _right_alone(results[1], results[-1]),
        of=of,
        epochs=0 if made.model is None else epochs,
        samples=samples,
        judged_on=judged.count,
        held_out=judged.held_out,
        agreement=agreement,
        top1=top1,
        proto=made.model,
        lines=tuple(_lines(made, output, config, agreement, top1, lost, error, judged.count, on)),
        notes=warn.lines,
    )


def _right_alone(whole: "Results", pruned: "Results") -> tuple[int, int] | None:
    """Samples that one network alone has right: the figures of McNemar's test."""
    pairs = [(bool(one), bool(other)) for one, other in zip(whole.right, pruned.right, strict=True)]
    return (pairs.count((True, False)), pairs.count((False, True))) if pairs else None


def _lines(
    made: "Found",
    output: str | PathLike[str] | None,
    config: "Config",
    agreement: Mapping[str, float | None],
    top1: Mapping[str, float | None],
    lost: tuple[float, str] | None,
    error: float | None,
    count: int,
    on: str,
) -> list[str]:
    """What was done and what it costs, in lines."""
    if made.model is None:
        return [made.said or ""]
    narrower = sum(layer.channels_left < layer.channels for layer in made.layers)
    share = 1 - made.after.total / made.before.total
    clocks = f"{made.after.total:,} clocks on {config.name} instead of {made.before.total:,}, {share:.1%} fewer"
    lines = [f"{output or 'pruned'}: {clocks}; of {many(len(made.layers), 'layer')}, {narrower} got narrower"]
    if lost is not None:
        points = f"{lost[0]:.2f}{f' ± {error:.2f}' if error else ''}"
        lines.append(f"in int8 it loses {points} points of {lost[1]} on {on}, against the whole network in int8")
        if error == 0 and count > NONE_DIFFERS:
            lines[-1] += f"; no sample differs, as may be where up to {NONE_DIFFERS * MOST_POINTS / count:.2g} points are lost"
    for what, found in (("agreement with the whole float network", agreement), ("top-1", top1)):
        shares = [f"{network.replace('_', ' ')} {value:.1%}" for network, value in found.items() if value is not None]
        if shares:
            lines.append(f"{what}: {', '.join(shares)}")
    return [*lines, *filter(None, (made.coarse, made.said))]
