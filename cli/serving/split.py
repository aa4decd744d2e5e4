"""`cnna split`: cuts a quantised model in two, where edge, link and cloud are quickest, and writes both sides' repositories."""

import argparse
import json
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cnna.cli.board import is_loopback
from cnna.cli.main import Outcome
from cnna.cli.options import CONFIG_HELP, add_shape_option, configuration, load_shaped
from cnna.cli.progress import Progress
from cnna.cli.serving.serve import GRPC, HTTP
from cnna.serve.models.repository import NAME, NAME_RULE
from cnna.serve.models.settings import is_address
from cnna.spec.errors import UserError, about_model
from cnna.spec.files import make_folder, write_bytes, write_text

if TYPE_CHECKING:
    from cnna.compiler.split.costs import Cost
    from cnna.compiler.split.cuts import Cut, Cuts
    from cnna.compiler.split.halves import Halves

AUTO, CONFIG, ADDRESS = "auto", "zcu102", f"grpc://{GRPC}"
SHOWN = 5
SAMPLES = 2
ANY = {False: "0.0.0.0", True: "[::]"}  # all addresses of a machine, of IPv4 and of IPv6
TLS = "--tls-certificate CERT.pem --tls-key KEY.pem"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("onnx", type=Path, metavar="Q.onnx", help="quantised by cnna quantize, or any model in QDQ form")
    parser.add_argument("--at", default=AUTO, metavar="NODE", help="cut behind this node (default: auto, where it is quickest)")
    parser.add_argument("--link", type=float, required=True, metavar="MBIT", help="the link's speed, in millions of bits a second")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a folder that does not exist, or is empty")
    parser.add_argument("--config", default=CONFIG, metavar="C", help=f"the edge's accelerator: {CONFIG_HELP} (default: {CONFIG})")
    parser.add_argument("--tensors", type=int, default=1, metavar="N", help="so many tensors may cross (default: 1)")
    parser.add_argument("--name", metavar="M", help="what the model is served as (default: the file's name)")
    parser.add_argument("--address", default=ADDRESS, metavar="URL", help=f"where the cloud's server is (default: {ADDRESS})")
    add_shape_option(parser)


def run(args: argparse.Namespace) -> Outcome:
    """Prints the quickest cuts, writes the halves of the chosen one, and compares them with the whole model."""
    from cnna.compiler.split.cuts import Cuts
    from cnna.compiler.split.halves import check_halves, halves_of

    name = _checked(args)
    with about_model(args.onnx):
        model = load_shaped(args.onnx, args).proto
        cuts = Cuts(model)
        if args.at == AUTO:
            costs = sorted(_costs(args, cuts, cuts.all(args.tensors)), key=lambda cost: cost.total)
        else:
            costs = _costs(args, cuts, [cuts.at(args.at, args.tensors)])
        print("\n".join(_table(costs[:SHOWN], args.link)))
        cut = costs[0].cut
        halves = halves_of(cuts, cut)
        with Progress("comparing both halves with the whole"):
            check_halves(model, halves, _noise(model))
    _write(args, name, cuts, cut, halves)
    print(f"{args.out}: cut behind {cut.node}; both halves together equal the whole model")
    edge, there, config = (shlex.quote(f"{text}") for text in (args.out / "edge", args.out / "cloud", args.config))
    print(f"  cnna publish {edge}.onnx --repo {edge} --model {name}-edge --config {config}")
    cloud_options, edge_options = listening(args.address)
    print(f"  cnna serve {there}{cloud_options}    # there, at {args.address}")
    print(f"  cnna serve {edge}{edge_options}    # here: {name} is the whole")
    figures = {"node": cut.node, "cuts": [_figures(cost) for cost in costs]}
    return Outcome(figures)


def listening(address: str) -> tuple[str, str]:
    """The options with which `cnna serve` listens where the edge asks, there and here. Both can be on one machine.

    HTTP takes the port beside gRPC's, as the defaults do.
    """
    scheme, _, place = address.partition("//")
    host, _, text = place.rpartition(":")
    port, local = int(text), is_loopback(host.removeprefix("[").removesuffix("]"))
    beside = port - 1 if port > 1 else port + 1
    at = f"{host if local else ANY['[' in host]}:{port}"
    cloud = _options(at, f"{host if local else HTTP.rpartition(':')[0]}:{beside}")
    cloud += f" {TLS}" if scheme == "grpcs:" else ""
    if not local:
        return f"{cloud} --insecure", ""
    (here, grpc), http = GRPC.rsplit(":", 1), HTTP.rpartition(":")[2]
    step = next(step for step in range(0, 8, 2) if not {int(http) + step, int(grpc) + step} & {port, beside})
    return cloud, _options(f"{here}:{int(grpc) + step}", f"{here}:{int(http) + step}")


def _options(grpc: str, http: str) -> str:
    """Those that are not the defaults, each after a space."""
    given = (("--grpc", grpc, GRPC), ("--http", http, HTTP))
    return "".join(f" {option} {shlex.quote(place)}" for option, place, usual in given if place != usual)


def _checked(args: argparse.Namespace) -> str:
    """The model's name. UserError: an option is out of range."""
    name: str = args.name or args.onnx.stem
    if not NAME.fullmatch(name):
        raise UserError(f"--name {name}: {NAME_RULE}")
    if not is_address(args.address):
        raise UserError(f"--address {args.address}: must be grpc://HOST:PORT, or grpcs://HOST:PORT for TLS")
    if not 0 < args.link < 1e9:
        raise UserError(f"--link {args.link:g}: must be millions of bits a second, above 0")
    if args.tensors < 1:
        raise UserError(f"--tensors {args.tensors}: must be at least 1")
    if args.out.exists() and (not args.out.is_dir() or any(args.out.iterdir())):
        raise UserError(f"{args.out}: is there already; give a folder that does not exist, or is empty")
    return name


def _costs(args: argparse.Namespace, cuts: "Cuts", found: Sequence["Cut"]) -> list["Cost"]:
    """Edge: predicted, layer by layer, of the whole model. Cloud: measured here. One sample."""
    from cnna.compiler.compile import compile_model
    from cnna.compiler.report import report
    from cnna.compiler.split.costs import Cost, cloud_seconds, edge_seconds
    from cnna.compiler.split.halves import halves_of

    config = configuration(args.config)
    with Progress(f"predicting {config.name}") as progress:
        layers = report.figures(compile_model(cuts.model, config, 1, count=progress.step))["layers"]
    known, costs = frozenset(node.name for node in cuts.model.graph.node), []
    for number, cut in enumerate(found, 1):
        with Progress(f"measuring cut {number} of {len(found)}"):
            cloud = cloud_seconds(halves_of(cuts, cut).cloud)
        edge, link = edge_seconds(cut, layers, known, config.clock_mhz), cut.bytes * 8 / (args.link * 1e6)
        costs.append(Cost(cut, edge, link, cloud))
    return costs


def _table(costs: Sequence["Cost"], link: float) -> list[str]:
    width = max(len("behind"), *(len(cost.cut.node) for cost in costs))
    head = f"{'behind':{width}} {'kB':>8} {'edge, ms':>9} {f'{link:g} Mbit/s, ms':>16} {'cloud, ms':>10} {'all, ms':>9}"
    rows = [
        f"{one.cut.node:{width}} {one.cut.bytes / 1e3:8.1f} {one.edge * 1e3:9.3f} {one.link * 1e3:16.3f} "
        f"{one.cloud * 1e3:10.3f} {one.total * 1e3:9.3f}"
        for one in costs
    ]
    return [head, *rows]


def _figures(cost: "Cost") -> dict[str, Any]:
    seconds = {"edge_seconds": cost.edge, "link_seconds": cost.link, "cloud_seconds": cost.cloud}
    return {"node": cost.cut.node, "bytes": cost.cut.bytes, "tensors": [one.name for one in cost.cut.crossings], **seconds}


def _noise(model: Any) -> dict[str, Any]:
    """Samples that are the same on every computer."""
    from onnx import helper

    rng, found = np.random.default_rng(1), {}
    for one in model.graph.input:
        sizes = [size.dim_value for size in one.type.tensor_type.shape.dim]
        kind = np.dtype(helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type))
        shape = [sizes[0] or SAMPLES, *sizes[1:]]
        found[one.name] = rng.normal(size=shape).astype(kind) if kind.kind == "f" else np.zeros(shape, kind)
    return found


def _write(args: argparse.Namespace, name: str, cuts: "Cuts", cut: "Cut", halves: "Halves") -> None:
    """DIR/edge.onnx, and the repositories DIR/edge and DIR/cloud."""
    cloud, here, pipeline = f"{name}-cloud", args.out / "edge", args.out / "edge" / name
    try:
        for folder in (pipeline, here / cloud / "1", args.out / "cloud" / cloud / "1"):
            make_folder(folder)
        write_bytes(args.out / "edge.onnx", halves.edge.SerializeToString())
        write_bytes(args.out / "cloud" / cloud / "1" / "model.onnx", halves.cloud.SerializeToString())
        write_text(args.out / "cloud" / cloud / "model.yaml", "runtime: onnxruntime\n")
        remote = {"address": args.address, "model": cloud}
        write_text(here / cloud / "model.yaml", f"runtime: remote\nremote: {json.dumps(remote)}\n")
        if halves.pack is not None:
            write_bytes(pipeline / "pack.onnx", halves.pack.SerializeToString())
        write_text(pipeline / "pipeline.yaml", _pipeline(name, cuts, cut, halves))
    except BaseException:
        shutil.rmtree(args.out, ignore_errors=True)
        raise


def _pipeline(name: str, cuts: "Cuts", cut: "Cut", halves: "Halves") -> str:
    """Its steps: the edge's half, the pack, and the cloud's. JSON is YAML too, and quotes every name."""
    from onnx import helper

    inputs, sizes = [one.name for one in cuts.model.graph.input], {}
    for one in cuts.model.graph.input:
        shape = [size.dim_value or -1 for size in one.type.tensor_type.shape.dim]
        kind = np.dtype(helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type)).name
        sizes[one.name] = {"type": kind, "shape": [-1, *shape[1:]]}
    given = [one.name for one in halves.edge.graph.input]
    packed = {one.name for one in halves.pack.graph.output} if halves.pack is not None else set()
    steps: dict[str, Any] = {"edge": {"model": f"{name}-edge", "inputs": {one: one for one in given}}}
    if halves.pack is not None:
        steps["pack"] = {"onnx": "pack.onnx", "inputs": {one.name: f"edge.{one.name}" for one in halves.pack.graph.input}}
    sources = {}
    for crossing in cut.crossings:
        step = "pack" if crossing.name in packed else "edge"
        sources[crossing.name] = crossing.name if crossing.name in inputs else f"{step}.{crossing.name}"
    steps["cloud"] = {"model": f"{name}-cloud", "inputs": sources}
    outputs = {one.name: f"cloud.{one.name}" for one in cuts.model.graph.output}
    lines = [f"# Written by cnna split: cut behind {cut.node}.", "inputs:", *_entries(sizes), "steps:", *_entries(steps)]
    return "\n".join([*lines, "outputs:", *_entries(outputs)]) + "\n"


def _entries(table: dict[str, Any]) -> list[str]:
    return [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in table.items()]
