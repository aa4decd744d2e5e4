"""`cnna explain`: what will happen to each node of a model, before it is quantised and compiled."""

import argparse
from pathlib import Path

from cnna.cli.main import BAD_INPUT, PAGES, Outcome
from cnna.cli.options import CONFIG_HELP, add_batch_option, add_shape_option, configuration, load_shaped, native_host
from cnna.cli.progress import Progress
from cnna.spec.errors import about_model
from cnna.spec.files import write_text

OUTPUTS = {"html": PAGES}
DEFAULT = "zcu102"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("model", type=Path, metavar="M.onnx", help="float or quantised")
    parser.add_argument("--config", metavar="C", help=f"{CONFIG_HELP} (default: {DEFAULT})")
    add_batch_option(parser)
    add_shape_option(parser)
    parser.add_argument("--html", type=Path, metavar="F", help="write a page with the graph drawn, coloured by pieces")


def run(args: argparse.Namespace) -> Outcome:
    """Explains the model. Nodes that cannot run are rows like the others, but the exit code says that `cnna compile` refuses it."""
    config = configuration(DEFAULT if args.config is None else args.config)
    from cnna.compiler.explain.explain import explain
    from cnna.compiler.explain.text import pieces, summary, table

    with about_model(args.model), Progress("load") as progress:
        model = load_shaped(args.model, args)
        found = explain(model, config, progress.say, args.batch, native_host())
    print(table(found))
    print()
    if lines := pieces(found):
        print(lines)
        print()
    for line in summary(found, str(args.model), args.config is None):
        print(line)
    if args.html:
        from cnna.compiler.explain.html import html

        write_text(args.html, html(found, model.proto, str(args.model), args.config is None))
    figures = {"model": str(args.model), "default_config": args.config is None, **found.figures()}
    return Outcome(figures, BAD_INPUT if found.refused else 0, written=(args.html,) if args.html else ())
