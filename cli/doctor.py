"""`cnna doctor`: says what is installed, in which version, and what is missing. The exit code is 0 either way: it is an answer."""

import argparse
import sys

from cnna.cli.main import Outcome, installed_version
from cnna.cli.prerequisites import Need, examine


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: the command has no options of its own."""


def run(args: argparse.Namespace) -> Outcome:
    """Prints a line for each thing that cnna can use."""
    findings = examine()
    print(f"cnna {installed_version()}, Python {sys.executable}")
    for finding in findings:
        print(_line(finding))
    missing = [finding.name for finding in findings if finding.version is None]
    print(f"missing: {', '.join(missing)}" if missing else "nothing is missing")
    installed = {finding.name: finding.version for finding in findings}
    remedies = {finding.name: finding.remedy for finding in findings if finding.version is None}
    return Outcome({"cnna": installed_version(), "installed": installed, "missing": missing, "remedies": remedies})


def _line(finding: Need) -> str:
    if finding.version is None:
        return f"  MISSING {finding.name:15} for {finding.needed_by}; {finding.remedy}"
    return f"  ok      {finding.name:15} {finding.version}"
