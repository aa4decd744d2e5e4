"""`cnna`: a table of commands, each imported when it runs, and what they all share.

Exit codes: 0 done (and with `--check` equal); 1 a check found a difference, the accelerator stopped, a limit cannot be met, or the
fault is our own; 2 bad input, one line and no traceback; 130 interrupted, 143 terminated. On a board only numpy is installed;
commands that need more say what to install.
"""

import argparse
import errno
import importlib
import io
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cnna.cli import completion
from cnna.cli.exit_signals import ended_in_order
from cnna.cli.progress import clear_line
from cnna.cli.trouble import last_error
from cnna.spec.command_line import BAD_INPUT, Parser, line_of
from cnna.spec.errors import CnnaError, UserError
from cnna.spec.extras import missing_tool
from cnna.spec.files import check_ending, check_outputs, write_text
from cnna.spec.json_text import json_text

# Name: one line; `cnna.cli.NAME`, or one in FOLDERS, has configure(parser), run(args) -> Outcome, and OUTPUTS if it writes
# files: for each option the endings of a name that fit what is written; none: any.
COMMANDS = {
    "quantize": "turn a float ONNX model into an int8 one (QDQ)",
    "explain": "say what will happen to each node of a model, and how quick it will be",
    "prune": "remove channels of a float ONNX model, so that it takes fewer clocks",
    "compile": "turn a quantised ONNX model into a .cnna",
    "convert": "turn a float ONNX model into a .cnna and compare it with float, in one step",
    "run": "run a .cnna on the simulated RTL, the emulator, the reference or a board",
    "eval": "measure models on your data: accuracy, and which samples changed",
    "bench": "measure models under the load of MLPerf's LoadGen: latency, samples a second and accuracy",
    "report": "show a .cnna layer by layer, predicted or measured",
    "compare": "show two runs, reports, evaluations or benchmarks side by side",
    "rtl": "write the accelerator's Verilog",
    "models": "list models to try, or write one to a file",
    "explore": "compare configurations of the accelerator for a model",
    "board": "write an image, an IP for Vivado or Linux firmware; serve a virtual board; test a board",
    "serve": "answer requests for models over HTTP and gRPC, from one board or several",
    "split": "cut a quantised model in two, for an edge with an accelerator and a cloud behind a link",
    "pack": "pack a repository for a board, a container, or an application in C",
    "publish": "compile a model for a server, and add it to its repository as a new version",
    "cache": "list what the cache of simulators holds, or empty it",
    "doctor": "say what is installed, and what is missing",
}
# By command: the folder of its module, where that is not `cli` itself.
FOLDERS = {"serve": "serving", "pack": "serving", "publish": "serving", "split": "serving", "doctor": "trouble"}
FAILED, INTERRUPTED = 1, 130
INTERNAL = " (--debug shows where; cnna doctor --report bug.txt writes what a report of this fault needs)"
PAGES = (".html", ".htm")  # endings of a page's name
STANDARD_OUTPUT = Path("-")  # of --json: the figures alone, and everything else to standard error
JSON_HELP = "write the figures as JSON; - is standard output, and everything else then goes to standard error"


@dataclass(frozen=True)
class Outcome:
    """A command's result: its figures for `--json`, the exit code, and the files that it has written without printing their
    names.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    exit_code: int = 0
    written: tuple[Path, ...] = ()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    say = partial(_say, arguments=arguments if argv is None else None, debug=debug)  # a program that calls `main` keeps its own
    try:
        with ended_in_order():
            return _run(arguments)
    except SystemExit:  # a signal, or a mistake in the options
        clear_line()
        raise
    except KeyboardInterrupt:
        clear_line()
        print("cnna: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # as in `cnna report M.cnna | head`: the reader has gone, which is its right
        _drop_output()
        return 0
    except CnnaError as error:
        return say(error, error.exit_code)
    except ImportError as missing:
        return say(missing_tool(missing), BAD_INPUT)
    except MemoryError as error:  # as for `cnna models espcn --count 100000000000`
        return say(error, BAD_INPUT, "there is not enough memory; fewer samples or a smaller batch need less: ")
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:  # errors about files name them; this is a shell's `> FILE`
            _drop_output()
            return say(UserError("standard output: no space left on device"), BAD_INPUT)
        # our own fault: one line, which says how to see more, and what to send us
        return say(error, FAILED, f"internal error: {type(error).__name__}: ", INTERNAL)


def _run(arguments: list[str]) -> int:
    """Runs the command, with checks of its files before and after; returns its exit code."""
    prepare_output()
    if completion.asked():
        completion.complete(parser_for)
    args = parser_for(arguments).parse_args(arguments)
    if args.command is None:
        parser_for([]).print_help()
        return BAD_INPUT
    with _outliving_reader() if _check_files(args) else nullcontext():
        return _carry_out(args)


def _carry_out(args: argparse.Namespace) -> int:
    """Runs the command, writes its figures and names its files; returns its exit code."""
    figures_only = args.json == STANDARD_OUTPUT
    with redirect_stdout(sys.stderr) if figures_only else nullcontext():
        outcome: Outcome = args.run(args)
    if args.json:
        text = json_text(outcome.figures, indent=1) + "\n"
        if figures_only:
            sys.stdout.write(text)
        else:
            write_text(args.json, text)
    sys.stdout.flush()
    _name_files([*outcome.written, *([args.json] if args.json and not figures_only else [])])
    return outcome.exit_code


def parser_for(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser. It imports only the command in `arguments`, and only that one has its options."""
    parser = Parser(prog="cnna", description="An open int8 CNN accelerator: quantise, compile, run, equal to the bit.")
    parser.add_argument("--version", action="version", version=f"cnna {installed_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, line in COMMANDS.items():
        command = commands.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        if name == chosen:
            module = importlib.import_module(".".join(filter(None, ("cnna.cli", FOLDERS.get(name), name))))
            module.configure(command)
            command.add_argument("--json", type=Path, metavar="FILE", help=JSON_HELP)
            command.add_argument("--debug", action="store_true", help="show the traceback of an error")
            command.set_defaults(run=module.run, outputs={**getattr(module, "OUTPUTS", {}), "json": ()})
    return parser


def prepare_output() -> None:
    """Makes every name printable: escaped if the terminal's encoding lacks a letter, dropped if the output is closed."""
    if sys.stdout is None:  # as in `cnna report M.cnna >&-`
        sys.stdout = io.StringIO()
    if sys.stderr is None:
        sys.stderr = io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


class _Outlived(io.FileIO):
    """Standard output whose reader may go away. What is printed from then on is dropped."""

    def write(self, data: Any, /) -> int:
        """As of FileIO."""
        try:
            return super().write(data)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return len(data)


@contextmanager
def _outliving_reader() -> Iterator[None]:
    """Lets a command that writes files go on when nobody reads what it prints, as in `cnna report M.cnna --html F | head`."""
    out = sys.stdout
    if not isinstance(out, io.TextIOWrapper) or out is not sys.__stdout__:
        yield
        return
    out.flush()
    raw = io.BufferedWriter(_Outlived(out.fileno(), "w", closefd=False))
    with io.TextIOWrapper(raw, out.encoding, out.errors, line_buffering=out.line_buffering) as kept, redirect_stdout(kept):
        yield


def _drop_output() -> None:
    """Drops what can no longer be printed, so that the interpreter's last flush succeeds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_files(args: argparse.Namespace) -> bool:
    """Whether files are to be written. UserError: one cannot be, or is also an input or another output."""
    outputs: dict[str, Path] = {}
    inputs: list[Path] = []
    for name, value in vars(args).items():
        paths = [path for path in (value if isinstance(value, list) else [value]) if isinstance(path, Path)]
        if name == "json" and paths == [STANDARD_OUTPUT]:
            continue
        if name in args.outputs and STANDARD_OUTPUT in paths:
            raise UserError(f"--{name} -: standard output is for the figures of --json alone; give the file a name")
        if name in args.outputs:
            outputs |= {f"--{name}" + f" ({number})" * (number > 1): path for number, path in enumerate(paths, 1)}
        else:
            inputs += paths
    check_outputs(outputs, inputs)
    for option, path in outputs.items():
        check_ending(option, path, args.outputs[option.partition(" ")[0].removeprefix("--")])
    return bool(outputs)


def _name_files(written: Sequence[Path]) -> None:
    """Names the files and folders that were written, unless figures are read instead; devices and pipes are neither."""
    if there := [str(path) for path in written if path.is_file() or path.is_dir()]:
        print(f"wrote {', '.join(there)}", file=sys.stderr)


def installed_version() -> str:
    """This package's version; "unknown" in a tree that was never installed."""
    try:
        return version("cnna")
    except PackageNotFoundError:
        return "unknown"


def _say(
    error: BaseException, exit_code: int, before: str = "", after: str = "", *, arguments: Sequence[str] | None, debug: bool
) -> int:
    """Prints an error as one line, with its traceback before it if `debug` asks for that.

    arguments: those of a command whose error is kept for a report; None: it is not. `doctor` writes the report itself.
    """
    clear_line()
    if arguments and arguments[0] != "doctor":
        last_error.keep(error, arguments, exit_code, installed_version(), internal=after == INTERNAL)
    if debug:
        traceback.print_exception(error)
    print(line_of(error, before, after), file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
