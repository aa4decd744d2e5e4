"""`cnna compile`: a quantised ONNX model becomes a .cnna for one configuration of the accelerator."""

import argparse
import sys
from pathlib import Path
from typing import Any

from cnna.cli.main import Outcome, counted
from cnna.cli.options import CONFIG_HELP, add_batch_option, add_shape_option, configuration, load_shaped, native_host
from cnna.cli.progress import Progress
from cnna.spec.artifact import Artifact, CpuPiece, save, stored_model
from cnna.spec.boards import described
from cnna.spec.checks.archive import is_archive
from cnna.spec.config import Config
from cnna.spec.counts import many
from cnna.spec.errors import UserError, about_model
from cnna.spec.files import make_folder
from cnna.spec.host_time.end_to_end import EndToEnd, end_to_end
from cnna.spec.manifest import ACCELERATOR, CpuEntry, pieces_text

OUTPUTS = {"output": (".cnna",)}
SHOWN = 5e-4  # of the multiply-accumulates, below which a share would be shown as 0.0 %


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "model",
        type=Path,
        metavar="Q.onnx",
        help="quantised by cnna quantize, or any model in QDQ or QLinear form; or a .cnna, whose model is compiled anew",
    )
    add_shape_option(parser)
    add_options(parser, again=True)
    parser.add_argument("--dump", type=Path, metavar="DIR", help="write the graph after every pass")


def add_options(parser: argparse.ArgumentParser, again: bool = False) -> None:
    """Adds the options that say what is compiled for, and that name the artifact. again: a .cnna may say both."""
    own = " (default: that of a .cnna)" if again else ""
    parser.add_argument("--config", required=not again, metavar="C", help=f"{CONFIG_HELP}{own}")
    add_batch_option(parser, again)
    place = "where to write the compiled model" + " (default: a .cnna is replaced)" * again
    parser.add_argument("-o", "--output", type=Path, required=not again, metavar="M.cnna", help=place)
    parser.add_argument("--no-cpu", action="store_true", help="refuse to use the CPU between layers or for multiplications")


def run(args: argparse.Namespace) -> Outcome:
    """Compiles, writes the artifact, and prints its figures."""
    source, config, batch, output = _wanted(args)
    if args.dump:
        make_folder(args.dump)
    from cnna.compiler.compile import compile_model

    with about_model(args.model), Progress(f"compiling for {config.name}") as progress:
        model = load_shaped(source, args, str(args.model))
        artifact = compile_model(model, config, batch=batch, dump=args.dump, cpu=not args.no_cpu, count=progress.step)
    save(artifact, output)
    figures = figures_of(artifact)
    cpu = cpu_entries(artifact)
    print(
        f"{output}: {many(figures['layers'], 'layer')} for {described(config)}, {figures['macs']:,} MACs an image, "
        f"{figures['program_writes']:,} register writes, {figures['constant_bytes']:,} bytes of constants"
    )
    if artifact.programs:
        alive, separate = (figures["activation_bytes"][name] for name in ("alive", "separate"))
        share = f", {1 - alive / separate:.1%} less than a buffer a tensor ({separate:,})" if alive < separate else ""
        print(f"activations: {alive:,} bytes at a time{share}; {figures['workspace_bytes']:,} bytes of workspace in DDR")
    if figures["coded_layers"]:
        print(f"weights come as codes of 4 bits in {', '.join(figures['coded_layers'])}")
    if cpu:
        say_cpu(figures, cpu)
    print(predicted(artifact))
    return Outcome({"output": str(output), **figures}, written=(args.dump,) if args.dump else ())


def _wanted(args: argparse.Namespace) -> tuple[Path | bytes, Config, int, Path]:
    """The model, what it is compiled for, and where the artifact goes; what was not said is as in a .cnna.

    UserError: a model without a configuration, or without a place for the artifact. ArtifactError: as of `stored_model`.
    """
    given = None if args.config is None else configuration(args.config)
    if is_archive(args.model):
        stored = stored_model(args.model)
        batch = stored.batch if args.batch is None else args.batch
        return stored.model, given or stored.config, batch, args.output or args.model
    if given is None or args.output is None:
        missing = "--config C" if given is None else "-o M.cnna"
        raise UserError(
            f"{args.model}: give {missing} too; only a .cnna says itself for what it is compiled (see cnna compile --help)"
        )
    return args.model, given, 1 if args.batch is None else args.batch, args.output


def figures_of(artifact: Artifact) -> dict[str, Any]:
    """An artifact's figures, for `--json`."""
    from cnna.compiler.report.report import coded_layers

    layers = [layer for program in artifact.programs for layer in program.manifest["layers"]]
    constants = sum(len(program.constants) for program in artifact.programs)
    cpu = cpu_entries(artifact)
    activations = [program.manifest["activation_bytes"] for program in artifact.programs]
    manifest = artifact.manifest
    return {
        "config": artifact.config.name,
        "clock_mhz": artifact.config.clock_mhz,
        "batch": manifest["batch"],
        "macs": manifest["macs"],
        "cpu_macs": manifest["cpu_macs"],
        "layers": len(layers),
        "program_writes": sum(program.manifest["program_writes"] for program in artifact.programs),
        "constant_bytes": constants,
        "workspace_bytes": sum(program.manifest["segments"]["workspace"] for program in artifact.programs),
        "activation_bytes": {key: max((entry[key] for entry in activations), default=0) for key in ("alive", "separate")},
        "predicted_cycles": artifact.predicted_clocks(),
        "coded_layers": coded_layers(artifact),
        "pieces": [piece.manifest["kind"] for piece in artifact.pieces],
        "cpu_operators": [node["op"] for entry in cpu for node in entry["operators"]],
        "cpu_seconds": sum(entry["seconds"] for entry in cpu),
        "numpy_suffices": all(entry["numpy"] for entry in cpu),
        "predicted_end_to_end": predicted(artifact).figures(),
    }


def predicted(artifact: Artifact) -> EndToEnd:
    """The predicted time of a batch from end to end."""
    manifest = artifact.manifest
    return end_to_end(manifest["pieces"], artifact.predicted_clocks(), artifact.config.clock_mhz, manifest["batch"], native_host())


def cpu_entries(artifact: Artifact) -> list[CpuEntry]:
    """The manifest's entries of the pieces on the CPU."""
    return [piece.manifest for piece in artifact.pieces if isinstance(piece, CpuPiece)]


def say_cpu(figures: dict[str, Any], cpu: list[CpuEntry]) -> None:
    """Says what runs on the CPU; on standard error too if it multiplies there, which the user may not expect."""
    count = figures["pieces"].count(ACCELERATOR)
    needs = "numpy is enough for it" if figures["numpy_suffices"] else "it needs onnxruntime"
    print(f"{pieces_text(figures['pieces'])}, where {needs} and {figures['cpu_seconds'] * 1e3:.2g} ms an image are predicted")
    print(f"on the CPU: {counted(figures['cpu_operators'])}")
    why = _at_run(figures["cpu_operators"]) or "cnna explain says why"
    share = figures["cpu_macs"] / max(figures["cpu_macs"] + figures["macs"], 1)
    if share >= SHOWN:
        what = "all of the model runs" if not count else f"{share:.1%} of the multiply-accumulates run"
        print(f"cnna: {what} on the CPU: {figures['cpu_macs']:,} MACs an image; {why}", file=sys.stderr)
    elif not count:
        print(f"cnna: all of the model runs on the CPU; {why}", file=sys.stderr)


def _at_run(operators: list[str]) -> str | None:
    """Why nothing else is possible with a model that is quantised while it runs, and what is; None for other models."""
    from cnna.compiler.frontend.pieces.support import FLOAT_MODEL, WHOLE_NUMBERS

    own = [name for name in dict.fromkeys(operators) if name.rpartition(".")[2] in WHOLE_NUMBERS]
    return f"it is quantised while it runs ({', '.join(own)}): {FLOAT_MODEL}" if own else None
