"""The option --detector of several commands: finds a detector's heads in a compiled model."""

import argparse

AUTO = "auto"


def add_detector_option(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds the option. what: what the command does with the heads."""
    parser.add_argument("--detector", choices=(AUTO,), help=f"find a detector's heads by their structure{what}")
