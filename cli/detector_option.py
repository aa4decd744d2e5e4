"""The option --detector of several commands: finds a detector's heads in a compiled model."""

import argparse

from cnna.jobs.detector import WANTED


def add_detector_option(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds the option. what: what the command does with the heads."""
    families = "; yolov3 and yolov5: also where its outputs are raw maps, with the anchors of COCO"
    parser.add_argument("--detector", choices=WANTED, help=f"auto: find a detector's heads by their structure{what}{families}")
