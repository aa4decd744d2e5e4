"""What an exploration needs before its first prediction: a board's configurations, the networks, and what is kept of them."""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cnna.jobs.given import GivenModel, Note, Shapes, Warn, name_of, native_host, shaped
from cnna.jobs.options.ddr import DDR_LIMITS, Ddr
from cnna.spec.boards import BOARDS, Board
from cnna.spec.config import Config, preset
from cnna.spec.counts import listed, many
from cnna.spec.errors import UserError
from cnna.spec.exploring import AXES
from cnna.spec.host_time.end_to_end import IN_PYTHON, NATIVELY, TO_ANSWER, rate
from cnna.spec.machine import MOST_BATCH

if TYPE_CHECKING:
    from cnna.compiler.explore.aim import Aim
    from cnna.compiler.explore.explore import Sweep
    from cnna.compiler.explore.kept import Kept
    from cnna.compiler.explore.point import Point
    from cnna.compiler.explore.search import Search
    from cnna.compiler.explore.sizes import Budget
    from cnna.compiler.explore.tasks import Conditions, Network, Source
    from cnna.compiler.explore.workers import Workers
    from cnna.compiler.placements import Placements

OPTION_OF = {"bram36": "bram", "luts": "lut", "uram288": "uram"}  # of fields of Budget
Early = Callable[[Mapping[str, Any]], object]  # gets the figures of a point


def space(
    board: str,
    limits: Mapping[str, int | None],
    batch: int | None,
    ddr: Ddr,
    swept: Sequence[str] = (),
    clocks: Sequence[int] = (),
) -> "tuple[Board, list[Config], Budget]":
    """A board, its configurations within a budget, and this. limits: other ones than the board's, by field of Budget. swept,
    clocks: as of `configurations`.

    UserError: there is no such board, nothing fits, or the DDR or the batch cannot be.
    """
    ddr.given()
    if ddr.named() is not None:
        raise UserError("explore predicts with the plain road to DDR; give bytes_per_cycle or latency")
    if clocks and ddr.given():
        raise UserError("--clock is not for another DDR: the board's moves as many bytes in a second at every clock")
    if batch is not None and not 1 <= batch <= MOST_BATCH:
        raise UserError(f"--batch {batch}: must be within 1..{MOST_BATCH}")
    if board not in BOARDS:
        raise UserError(f"--board {board}: there is no such board; there are {', '.join(BOARDS)}")
    from cnna.compiler.explore.grid import configurations
    from cnna.compiler.explore.sizes import budget_of

    for name, value in limits.items():
        if value is not None and value < 0:
            raise UserError(f"--{OPTION_OF.get(name, name)} {value}: must be at least 0")
    own = BOARDS[board]
    budget = budget_of(own)._replace(**{name: value for name, value in limits.items() if value is not None})
    return own, configurations(budget, own, swept, clocks), budget


def conditions(ddr: Ddr, board: Board, weights: Sequence[float], clocks: Sequence[int] = ()) -> "Conditions":
    """With what is predicted. weights: of the networks. clocks: at others than the preset's, the board's DDR has other figures."""
    from cnna.compiler.explore.tasks import Conditions

    parts = [weight / max(weights) for weight in weights]  # their sum is finite, whatever the weights are
    shares = tuple(part / sum(parts) for part in parts)
    return Conditions(None if clocks else ddr.predicted(board.ddr), native_host(), shares)


def speeds_of(given: Sequence[int], ddr: Ddr, board: Board, clocks: Sequence[int] = ()) -> Sequence[int | None]:
    """Speeds of the DDR, in million bytes a second, the slowest first; none given: None, which is that of the board or of `ddr`.

    UserError: a clock moves less than a byte of one, or more than any memory here.
    """
    if given and ddr.bytes_per_cycle is not None:
        raise UserError("--ddr-speed and --ddr-bytes-per-cycle both say how much the DDR moves; give one of them")
    tried = clocks or [preset(board.key).clock_mhz]
    (low, high), _ = DDR_LIMITS.values()
    for speed in given:
        if not low * max(tried) <= speed <= high * min(tried):
            within = f"{low * max(tried):,}..{high * min(tried):,} MB a second, {low} to {high} bytes a clock"
            raise UserError(f"--ddr-speed {speed}: must be within {within}")
    return sorted(set(given)) or [None]


def predicted_for(ddr: Ddr, board: Board, speeds: Sequence[int]) -> str:
    """Which DDR is predicted for, in words, where it is not the board's."""
    late = "" if ddr.latency is None else f" that answers after {ddr.latency} clocks"
    if speeds:
        return f" for a DDR of {listed([f'{speed:,}' for speed in sorted(set(speeds))])} MB a second{late}"
    return f" for {ddr.predicted(board.ddr)}" if ddr.given() else ""


def aim_of(
    objective: str | None,
    axes: Sequence[str] | None,
    target_fps: float | None,
    target_ms: float | None,
    energy: Mapping[str, float] | None = None,
    ddr_traffic: float | None = None,
) -> "Aim":
    """What is wanted. None: the usual. UserError: as of `Aim`, or nothing says how quick the smallest has to be."""
    from cnna.compiler.explore.aim import LEAST, Aim
    from cnna.compiler.explore.energy import energy_of

    usual = "fps" if target_fps is None and target_ms is None else "dsp"
    aim = Aim(objective or usual, AXES if axes is None else tuple(axes), target_fps, target_ms, energy_of(energy), ddr_traffic)
    if aim.objective in LEAST and not aim.given:
        wanted = f"--target-fps or --target-ms, {TO_ANSWER}"
        least = "slowest DDR" if aim.objective == "bandwidth" else "smallest array"
        raise UserError(f"--objective {aim.objective}: the least of all is the {least}; say what it must do with {wanted}")
    return aim


def several(model: "GivenModel | Sequence[GivenModel]") -> Sequence[GivenModel]:
    """The models. UserError: there is none."""
    found = list(model) if isinstance(model, Sequence) and not isinstance(model, str | bytes) else [model]
    if not found:
        raise UserError("no model is given; name at least one")
    return found


def weights_of(weights: Sequence[float] | None, count: int) -> Sequence[float]:
    """A weight for each of so many networks. UserError: there are others."""
    found = [1.0] * count if weights is None else list(weights)
    if len(found) != count or not all(0 < weight < inf for weight in found):
        raise UserError(
            f"--weights {','.join(f'{each:g}' for each in found)}: not {many(count, 'number')} above 0, one for each model"
        )
    return found


def reached(
    points: "Sequence[Point]",
    aim: "Aim",
    discarded: int,
    host: tuple[float, float] = (inf, 0.0),
    native: bool = True,
    remedy: Callable[[], str] = str,
) -> "list[Point]":
    """The points of the answer. host: images a second at most and seconds at least, of it alone; native: with its native library.
    remedy: finds what else may help such a host.

    UserError: no point does what it must.
    """
    best, (fps, late) = aim.best(points), host
    if not best and (fps < (aim.target_fps or 0) or late * 1e3 > (aim.target_ms or inf)):
        way = f"whatever the accelerator, the host's part, {NATIVELY if native else IN_PYTHON}, "
        way += f"allows {rate(fps)} images a second {TO_ANSWER}" if fps < (aim.target_fps or 0) else f"takes {late * 1e3:.3g} ms"
        why = f"{way} at the slow end; cnna explain says what runs on the CPU{remedy()}; ask for less"
        raise UserError(f"no configuration reaches {aim.targets}: {why}")
    if not best and aim.given:
        quickest = max((point.fps for point in points), default=None)
        most = f"; the quickest that was compiled does {rate(quickest)} images a second {TO_ANSWER}" if quickest else ""
        if aim.ddr_traffic is not None and points:
            moved = min(point.bytes / point.batch for point in points) / 1e6
            most += f"{' and' if most else ';'} the fewest bytes of these are {moved:,.3g} MB an image"
        rest = f", and the least work of {discarded:,} rules them out" if discarded else ""
        raise UserError(f"no configuration reaches {aim.targets}{rest}{most}; allow more of the chip, or ask for less")
    return best


def placements(model: GivenModel, shapes: Shapes | None, warn: Warn, detector: bool = False) -> "Placements":
    """The model, cut for any configuration. A float model is quantised with random numbers, which do not change its speed.

    detector: what it does behind a detector's heads stays in float, as of `cnna convert --detector`.
    UserError: nothing of it runs on the accelerator.
    """
    from cnna.compiler.frontend.onnx_import import to_graph
    from cnna.compiler.placements import Placements
    from cnna.compiler.quantise.calibrate import random_samples
    from cnna.compiler.quantise.quantise import calibrated, float_graph

    source = shaped(model, shapes, warn)
    if any(node.op_type.startswith(("QLinear", "QuantizeLinear", "DequantizeLinear")) for node in source.proto.graph.node):
        found = Placements(source)
    else:
        warn(Note(f"{name_of(model)}: float, so it is quantised with random numbers; this changes no clock"))
        given = calibrated(float_graph(source), random_samples(to_graph(source)))
        found = Placements(given.quantised(given.behind_heads() if detector else ())[0])
    if not found.programs:
        raise UserError(
            f"{name_of(model)}: nothing in it runs on the accelerator, so there is nothing to explore; cnna explain says why"
        )
    return found


def kept_of(cache: Path, network: "Placements", name: str, resume: bool, again: bool, own: str = "") -> "Kept":
    """The predictions of a network that are kept. again: none is taken. own: what else names them. UserError: `resume`, and there
    is none.
    """
    from cnna.compiler.explore.kept import Kept

    if resume and again:
        raise UserError("--resume takes what is kept and --again does not; give one of them")
    found = Kept(cache, f"{network.digest}{own}", forget=again)
    if resume and not len(found):
        raise UserError(f"--resume: nothing is kept of {name} in {cache}, by this version of cnna; leave out --resume to begin")
    return found


@contextmanager
def at_work(networks: "Sequence[Network]", jobs: int, executor: str | None) -> "Iterator[tuple[Source, Workers]]":
    """Workers, and the networks as they take them: themselves within this process, or a file of their pickle for others.

    executor: a cluster's address; None: processes of this machine. UserError: there are less than one, or the file has no room.
    """
    from cnna.compiler.explore.cluster import cluster
    from cnna.compiler.explore.workers import Workers

    if jobs < 1:
        raise UserError(f"--jobs {jobs}: must be at least 1")
    if executor is not None:
        with cluster(executor, networks) as both:
            yield both
    elif jobs == 1:
        with Workers.local(1) as workers:
            yield networks, workers
    else:
        with TemporaryDirectory(prefix="cnna-explore-") as folder, Workers.local(jobs) as workers:
            file = Path(folder) / "networks.pickle"
            try:
                file.write_bytes(pickle.dumps(networks, pickle.HIGHEST_PROTOCOL))
            except OSError as error:
                need = "TMPDIR names another folder for what processes share, and --jobs 1 needs none"
                raise UserError(f"{file}: {error.strerror}; {need}") from None
            yield file, workers


def compiled(
    sweep: "Sweep", configs: Sequence[Config], batch: int | None, speeds: Sequence[int | None], how: "Search | None"
) -> "tuple[list[Point], int]":
    """The points of a sweep, and how many configurations cannot run the networks. how: None compiles all points.

    Errors: as of `explore` and `search`.
    """
    from cnna.compiler.explore.explore import explore
    from cnna.compiler.explore.search import search

    if how is None:
        return explore(sweep, configs, batch, speeds)
    points = search(sweep, configs, batch, how, speeds)
    return points, len({one.config for one in sweep.refused} - {point.config for point in points})


def spent(point: "Point", aim: "Aim") -> dict[str, float]:
    """The figure of a point that follows from an aim."""
    return {"energy_joules": aim.energy.joules(point)}


def nobody(figures: Mapping[str, Any]) -> None:
    """Whom nobody listens to."""


def early(sweep: "Sweep", found: Early) -> None:
    """Hands the figures of each new point of a sweep on, and whether no point so far beats it."""
    points: list[Point] = []

    def hand(point: "Point") -> None:
        points.append(point)
        found({**point.figures(), **spent(point, sweep.aim), "pareto": point in sweep.aim.best(points)})

    sweep.found = hand
