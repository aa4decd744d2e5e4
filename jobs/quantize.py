"""`cnna.quantize`: a float model, with samples for calibration, becomes an int8 model in standard QDQ form."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnna.host.samples.arrays import Arrays
from cnna.host.samples.given import beside
from cnna.jobs.data import Data, Prepared, Table, called, check_channels, opened, prepared, table_of
from cnna.jobs.examine import Examination, Examined, GivenLabels, examined, said
from cnna.jobs.given import UNNAMED, GivenModel, Progress, Shapes, Warn, Warnings, name_of, quiet, shaped, with_tools
from cnna.jobs.options.configurations import GivenConfig
from cnna.jobs.options.metrics import Metrics, metric_of, metrics_given
from cnna.jobs.result import ASIDE, OPTIONAL, Result, page_html, text_html
from cnna.spec.counts import counted, many
from cnna.spec.errors import UserError, about_model
from cnna.spec.files import check_outputs, write_bytes, write_text
from cnna.spec.json_text import json_text
from cnna.spec.samples.preprocess import Preprocess, from_entry

if TYPE_CHECKING:
    from onnx import ModelProto

    from cnna.compiler.frontend.source_model import SourceModel
    from cnna.compiler.quantise.quantise import Calibrated, Report

METHODS = ("minmax", "percentile", "mse")
EFFORTS = (0, 1, 2)
FC_BITS = ("8", "4", "auto")  # of the weights of fully connected layers
MOST_LOST = 1  # point of agreement with float that `auto` may lose
FIGURES = ".json"  # the ending of a report that is no page


@dataclass(frozen=True, eq=False, kw_only=True)
class Quantized(Result):
    """An int8 model, and what was done.

    output: where it was written. samples: that it was calibrated with. floating: operators that stay in float; four_bits: layers
    with weights of 4 bits. tensors: scale, zero point and range of each. pictures: how they became the input. search: what a search
    has found. source: the model, prepared for all that follows. report: what was measured, layer by layer, if that was asked for.
    quantiser: what was done, as the compiler has it. on_pictures, on_search: lines about these. notes: all lines that `warn` got.
    """

    output: Path | None
    method: str
    effort: int
    samples: int
    floating: Sequence[str]
    four_bits: Sequence[str]
    warnings: Sequence[str]
    tensors: Mapping[str, Mapping[str, float]]
    pictures: Mapping[str, Any] | None = field(metadata=OPTIONAL)
    search: Mapping[str, Any] | None = field(metadata=OPTIONAL)
    source: "SourceModel" = field(metadata=ASIDE)
    report: Mapping[str, Any] | None = field(metadata=ASIDE)
    quantiser: "Report" = field(metadata=ASIDE)
    on_pictures: str | None = field(metadata=ASIDE)
    on_search: tuple[str, ...] = field(metadata=ASIDE)
    notes: tuple[str, ...] = field(metadata=ASIDE)

    @property
    def proto(self) -> "ModelProto":
        """The model."""
        return self.source.proto

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the model whole, or not at all. UserError: it cannot be written."""
        write_bytes(Path(path), self.proto.SerializeToString())
        return Path(path)

    def save_report(self, path: str | PathLike[str]) -> Path:
        """Writes what was measured: a page or, if the name ends in .json, figures. UserError: nothing was, or it cannot be."""
        text = self.page() if Path(path).suffix.lower() != FIGURES else json_text(self._measured(), indent=1) + "\n"
        write_text(Path(path), text)
        return Path(path)

    def page(self) -> str:
        """A page of HTML with what quantisation costs, layer by layer. UserError: nothing was measured."""
        from cnna.compiler.report.noise_page import noise_page

        return noise_page(self._measured())

    def _measured(self) -> dict[str, Any]:
        if self.report is None:
            raise UserError("nothing was measured: quantise with examine=True, or with search=LOSS")
        return dict(self.report)

    def __str__(self) -> str:
        done = self.quantiser
        lines = [] if self.on_pictures is None else [self.on_pictures]
        name = self.output or self.proto.graph.name
        lines.append(f"{name}: {many(len(done.quants), 'tensor')} quantised with {many(done.samples, 'sample')} ({done.how})")
        if done.coded:
            lines.append(f"weights of 4 bits: {counted(done.coded)}")
        if done.floating:
            lines.append(f"stays float, for the CPU: {counted(done.floating)}")
        return "\n".join([*lines, *([] if self.report is None else [said(self.report)])])

    def _repr_html_(self) -> str:
        return text_html(str(self)) if self.report is None else page_html(self.page())


@dataclass(frozen=True, eq=False)
class Quantisation:
    """How a model is quantised. counter: makes callbacks of progress of what it names.

    float_decode: what a detector does behind its heads stays in float.
    """

    method: str
    effort: int
    fc_bits: str
    metrics: Mapping[str, str]
    counter: Callable[[str], Callable[[int, int], None]]
    float_decode: bool = False

    def calibrated(self, found: "Given", images: Arrays) -> "Calibrated":
        """The model, calibrated with some of its samples."""
        from cnna.compiler.quantise.fc_bits import coded, with_four_bits
        from cnna.compiler.quantise.quantise import calibrated

        progress = self.counter("calibrating")
        given = calibrated(found.taken(), images, self.method, found.preprocess, progress=progress, effort=self.effort)
        given = replace(given, warnings=(*found.warnings, *given.warnings))
        if self.fc_bits == FC_BITS[0]:
            return given
        if self.fc_bits == "auto":
            outputs = given.graph.outputs
            metrics = {name: metric for name in outputs if (metric := metric_of(name, self.metrics, outputs))}
            return coded(given, images, MOST_LOST, self.counter, metrics)
        return with_four_bits(given)


@dataclass(eq=False)
class Given:
    """The model, the samples for its inputs, and what uint8 pictures go through.

    graph: of `cnna.compiler.quantise.quantise.float_graph`. Neither the model nor, once it has been taken, the graph is kept: that
    saves the memory of their weights. pictures: what was done to them.
    """

    graph: Any
    images: Arrays
    preprocess: Preprocess | None
    pictures: Prepared | None
    warnings: tuple[str, ...] = ()

    def taken(self) -> Any:
        """The graph, for one caller."""
        graph, self.graph = self.graph, None
        return graph


@with_tools
def quantize(
    model: GivenModel,
    data: Data,
    *,
    method: str = "minmax",
    effort: int = 0,
    fc_bits: int | str = 8,
    preprocess: Table | None = None,
    shapes: Shapes | None = None,
    examine: bool = False,
    search: float | None = None,
    labels: GivenLabels | None = None,
    metrics: Metrics | None = None,
    config: GivenConfig | None = None,
    output: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> Quantized:
    """Quantises a float model to int8.

    data: typical inputs, 100 do: the path of a .npy, a .npz or a folder of pictures; an array, or arrays by input name, with the
    samples in the first axis; or batches of these. preprocess: how pictures and uint8 arrays become the input, as a table with keys
    size, crop, scale, mean, std, layout and colour; the model stores it. method: minmax, percentile or mse. effort: 0, 1 or 2.
    fc_bits: 8, 4 or "auto". examine: measure what quantisation costs, for `report` and `save_report`. search: keep the worst layers
    in float until no more than so many points are lost. labels: the right class of each sample. metrics: by which outputs are
    judged. config: what a search predicts the speed for. UserError: an option that is none. ModelError: the model cannot be read or
    quantised. DataError: the samples or labels do not fit. Nothing is written unless all has gone well.
    """
    warnings, wanted = Warnings(warn), Examination(examine, search, labels, metrics_given(metrics), config)
    how = quantisation(method, effort, fc_bits, wanted.metrics or {}, progress or quiet)
    wanted.check(how.fc_bits == "auto")
    if output is not None:
        check_outputs({"output": Path(output)}, ())
    found = given(model, data, preprocess, shapes, warnings)
    result = made(model, data, found, how, wanted, output, warnings)
    if output is not None:
        result.save(output)
    return result


def quantisation(method: str, effort: int, fc_bits: int | str, metrics: Mapping[str, str], tell: Progress) -> Quantisation:
    """How a model is quantised. UserError: there are no such bits."""
    if str(fc_bits) not in FC_BITS:
        raise UserError(f"--fc-bits {fc_bits}: must be one of {', '.join(FC_BITS)}")

    def counter(what: str) -> Callable[[int, int], None]:
        def count(done: int, total: int) -> None:
            tell(done, total, what)

        return count

    return Quantisation(method, effort, str(fc_bits), metrics, counter)


def given(model: GivenModel, data: Data, preprocess: Table | None, shapes: Shapes | None, warn: Warn) -> Given:
    """Reads the model and the samples. UserError: they cannot be read, or do not fit."""
    stated = table_of(preprocess)  # a mistake in it is reported before the model is read
    from cnna.compiler.frontend.preprocess import entries
    from cnna.compiler.quantise.calibrate import check_samples
    from cnna.compiler.quantise.prepare import rewriting_warnings
    from cnna.compiler.quantise.quantise import float_graph

    name = name_of(model)
    with about_model(name):
        source = shaped(model, shapes, warn)
        graph = float_graph(source)
        wanted = {name: graph.tensors[name].shape[1:] for name in graph.inputs}
        own = beside(Path(name)) if name != UNNAMED else {}
        table = {**entries(source.proto), **own, **stated}
        how = _preprocess(name, table, stated, wanted)
        images = {each: rows[:] for each, rows in opened(data, wanted, graph.types, table, None, warn).items()}
        check_samples(graph, images, how)
        pictures = prepared(data, wanted, graph.types, table)
        return Given(graph, images, how, pictures, rewriting_warnings(source.proto, graph, images, how))


def _preprocess(
    name: str, table: Mapping[str, Any], stated: Mapping[str, Any], wanted: Mapping[str, Sequence[int]]
) -> Preprocess | None:
    """What uint8 pictures will go through; None if nothing says so. UserError: it does not fit the model's input."""
    if not table:
        return None
    if len(wanted) != 1:
        raise UserError(f"{name}: preprocessing (--scale, ...) is for models of one input; it has {', '.join(wanted)}")
    how = from_entry(table, name)
    check_channels(how, wanted, name, stated)
    return how


def made(
    model: GivenModel,
    data: Data,
    found: Given,
    how: Quantisation,
    wanted: Examination,
    output: str | PathLike[str] | None,
    warn: Warnings,
) -> Quantized:
    """Quantises what was read, and measures what is wanted."""
    name = name_of(model)
    measured: Examined | None = None
    if wanted.wanted:
        measured = examined(wanted, name, data, found.images, lambda images: how.calibrated(found, images), how.counter)
        source, report = measured.model, measured.report
    else:
        with about_model(name):
            calibrated = how.calibrated(found, found.images)
            kept = calibrated.behind_heads() if how.float_decode else ()
            source, report = calibrated.source(kept, refining=how.counter("refining"))
    for line in report.warnings:
        warn(line)
    return Quantized(
        output=None if output is None else Path(output),
        method=report.method,
        effort=report.effort,
        samples=report.samples,
        floating=report.floating,
        four_bits=report.coded,
        warnings=report.warnings,
        tensors={
            tensor: {"scale": quant.scale, "zero": quant.zero, "low": report.ranges[tensor][0], "high": report.ranges[tensor][1]}
            for tensor, quant in report.quants.items()
        },
        pictures=None if found.pictures is None else found.pictures.figures(),
        search=None if measured is None else measured.figures.get("search"),
        source=source,
        report=None if measured is None else measured.figures,
        quantiser=report,
        on_pictures=None if found.pictures is None else f"{called(data)}: {found.pictures}",
        on_search=measured.lines if measured else (),
        notes=warn.lines,
    )
