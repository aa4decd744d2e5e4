"""What `cnna.explore` predicted, confirmed: the best points run on the RTL, with smaller images, and predicted for the same."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cnna.jobs.given import Progress
from cnna.jobs.options.ddr import Ddr
from cnna.jobs.result import Result
from cnna.spec.artifact import Artifact
from cnna.spec.boards import ddr_of
from cnna.spec.errors import ModelError, UserError
from cnna.spec.files import make_folder

if TYPE_CHECKING:
    from cnna.compiler.explore.point import Point
    from cnna.compiler.placements import Placements

MOST_CLOCKS = 500_000  # of a run, where the size is not given: a minute of simulation, where a simulator's build takes four
RTL = "rtl"
FOLDER, FILE = "explore", "confirmed.jsonl"  # in the cache
SIMULATING = "running on the RTL"


@dataclass(frozen=True)
class Confirmed:
    """A point on the RTL. size: rows and columns of the images that were run. predicted, counted: clocks of a batch of them."""

    model: str
    config: str
    batch: int
    size: tuple[int, int] | None
    predicted: int
    counted: int

    @property
    def missed(self) -> float:
        """By how much the prediction missed: its share of the clocks that were counted; above 0, it was too high."""
        return self.predicted / self.counted - 1

    def figures(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "missed": self.missed}

    def cells(self) -> tuple[str, ...]:
        """Of a table."""
        images = "whole" if self.size is None else f"{self.size[0]}x{self.size[1]}"
        clocks = f"{self.predicted:,}", f"{self.counted:,}"
        return (self.model, self.config, f"{self.batch}", images, *clocks, f"{self.missed:+.2%}")


@dataclass(frozen=True)
class Means:
    """With what points are confirmed. size: the longer edge of the images; None: the greatest of few clocks."""

    ddr: Ddr
    cache: Path
    size: int | None
    tell: Progress


@dataclass(frozen=True, eq=False, kw_only=True)
class Confirmation(Result):
    """What was run on the RTL, the best configuration first."""

    runs: Sequence[Confirmed]

    def __str__(self) -> str:
        from cnna.compiler.frontend.onnx_model.smaller import STEP

        heads = ("model", "config", "batch", "images", "clocks, predicted", "clocks, RTL", "prediction off by")
        rows = [heads, *(run.cells() for run in self.runs)]
        if len({run.model for run in self.runs}) == 1:
            rows = [row[1:] for row in rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        made = any(run.size for run in self.runs)
        least = f"a run takes at most {MOST_CLOCKS:,} clocks or they have {STEP} pixels"
        why = f"; images are halved until {least}, unless --confirm-size says their size" * made
        table = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*table, f"on the simulated RTL, with the DDR that was predicted for{why}"])


def checked_size(size: int | None, networks: "Sequence[Placements]" = ()) -> int | None:
    """UserError: no image has that size, or one of the networks does not run with such images."""
    if size is not None and size < 1:
        raise UserError(f"--confirm-size {size}: must be at least 1 pixel")
    if size is not None:
        for network in networks:
            _check_smaller(network, size)
    return size


def _check_smaller(network: "Placements", size: int) -> None:
    """UserError: the network does not run with images of this longer edge. It takes a second, where a sweep takes minutes."""
    from cnna.compiler.frontend.onnx_model.smaller import STEP, image_size, smaller
    from cnna.compiler.placements import Placements

    own = image_size(network.proto)
    if own is None or size > max(own):
        most = "its input is no image of known size" if own is None else f"its images are {own[0]}x{own[1]}"
        raise UserError(f"--confirm-size {size}: {network.name}: {most}")
    if size == max(own):
        return
    if size % STEP:
        raise UserError(f"--confirm-size {size}: must be a multiple of {STEP}: networks halve their images five times")
    model = smaller(network.proto, size)
    try:
        same = model is not None and len(Placements(model).programs) == len(network.programs)
    except ModelError:
        same = False
    if not same:
        raise _too_small(network, size, max(own))


def _too_small(network: "Placements", edge: int, own: int) -> UserError:
    text = f"--confirm: {network.name} does not run with images of {edge} pixels, since its nodes name their sizes"
    return UserError(f"{text}; --confirm-size {own} runs it whole")


def confirmed(points: "Sequence[Point]", networks: "Sequence[Placements]", means: Means) -> Iterator[Confirmed]:
    """Runs each point with each network. What was run before comes from the cache, as long as program and Verilog are the same.

    UserError: a model cannot be made so small, or is too large for a simulation. RunError: as of the simulator.
    """
    from cnna.compiler.explore.point import option

    kept, given = Counts(means.cache), means
    for number, (point, network) in enumerate(product(points, networks)):
        speed = None if point.asked is None else point.ddr.bytes_per_cycle
        means = given if speed is None else replace(given, ddr=replace(given.ddr, bytes_per_cycle=speed))
        run = _run(network, point, means)
        name = _name_of(run.artifact, means)
        counted = kept.get(name)
        if counted is None:
            what = f"{SIMULATING}: {option(point.config)}, {number + 1} of {len(points) * len(networks)}"
            counted = _counted(run.artifact, means, partial(_tell, means.tell, what), partial(means.tell, 0, 0))
            kept.put(name, counted)
        yield Confirmed(network.name, option(point.config), point.batch, run.size, _predicted(run, point, means), counted)


def _tell(tell: Progress, what: str, done: int, total: int) -> None:
    tell(done, total, what)


class Run(NamedTuple):
    """What is run. size: of the images; None: they are as large as those of the model that was explored."""

    artifact: Artifact
    size: tuple[int, int] | None


def _run(network: "Placements", point: "Point", means: Means) -> Run:
    """The program to run. UserError: the model does not run with images of such a size."""
    from cnna.compiler.frontend.onnx_model.smaller import sizes

    if means.size is not None:
        return _made(network, point, means.size)
    made = _made(network, point, None)
    for edge in sizes(network.proto):
        if made.artifact.predicted_clocks() <= MOST_CLOCKS:
            break
        made = _made(network, point, edge)
    return made


def _made(network: "Placements", point: "Point", edge: int | None) -> Run:
    """The program for images of that longer edge; None: of their own size. UserError: the nodes take no others."""
    from cnna.compiler.compile import compile_model
    from cnna.compiler.frontend.onnx_model.smaller import image_size, smaller

    own = image_size(network.proto)
    if edge is None or (own and edge == max(own)):
        return Run(compile_model(network.proto, point.config, point.batch), None)
    model = smaller(network.proto, edge)
    try:
        made = None if model is None else compile_model(model, point.config, point.batch)
    except ModelError:
        made = None
    if model is None or made is None or len(made.programs) != len(network.programs):
        raise _too_small(network, edge, max(own or (0,)))
    return Run(made, image_size(model))


def _predicted(run: Run, point: "Point", means: Means) -> int:
    """Clocks of a batch with the DDR that is simulated. The program is not compiled again for that."""
    from cnna.compiler.report.report import figures

    own = ddr_of(point.config)
    memory = means.ddr.predicted(own, ports=point.config.ports)
    if memory == own:
        return run.artifact.predicted_clocks()
    return int(figures(run.artifact, memory=memory)["predicted"]["cycles"])


def _counted(artifact: Artifact, means: Means, tell: Callable[[int, int], object], say: Callable[[str], object]) -> int:
    """Clocks of a batch on the RTL. They do not depend on the samples."""
    from cnna.evaluate.speed.live import Port, random_samples, sizes_of
    from cnna.host.model.session import InferenceSession

    clocks, batch = artifact.predicted_clocks(), int(artifact.manifest["batch"])
    ports = [Port(entry["name"], sizes_of(entry["shape"]), entry["dtype"]) for entry in artifact.manifest["model_inputs"]]
    options: dict[str, Any] = {"cache": means.cache, "ddr": means.ddr.simulated()}
    with InferenceSession(artifact, RTL, say=say, count=lambda done: tell(done, clocks), **options) as session:
        session.run(None, {port.name: random_samples(port, batch) for port in ports})
        return int(session.last["cycles"] or 0)


def _name_of(artifact: Artifact, means: Means) -> str:
    """What the clocks follow from: programs, configuration, DDR, and the sources of the Verilog and of its simulation."""
    from cnna.sim.rtl.linked_models import board_settings
    from cnna.sim.rtl.sources import digest

    programs = [sha256(piece.program).hexdigest() for piece in artifact.programs]
    whole = json.dumps([programs, digest(artifact.config), board_settings(artifact.config) | means.ddr.simulated()], sort_keys=True)
    return sha256(whole.encode()).hexdigest()


class Counts:
    """Clocks that were counted, by name, kept in a cache folder. A line that cannot be read is passed over."""

    def __init__(self, cache: Path) -> None:
        self._path, self._found = cache / FOLDER / FILE, dict[str, int]()
        for line in self._path.read_text(errors="replace").splitlines() if self._path.exists() else ():
            try:
                name, clocks = json.loads(line)
                self._found[str(name)] = int(clocks)
            except (ValueError, TypeError):
                logging.getLogger(__name__).debug("%s: a line cannot be read", self._path)

    def get(self, name: str) -> int | None:
        """The clocks; None: nobody has counted them."""
        return self._found.get(name)

    def put(self, name: str, clocks: int) -> None:
        """Keeps them at once. UserError: the file cannot be written."""
        self._found[name] = clocks
        make_folder(self._path.parent)
        try:
            with self._path.open("a") as file:
                file.write(f"\n{json.dumps([name, clocks])}")
        except OSError as error:
            raise UserError(f"{self._path}: {error.strerror}; --cache names another folder") from None
