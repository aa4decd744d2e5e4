"""`cnna compile`: a quantised ONNX model becomes a .cnna for one configuration of the accelerator."""

import argparse
from pathlib import Path

from cnna.cli.main import Outcome
from cnna.cli.options import CONFIG_HELP, add_shape_option, configuration, given_shapes
from cnna.spec.artifact import save
from cnna.spec.errors import about_model
from cnna.spec.files import make_folder

OUTPUTS = ("output",)


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("model", type=Path, metavar="Q.onnx", help="quantised: by cnna quantize, or QDQ or QLinear from elsewhere")
    parser.add_argument("--config", required=True, metavar="C", help=CONFIG_HELP)
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="images in one run of the program (default: 1)")
    add_shape_option(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="M.cnna")
    parser.add_argument("--dump", type=Path, metavar="DIR", help="write the graph after every pass")


def run(args: argparse.Namespace) -> Outcome:
    """Compiles and writes."""
    config = configuration(args.config)
    if args.dump:
        make_folder(args.dump)
    from cnna.compiler.compile import compile_model
    from cnna.compiler.frontend.onnx_import import load_model

    with about_model(args.model):
        artifact = compile_model(load_model(args.model, shapes=given_shapes(args)), config, batch=args.batch, dump=args.dump)
    save(artifact, args.output)
    manifest = artifact.manifest
    figures = {
        "output": str(args.output),
        "config": config.name,
        "batch": manifest["batch"],
        "macs": manifest["macs"],
        "layers": len(manifest["layers"]),
        "program_writes": manifest["program_writes"],
        "constant_bytes": len(artifact.constants),
        "workspace_bytes": manifest["segments"]["workspace"],
        "activation_bytes": manifest["activation_bytes"],
        "predicted_cycles": artifact.predicted_clocks(),
        "cpu_head": [node["op"] for node in manifest["cpu_head"]],
        "cpu_tail": [node["op"] for node in manifest["cpu_tail"]],
    }
    print(
        f"{args.output}: {figures['layers']} layers for {config.name}, {manifest['macs']:,} MACs an image, "
        f"{figures['program_writes']:,} register writes, {figures['constant_bytes']:,} bytes of constants"
    )
    alive, separate = (manifest["activation_bytes"][name] for name in ("alive", "separate"))
    share = f", {1 - alive / separate:.1%} less than a buffer a tensor ({separate:,})" if alive < separate else ""
    print(f"activations: {alive:,} bytes at a time{share}; {figures['workspace_bytes']:,} bytes of workspace in DDR")
    for part, operators in (("head", manifest["cpu_head"]), ("tail", manifest["cpu_tail"])):
        if operators:
            print(f"on the CPU, at the {part}: {', '.join(node['op'] for node in operators)}")
    return Outcome(figures, written=(args.dump,) if args.dump else ())
