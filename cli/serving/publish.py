"""`cnna publish`: compiles a quantised model for the batches that a server wants, and adds it to a repository as a new version."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cnna.cli.detector_option import add_detector_option
from cnna.cli.main import Outcome
from cnna.cli.options import CONFIG_HELP, add_shape_option, configuration, load_shaped, warned
from cnna.cli.picture_options import add_picture_options, given_preprocess, say_preparation
from cnna.cli.progress import Progress
from cnna.host.model.answers import WHOLE
from cnna.host.model.session import InferenceSession
from cnna.host.samples.arrays import Arrays
from cnna.host.samples.given import open_samples
from cnna.jobs.data import check_channels
from cnna.jobs.detector import with_heads
from cnna.serve.models import fallback, golden
from cnna.serve.models.answering import Answering
from cnna.serve.models.labels import of_outputs, read_names
from cnna.serve.models.publication import next_version, publish
from cnna.serve.models.signature import Signature, signature_of
from cnna.spec.artifact import Artifact, stored_model
from cnna.spec.checks.archive import is_archive
from cnna.spec.config import Config
from cnna.spec.counts import many
from cnna.spec.errors import CheckError, UserError, about_model
from cnna.spec.machine import limits
from cnna.spec.samples.preprocess import from_entry

BATCHES = "1,4,8"
SAMPLES = 4
MOST_BATCH = limits("conv", "images")[1]  # of a run of a program


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "onnx",
        type=Path,
        metavar="Q.onnx",
        help="quantised by cnna quantize, or any model in QDQ or QLinear form; or a .cnna, whose model is compiled anew",
    )
    parser.add_argument("--repo", type=Path, required=True, metavar="R", help="the repository; it is made if it does not exist")
    parser.add_argument("--model", required=True, metavar="M", help="the model's name there")
    parser.add_argument("--version", metavar="V", help="the version (default: one more than the highest)")
    parser.add_argument("--config", action="append", required=True, metavar="C", help=f"{CONFIG_HELP}; may be repeated")
    parser.add_argument("--batches", default=BATCHES, metavar="N,...", help=f"the batches to compile (default: {BATCHES})")
    parser.add_argument(
        "--input", type=Path, metavar="X", help=".npy, .npz or a folder of pictures, for golden answers (default: noise)"
    )
    parser.add_argument("--limit", type=int, default=SAMPLES, metavar="N", help=f"use N samples (default: {SAMPLES})")
    parser.add_argument("--labels", type=Path, metavar="F", help="names of the classes: one a line, or a list in JSON")
    parser.add_argument("--fallback", choices=fallback.NEEDS_FILE, help="keep the model too, for `fallback` in model.yaml")
    add_shape_option(parser)
    add_detector_option(parser, ", so that the version answers boxes, scores and classes (default: that of a .cnna)")
    add_picture_options(parser, "in the place of what the model stores")


def run(args: argparse.Namespace) -> Outcome:
    """Compiles all, computes golden answers by the reference, compares every artifact's with them, and publishes."""
    from cnna.compiler.compile import compile_model

    batches, configs = _batches(args.batches), [configuration(text) for text in args.config]
    if args.limit < 1:
        raise UserError(f"--limit {args.limit}: must be at least 1")
    version = next_version(args.repo, args.model, args.version)
    names, artifacts = read_names(args.labels) if args.labels else [], []
    with about_model(args.onnx):
        stored = stored_model(args.onnx) if is_archive(args.onnx) else None
        detector = args.detector or (stored.detector if stored else None)
        if detector and args.fallback:
            raise UserError(
                f"{args.onnx}: answers boxes, but --fallback {args.fallback} would answer the model's own outputs: leave it out"
            )
        model = load_shaped(stored.model if stored else args.onnx, args, str(args.onnx))
        for config in _different(configs):
            for batch in batches:
                with Progress(f"compiling for {config.name}, batch {batch}") as progress:
                    artifacts.append(with_heads(compile_model(model, config, batch, count=progress.step), detector, warned))
    if args.detector and "detector" not in artifacts[0].manifest:
        raise UserError(f"{args.onnx}: published with --detector {args.detector}, but no heads were found; leave the option out")
    signature = signature_of(args.model, artifacts[0].manifest)
    labels = of_outputs(names, signature.outputs, f"--labels {args.labels}") if names else {}
    inputs = _samples(args, signature)
    with Progress("computing golden answers"):
        outputs = answers_of(artifacts[0], "reference", inputs)
    if signature.detects and not outputs["scores"].any():
        warned("no golden sample has a detection, so boards are tested without boxes: give pictures that have some as --input")
    for artifact in artifacts:
        name = f"{artifact.config.name}-b{artifact.manifest['batch']}"
        with Progress(f"comparing {name} with them"):
            wrong = golden.difference(signature.outputs, answers_of(artifact, "emulator", inputs), outputs)
        if wrong:
            raise CheckError(f"{args.onnx}: compiled as {name}, it does not give its golden answers: {wrong}")
    spare = None
    if args.fallback:
        with about_model(args.onnx), Progress(f"comparing {args.fallback} with them"):
            spare = fallback.measured(args.fallback, model.proto.SerializeToString(), signature, inputs, outputs)
    folder = publish(args.repo, args.model, version, artifacts, inputs, outputs, spare, labels)
    samples = len(next(iter(inputs.values())))
    kept = f"; a fallback whose answers differ by at most {spare.difference:.3g}" if spare is not None else ""
    named_classes = f"; {many(len(names), 'name')} of classes of {', '.join(labels)}" if labels else ""
    print(f"{folder}: {many(len(artifacts), 'artifact')}, golden answers to {many(samples, 'sample')}{kept}{named_classes}")
    figures = {"folder": str(folder), "model": args.model, "version": version, "artifacts": len(artifacts), "labels": len(names)}
    return Outcome(figures)


def _batches(text: str) -> list[int]:
    """UserError: the text is no list of batches."""
    words = text.split(",")
    if not all(word.isdecimal() and 1 <= int(word[:8]) <= MOST_BATCH for word in words):
        raise UserError(f"--batches {text}: must be numbers within 1..{MOST_BATCH}, such as {BATCHES}")
    return sorted(set(map(int, words)))


def _different(configs: Sequence[Config]) -> list[Config]:
    """UserError: two have the same name, which names their files."""
    names = [config.name for config in configs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"--config {twice}: is given twice")
    return list(configs)


def _samples(args: argparse.Namespace, signature: Signature) -> Arrays:
    """Those of a file or folder, with pictures as floats, or noise that is the same on every computer."""
    if args.input is None:
        rng = np.random.default_rng(1)
        noise: Arrays = {}
        for tensor in signature.inputs:
            shape = [args.limit, *(size or 1 for size in tensor.shape)]
            noise[tensor.name] = (
                np.zeros(shape, tensor.dtype) if tensor.dtype in WHOLE else rng.normal(size=shape).astype(np.float32)
            )
        return noise
    shapes = {tensor.name: tensor.shape for tensor in signature.inputs}
    types = {tensor.name: tensor.dtype for tensor in signature.inputs if tensor.dtype in WHOLE}
    table = {**(signature.preprocess or {}), **given_preprocess(args)}
    how = from_entry(table, str(args.onnx), strict=False)
    check_channels(how, shapes, str(args.onnx), given_preprocess(args))
    rows = open_samples(args.input, shapes, types, table, args.limit)
    say_preparation(args.input, shapes, types, table, args.limit)
    found = {name: one[:] for name, one in rows.items()}
    return {name: how.apply(x) if x.dtype == np.uint8 and name not in types else x for name, x in found.items()}


def answers_of(artifact: Artifact, device: str, inputs: Arrays) -> Arrays:
    """A device's answers, with the samples on axis 0."""
    answering, samples = Answering(artifact.manifest["name"], artifact), len(next(iter(inputs.values())))
    with InferenceSession(answering.artifact, device) as session:
        return answering.rows(session.run(None, inputs), samples)
