"""What a worker runs batches with on a PYNQ board, this one or one behind PYNQ.remote: models that stay in the board's memory.

Only a worker imports pynq, and each worker has one board, since pynq keeps what it has found for the whole process.
"""

import os
import time
import warnings
from contextlib import suppress
from pathlib import Path

from cnna.host.board import power
from cnna.host.board.overlay import open_overlay
from cnna.host.board.pynq_driver import open_board
from cnna.host.model.board_model import BoardModel
from cnna.host.model.detector import Settings
from cnna.host.model.planned import Plan
from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.runner import CPU_THREADS, Tell, silent
from cnna.serve.models.answering import USUAL, Answering
from cnna.serve.models.signature import Arrays
from cnna.spec.artifact import load
from cnna.spec.errors import RunError

SENSE_SECONDS = 5.0


class Pynq:
    """Runs artifacts, by key, on a board, once it is open."""

    def __init__(self, spec: BoardSpec) -> None:
        self.spec = spec
        self.tell: Tell = silent
        self.decode_seconds = 0.0
        self.models: dict[str, BoardModel] = {}
        self._answering: dict[str, Answering] = {}

    def open(self) -> None:
        """Opens the board. UserError: it, the overlay or pynq is not there, or they do not fit."""
        if self.spec.address:
            os.environ["PYNQ_REMOTE_DEVICES"] = self.spec.address  # the only way to tell pynq
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # standard error is the front's log
        warnings.simplefilter("ignore")
        overlay = open_overlay(Path(self.spec.overlay))
        self.device = open_board(overlay)
        self.config = self.device.config.name
        self._read = power.reader(overlay)

    def load(self, key: str, path: str, known: Arrays) -> None:
        """Places an artifact in the board's memory. RunError: there is no room, or no turn."""
        answering = Answering(path, load(path))
        model = BoardModel(answering.artifact, self.device, turn_seconds=self.spec.turn_seconds, cpu_threads=CPU_THREADS)
        self.models[key] = model
        self._answering[key] = answering

    def unload(self, key: str) -> None:
        """Frees an artifact's memory, if it is there."""
        self._answering.pop(key, None)
        if (model := self.models.pop(key, None)) is not None:
            model.close()

    def run(self, key: str, inputs: Arrays, received: float, wanted: Settings = USUAL) -> Arrays:
        """The answers to one batch, in a turn of its own."""
        if key not in self.models:
            raise RunError(f"{key} is not loaded")
        return self.rows(key, self.models[key].run(inputs), len(next(iter(inputs.values()))), wanted)

    def plan(self, key: str, wanted: Settings) -> Plan | None:
        """How batches of a detector become boxes on the accelerator's own words; None: they do not, or it is no detector."""
        return self._answering[key].plan(self.models[key].detecting, wanted)

    def rows(self, key: str, answers: Arrays, samples: int, wanted: Settings) -> Arrays:
        """What a model has answered, with the samples on axis 0."""
        found = self._answering[key].rows(answers, samples, wanted)
        self.decode_seconds = self._answering[key].decode_seconds
        return found

    def sense(self) -> None:
        """Tells the board's power and temperature again and again, each None where it cannot be read. For a thread of its own."""
        sensors = None
        while True:
            watts, celsius = None, None
            with suppress(Exception):  # the network's; the next batch says what is wrong with it
                sensors = sensors or power.Sensors(self._read)
                watts, celsius = sum(sensors.watts().values()) or None, sensors.celsius()
            with suppress(OSError):  # the front has gone
                self.tell(sensors={"watts": watts, "celsius": celsius})
            time.sleep(SENSE_SECONDS)

    def close(self) -> None:
        """Frees all memory."""
        for key in list(self.models):
            self.unload(key)
