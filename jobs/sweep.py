"""What an exploration needs before its first prediction: a board's configurations, the networks, and what is kept of them."""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cnna.jobs.ddr import Ddr
from cnna.jobs.given import GivenModel, Note, Shapes, Warn, name_of, native_host, shaped
from cnna.spec.boards import BOARDS, Board
from cnna.spec.config import Config
from cnna.spec.errors import UserError

if TYPE_CHECKING:
    from cnna.compiler.explore.explore import Conditions, Network, Source, Sweep
    from cnna.compiler.explore.kept import Kept
    from cnna.compiler.explore.point import Point
    from cnna.compiler.explore.sizes import Budget
    from cnna.compiler.placements import Placements

Early = Callable[[Mapping[str, Any]], object]  # gets the figures of a point


def space(board: str, limits: Mapping[str, int | None], batch: int | None, ddr: Ddr) -> "tuple[Board, list[Config], Budget]":
    """A board, its configurations within a budget, and this. limits: other ones than the board's, by field of Budget.

    UserError: there is no such board, nothing fits, or the DDR or the batch cannot be.
    """
    ddr.given()
    if ddr.named() is not None:
        raise UserError("explore predicts with the plain road to DDR; give bytes_per_cycle or latency")
    if batch is not None and batch < 1:
        raise UserError(f"--batch {batch}: must be at least 1")
    if board not in BOARDS:
        raise UserError(f"--board {board}: there is no such board; there are {', '.join(BOARDS)}")
    from cnna.compiler.explore.grid import configurations
    from cnna.compiler.explore.sizes import budget_of

    own = BOARDS[board]
    budget = budget_of(own)._replace(**{name: value for name, value in limits.items() if value is not None})
    return own, configurations(budget, own), budget


def conditions(ddr: Ddr, board: Board) -> "Conditions":
    """With what is predicted."""
    from cnna.compiler.explore.explore import Conditions

    return Conditions(ddr.predicted(board.ddr), native_host())


def placements(model: GivenModel, shapes: Shapes | None, warn: Warn) -> "Placements":
    """The model, cut for any configuration. A float model is quantised with random numbers, which do not change its speed.

    UserError: nothing of it runs on the accelerator.
    """
    from cnna.compiler.frontend.onnx_import import to_graph
    from cnna.compiler.placements import Placements
    from cnna.compiler.quantise.calibrate import random_samples
    from cnna.compiler.quantise.quantise import quantise

    source = shaped(model, shapes, warn)
    if any(node.op_type.startswith(("QLinear", "QuantizeLinear", "DequantizeLinear")) for node in source.proto.graph.node):
        found = Placements(source)
    else:
        warn(Note(f"{name_of(model)}: float, so it is quantised with random numbers; this changes no clock"))
        found = Placements(quantise(source, random_samples(to_graph(source)))[0])
    if not found.programs:
        raise UserError(
            f"{name_of(model)}: nothing in it runs on the accelerator, so there is nothing to explore; cnna explain says why"
        )
    return found


def kept_of(cache: Path, network: "Placements", name: str, resume: bool, again: bool) -> "Kept":
    """The predictions of a network that are kept. again: none is taken. UserError: `resume`, and there is none."""
    from cnna.compiler.explore.kept import Kept

    if resume and again:
        raise UserError("--resume takes what is kept and --again does not; give one of them")
    found = Kept(cache, network.digest, forget=again)
    if resume and not len(found):
        raise UserError(f"--resume: nothing is kept of {name} in {cache}, by this version of cnna; leave out --resume to begin")
    return found


@contextmanager
def sent(networks: "Sequence[Network]", jobs: int) -> "Iterator[Source]":
    """The networks as workers take them: themselves within this process, or a file of their pickle."""
    if jobs == 1:
        yield networks
        return
    with TemporaryDirectory(prefix="cnna-explore-") as folder:
        file = Path(folder) / "networks.pickle"
        file.write_bytes(pickle.dumps(networks, pickle.HIGHEST_PROTOCOL))
        yield file


def early(sweep: "Sweep", found: Early | None) -> "Callable[[Point], object]":
    """Hands the figures of each new point on, and whether no point so far beats it."""
    from cnna.compiler.explore.point import pareto

    def hand(point: "Point") -> None:
        if found is not None:
            found({**point.figures(), "pareto": point in pareto(sweep.points)})

    return hand
