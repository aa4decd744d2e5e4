"""`cnna doctor`: says what is installed, in which version, and what is missing. Code 1: the profile cannot do without it.

The profile is a PC with the tools or, with `--board`, a board that only runs models. `--report F` writes all of it, and what else
a report of a fault needs, to one text file.
"""

import argparse
import sys
from pathlib import Path

from cnna.cli.main import FAILED, Outcome, installed_version
from cnna.cli.prerequisites import BOARD, TOOLS, Need, examine
from cnna.host.native.library import native
from cnna.spec.files import write_text

OUTPUTS = {"report": ()}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "--report",
        type=Path,
        metavar="F",
        help="write one text file for a report of a fault; no file, name or value of yours is in it",
    )
    parser.add_argument(
        "--board", action="store_true", help="examine a board, which only runs models (default: a PC with the tools)"
    )


def run(args: argparse.Namespace) -> Outcome:
    """Prints a line for each thing that cnna can use."""
    profile = BOARD if args.board else TOOLS
    findings = examine(profile)
    print(f"cnna {installed_version()}, Python {sys.executable}, for {'a board' if args.board else 'the tools'}")
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(_line(finding, profile, width))
    print(f"pictures and answers are converted by {native()}")
    if profile == TOOLS:
        print(f"clocks are predicted by {_predictor()}")
    lacking = [finding for finding in findings if finding.version is None]
    missing = [finding.name for finding in lacking if profile in finding.profiles]
    optional = [finding.name for finding in lacking if profile not in finding.profiles]
    said = f"missing: {', '.join(missing)}" if missing else "nothing that is needed is missing"
    print(said + (f"; not needed, and not there: {', '.join(optional)}" if optional else ""))
    installed = {finding.name: finding.version for finding in findings}
    remedies = {finding.name: finding.remedy for finding in lacking}
    figures = {"cnna": installed_version(), "profile": profile, "installed": installed}
    figures |= {
        "conversion": str(native()),
        "prediction": _predictor(),
        "missing": missing,
        "optional": optional,
        "remedies": remedies,
    }
    if args.report:
        from cnna.cli.trouble.bug_report import bug_report

        write_text(args.report, bug_report(findings, str(native())))
        print(f"{args.report}: read it, then add it to your report")
    return Outcome(figures, FAILED if missing else 0, (args.report,) if args.report else ())


def _predictor() -> str:
    """What predicts clocks when a network is compiled, and why."""
    try:
        from cnna.compiler.predict.machine_code import state
    except ImportError:
        return "nothing, since there is no compiler here"
    return state()


def _line(finding: Need, profile: str, width: int) -> str:
    if finding.version is None:
        kind = "MISSING" if profile in finding.profiles else "absent "
        return f"  {kind} {finding.name:{width}} for {finding.needed_by}; {finding.remedy}"
    return f"  ok      {finding.name:{width}} {finding.version}"
