"""`cnna convert`: turns a float ONNX model into a .cnna in one step: quantises, compiles, compares with float on the emulator."""

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from cnna.cli import against, compile, quantize
from cnna.cli.main import Outcome
from cnna.cli.metric_options import add_metric_option, given_metrics
from cnna.cli.options import configuration
from cnna.cli.progress import Progress, counter
from cnna.host.model.answers import named, outputs_of
from cnna.host.model.divergence import OutputDivergence
from cnna.host.model.session import InferenceSession
from cnna.host.samples.arrays import Arrays
from cnna.jobs import compile as jobs
from cnna.spec.artifact import Artifact, save
from cnna.spec.counts import many
from cnna.spec.errors import UserError, about_model
from cnna.spec.verdicts import POOR, VERDICTS

OUTPUTS = {"output": (".cnna",)}
SAMPLES = 8  # of the calibration data that are compared with float


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command: those of quantize and compile, and how many samples are compared."""
    quantize.add_options(parser)
    compile.add_options(parser)
    add_metric_option(parser)
    parser.add_argument(
        "--limit", type=int, default=SAMPLES, metavar="N", help=f"compare N samples with float (default: {SAMPLES})"
    )


def run(args: argparse.Namespace) -> Outcome:
    """Does all three steps. It writes the artifact only after the last one, so there is never a half-finished file."""
    if args.limit < 1:
        raise UserError(f"--limit {args.limit}: must be at least 1")
    config = configuration(args.config)
    given_metrics(args)  # a mistake is reported before anything runs
    from cnna.compiler.compile import compile_model

    made = quantize.quantised(args)
    quantize.warn(made.report)
    with about_model(args.model), Progress(f"compiling for {config.name}") as progress:
        artifact = compile_model(made.model, config, batch=args.batch, cpu=not args.no_cpu, count=progress.step)
    found = _verified(args, artifact, made.images)
    save(artifact, args.output)
    compiled = jobs.compiled(artifact)
    figures = compiled.figures()
    figures.pop("output")
    whole = artifact.manifest["macs"] + artifact.manifest["cpu_macs"]
    share = artifact.manifest["macs"] / whole if whole else None
    print(
        f"{args.output}: for {config.name}, quantised with {many(made.report.samples, 'sample')} ({made.report.how}); "
        + ("no multiply-accumulates" if share is None else f"{share:.1%} of {whole:,} multiply-accumulates on the accelerator")
    )
    if cpu := jobs.cpu_entries(artifact):
        compile.say_cpu(figures, cpu)
    print(compiled.predicted_end_to_end)
    print(f"compared with float, on {found.samples} of the calibration samples:")
    print("\n".join(map(against.output_line, found.outputs)))
    verdict = _verdict(found.outputs)
    _say_verdict(verdict, found, args)
    results = {"mac_share": share, "agreement": verdict, "quantised": made.figures(), "against": found.figures()}
    return Outcome({"output": str(args.output), **figures, **results})


def _verified(args: argparse.Namespace, artifact: Artifact, images: Arrays) -> against.Against:
    """Compares some calibration samples on the emulator with float. CheckError: the emulator and the reference differ."""
    count = len(next(iter(images.values())))
    # Spread over the file: the first may all be of one class.
    chosen = np.unique(np.linspace(0, count - 1, min(args.limit, count)).astype(int))
    inputs = {name: array[chosen] for name, array in images.items()}
    other = against.open_other(args.model, artifact, inputs)
    against.check_metrics(artifact, other, given_metrics(args))
    running = Progress(f"running {many(len(chosen), 'sample')} on the emulator")
    with running, InferenceSession(artifact, "emulator", check=True) as session:
        answers = named(outputs_of(artifact.manifest), session.run(None, inputs))
    return against.compare(artifact, inputs, answers, other, counter("comparing with float"), given_metrics(args), session.original)


def _verdict(outputs: Sequence[OutputDivergence]) -> str:
    """The worst verdict on an output."""
    return min((output.verdict for output in outputs), key=VERDICTS.index)


def _say_verdict(verdict: str, found: against.Against, args: argparse.Namespace) -> None:
    """Prints the verdict; a poor one goes to standard error too, with advice."""
    print(f"agreement with float: {verdict}")
    if verdict == POOR:
        poor = ", ".join(output.name for output in found.outputs if output.verdict == POOR)
        more = "" if args.effort else "--effort 2, "
        others = " or ".join(method for method in quantize.METHODS if method != args.method)
        print(
            f"cnna: poor agreement with float (output {poor}): try {more}--method {others}, or calibration data that are more "
            f"typical; cnna run {args.output} --input {args.calib} --device emulator --against {args.model} says where it begins",
            file=sys.stderr,
        )
