"""`cnna.split`: cuts a quantised model in two, where edge, link and cloud are quickest, and writes both sides' repositories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cnna.jobs.given import UNNAMED, GivenModel, Progress, Shapes, Warn, Warnings, name_of, quiet, shaped, with_tools
from cnna.jobs.options.configurations import GivenConfig, config_of
from cnna.jobs.result import ASIDE, Result
from cnna.spec.config import Config
from cnna.spec.errors import ModelError, UserError, about_model

if TYPE_CHECKING:
    from cnna.compiler.split.costs import Cost
    from cnna.compiler.split.cuts import Cut, Cuts

AUTO, CONFIG, ADDRESS = "auto", "zcu102", "grpc://127.0.0.1:8001"  # where `cnna serve` listens
LEAST_LINK, MOST_LINK = 1e-6, 1e9  # one bit a second; slower ones made all cuts infinite, and any of them the best
SHOWN = 5
COMPILED = 4  # cuts that are compared by clocks of the edge's half alone: a layer of the whole model may lie on both sides of a cut
SAMPLES = 2
STEM = "model"  # what a model without a file is served as


@dataclass(frozen=True, eq=False, kw_only=True)
class Split(Result):
    """A model in two. node: behind which it is cut. cuts: what each takes, in seconds of a sample, the quickest first.

    name: what it is served as. output: the folder. link: in millions of bits a second. costs: as `cuts`, for programs. notes: the
    lines that `warn` got.
    """

    node: str
    cuts: Sequence[Mapping[str, Any]]
    name: str = field(metadata=ASIDE)
    output: Path = field(metadata=ASIDE)
    link: float = field(metadata=ASIDE)
    costs: "Sequence[Cost]" = field(metadata=ASIDE)
    notes: tuple[str, ...] = field(metadata=ASIDE)

    def __str__(self) -> str:
        done = f"{self.output}: cut behind {self.node}; both halves together equal the whole model"
        return "\n".join([*_table(self.costs[:SHOWN], self.link), done])


@with_tools
def split(
    model: GivenModel,
    link: float,
    output: str | PathLike[str],
    *,
    at: str = AUTO,
    config: GivenConfig = CONFIG,
    tensors: int = 1,
    name: str | None = None,
    address: str = ADDRESS,
    shapes: Shapes | None = None,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> Split:
    """Cuts where a sample is answered soonest, compares the halves with the whole, and writes what two servers need.

    link: millions of bits a second. output: a folder that does not exist, or is empty. at: the node behind which it is cut; "auto":
    the quickest. config: the edge's. tensors: how many may cross. name: what it is served as; None: the file's name. address: of
    the cloud's server. UserError: an argument does not fit. ModelError: the model cannot be cut there.
    """
    from cnna.compiler.split.costs import quickest
    from cnna.compiler.split.cuts import Cuts
    from cnna.compiler.split.halves import check_halves, halves_of
    from cnna.compiler.split.repositories import write

    tell, warnings, root, chosen = progress or quiet, Warnings(warn), Path(output), config_of(config)
    served = _checked(name or (Path(name_of(model)).stem if name_of(model) != UNNAMED else STEM), link, tensors, address, root)
    with about_model(name_of(model)):
        whole = shaped(model, shapes, warnings).proto
        cuts = Cuts(whole)
        if at == AUTO:
            near = quickest(_costs(chosen, link, cuts, cuts.all(tensors), tell))
            costs = [*quickest(_compiled(chosen, cuts, near[:COMPILED], tell)), *near[COMPILED:]]
        else:
            costs = _costs(chosen, link, cuts, [cuts.at(at, tensors)], tell)
        cut = costs[0].cut
        halves = halves_of(cuts, cut)
        tell(0, 0, "comparing both halves with the whole")
        check_halves(whole, halves, _noise(whole))
    write(root, address, served, cuts, cut, halves)
    figures = [cost.figures() for cost in costs]
    return Split(node=cut.node, cuts=figures, name=served, output=root, link=link, costs=costs, notes=warnings.lines)


def _checked(name: str, link: float, tensors: int, address: str, root: Path) -> str:
    """The model's name. UserError: an argument is out of range."""
    from cnna.serve.models.repository import NAME, NAME_RULE
    from cnna.serve.models.settings import is_address

    if not NAME.fullmatch(name):
        raise UserError(f"--name {name}: {NAME_RULE}")
    if not is_address(address):
        raise UserError(f"--address {address}: must be grpc://HOST:PORT, or grpcs://HOST:PORT for TLS")
    if not LEAST_LINK <= link < MOST_LINK:
        raise UserError(f"--link {link:g}: must be millions of bits a second, from {LEAST_LINK:g} to {MOST_LINK:g}")
    if tensors < 1:
        raise UserError(f"--tensors {tensors}: must be at least 1")
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise UserError(f"{root}: is there already; give a folder that does not exist, or is empty")
    return name


def _costs(config: Config, link: float, cuts: "Cuts", found: Sequence["Cut"], tell: Progress) -> list["Cost"]:
    """Edge: predicted, layer by layer, of the whole model. Cloud: measured here. One sample."""
    from cnna.compiler.split.costs import Cost, cloud_seconds, edge_seconds, link_seconds
    from cnna.compiler.split.halves import halves_of

    tell(0, 0, f"predicting {config.name}")
    layers = _layers(cuts.model, config, tell)
    known, costs = frozenset(node.name for node in cuts.model.graph.node), []
    for number, cut in enumerate(found, 1):
        tell(0, 0, f"measuring cut {number} of {len(found)}")
        cloud = cloud_seconds(halves_of(cuts, cut).cloud)
        edge = edge_seconds(cut, layers, known, config.clock_mhz)
        costs.append(Cost(cut, edge, link_seconds(cut, link), cloud))
    return costs


def _compiled(config: Config, cuts: "Cuts", costs: Sequence["Cost"], tell: Progress) -> list["Cost"]:
    """The same cuts, with the clocks of the edge's half as it will run. One whose half fails alone keeps its clocks."""
    from cnna.compiler.split.halves import halves_of

    found = []
    for number, cost in enumerate(costs, 1):
        tell(0, 0, f"predicting half {number} of {len(costs)}")
        try:
            layers = _layers(halves_of(cuts, cost.cut).edge, config, tell)
        except ModelError:
            found.append(cost)
            continue
        found.append(replace(cost, edge=sum(layer["predicted_cycles"] for layer in layers) / (config.clock_mhz * 1e6)))
    return found


def _layers(model: Any, config: Config, tell: Progress) -> Sequence[Mapping[str, Any]]:
    """What is predicted of a model's layers, for one sample."""
    from cnna.compiler.compile import compile_model
    from cnna.compiler.report import report

    layers: Sequence[Mapping[str, Any]] = report.figures(compile_model(model, config, 1, count=tell))["layers"]
    return layers


def _table(costs: Sequence["Cost"], link: float) -> list[str]:
    width = max(len("behind"), *(len(cost.cut.node) for cost in costs))
    parts = f"{'edge, ms':>9} {'pack, ms':>9} {f'{link:g} Mbit/s, ms':>16} {'cloud, ms':>10}"
    head = f"{'behind':{width}} {'kB':>8} {parts} {'all, ms':>9}"
    rows = [
        f"{one.cut.node:{width}} {one.cut.bytes / 1e3:8.1f} {one.edge * 1e3:9.3f} {one.pack * 1e3:9.3f} {one.link * 1e3:16.3f} "
        f"{one.cloud * 1e3:10.3f} {one.total * 1e3:9.3f}"
        for one in costs
    ]
    return [head, *rows]


def _noise(model: Any) -> dict[str, Any]:
    """Samples that are the same on every computer."""
    from onnx import helper

    rng, found = np.random.default_rng(1), {}
    for one in model.graph.input:
        sizes = [size.dim_value for size in one.type.tensor_type.shape.dim]
        kind = np.dtype(helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type))
        shape = [sizes[0] or SAMPLES, *sizes[1:]]
        if kind.kind == "f":
            found[one.name] = rng.normal(size=shape).astype(kind)
        else:  # all of 8 bits, of which pictures are; wider ones may be numbers of rows, of which there are two or more
            low, most = (np.iinfo(kind).min, np.iinfo(kind).max) if kind.itemsize == 1 and kind.kind in "iu" else (0, 1)
            found[one.name] = rng.integers(low, most, shape, endpoint=True).astype(kind)
    return found
