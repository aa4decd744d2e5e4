"""`search` of `cnna.quantize`: keeps the worst layers in float until a loss is met, and says what that costs in speed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cnna.jobs.compile import predicted
from cnna.jobs.given import native_host
from cnna.spec.config import Config
from cnna.spec.counts import many
from cnna.spec.errors import ModelError
from cnna.spec.host_time.cortex_a53 import Range
from cnna.spec.host_time.end_to_end import IN_PYTHON, NATIVELY, TO_ANSWER, rates

if TYPE_CHECKING:
    from cnna.compiler.frontend.source_model import SourceModel
    from cnna.compiler.quantise.examine import Counter, Examiner
    from cnna.compiler.quantise.noise import Noise
    from cnna.compiler.quantise.quantise import Report
    from cnna.compiler.quantise.search import Found

NAMED = 8  # layers that are named in a line; the figures have all


@dataclass(frozen=True, eq=False)
class Searched:
    """The network of a search, its figures, and what layers cost, if that was measured. lines: what was found, and its price."""

    model: "SourceModel"
    report: "Report"
    costs: Mapping[str, float]
    figures: dict[str, Any]
    lines: tuple[str, ...]


def searched(
    examiner: "Examiner",
    limit: float,
    first: tuple["SourceModel", "Report"],
    noise: Mapping[str, "Noise"],
    config: Config,
    default: bool,
    counter: "Counter",
) -> Searched:
    """Searches for a network that loses no more than `limit` points. first: int8 throughout, with its noise. default: whether
    nobody has chosen the configuration.
    """
    from cnna.compiler.quantise.search import search

    found = search(examiner, limit, first, noise, counter("trying networks"))
    best = found.best
    figures: dict[str, Any] = {
        "limit": limit,
        "met": found.met,
        "of": found.of,
        "loss": best.loss,
        "loss_in_int8": found.losses[0],
        "kept": [layer.name for layer in best.kept],
        "tried": [{"kept": count, "loss": loss} for count, loss in found.losses.items()],
        "config": config.name,
    }
    lines = [_result(found, limit, examiner.on.count)]
    if best.kept:
        speeds = [_speed(model, config) for model in (first[0], best.model)]
        ends = [None if speed is None else [speed.slow, speed.quick] for speed in speeds]
        figures |= dict(zip(("fps_to_answer_in_int8", "fps_to_answer"), ends, strict=True))
        figures |= dict(zip(("fps_in_int8", "fps"), ends, strict=True))  # the same: scripts know them by these names
        lines.append(_price(speeds, config.name, default))
    figures["said"] = "; ".join(lines)
    return Searched(best.model, best.report, found.costs, figures, tuple(lines))


def _result(found: "Found", limit: float, samples: int) -> str:
    """What was found, in a line."""
    best, names = found.best, [layer.name for layer in found.best.kept]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    which = f"{len(names)} of {many(found.layers, 'layer')} in float on the CPU ({', '.join(names[:NAMED])}{more})"
    from cnna.compiler.quantise.answers import AGREEMENT, FEW, LABELLED

    few = min(FEW, samples)
    on = (
        f"points of {found.of} on {many(samples, 'sample')} held out, of which each counts {100 / samples:.2g}"
        if found.of in (AGREEMENT, LABELLED)
        else f"points of {found.of} on {many(few, 'sample')} held out"
    )
    if not found.met:
        nearest = f"the nearest network, with {which}," if names else "the network in int8"
        remedy = "try --effort 2, another --method, or more calibration samples"
        return f"--search {limit:g} cannot be met: {nearest} loses {best.loss:.2f} {on}; {remedy}"
    if not found.layers:
        return f"--search {limit:g} is met: no layer of the model has weights that can be int8; the loss is {best.loss:.2f} {on}"
    if not names:
        return f"--search {limit:g} is met with all layers in int8: the loss is {best.loss:.2f} {on}"
    return f"--search {limit:g} is met with {which}: the loss is {best.loss:.2f} instead of {found.losses[0]:.2f} {on}"


def _price(speeds: list[Range | None], config: str, default: bool) -> str:
    """What the layers in float cost in speed, in a line."""
    before, after = speeds
    chosen = f"{config} (the default; --config chooses another)" if default else config
    if before is None or after is None:
        return f"what this costs in images a second {TO_ANSWER} on {chosen} is not predicted: the network does not compile for it"
    now, all_int8 = (
        f"{rates(after)} images a second are modelled {TO_ANSWER}, {NATIVELY if native_host() else IN_PYTHON}",
        rates(before),
    )
    return f"on {chosen} {now}, and {all_int8} with all layers in int8"


def _speed(model: "SourceModel", config: Config) -> Range | None:
    """The modelled images a second from picture to answer; None if the model cannot be compiled for the configuration."""
    from cnna.compiler.compile import compile_model

    try:
        return predicted(compile_model(model, config)).fps()
    except ModelError:
        return None
