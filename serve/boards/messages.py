"""What the front and a board's worker say to each other through a socket: one JSON object a line.

{"job": 1, "do": "load", "key": "digits/3/tiny-b4", "path": ..., "golden": ...}     {"job": 1, "seconds": 0.2}
{"job": 2, "do": "run", "key": ..., "slot": 0, "bytes": 8192, "inputs": [...], "outputs_at": 4096}
                                                             {"job": 2, "seconds": 0.003, "outputs": [...]}
{"job": 3, "do": "unload", "key": ...}                        {"job": 3, "seconds": 0}

The worker answers commands in order. An error is {"job": 2, "error": "...", "kind": "DataError"}. Job 0 is the worker's own start.
Lines without a job may come at any time: a `Notice`.
"""

from typing import Any, Literal, TypedDict

from cnna.serve.boards.slot import Entry
from cnna.spec.detection.decode import Labels


class Command(TypedDict):
    """What every command has. key: the version's artifact, as the front calls it."""

    job: int
    do: Literal["load", "open", "unload", "run", "call", "end"]
    key: str


class LoadCommand(Command):
    """Opens an artifact. path: of the artifact. golden: the file of golden samples, or None."""

    path: str
    golden: str | None


class OpenCommand(Command):
    """Opens a version of another runtime than `cnna`. place: `Place.as_json`."""

    runtime: str
    place: dict[str, Any]


class Counting(TypedDict, total=False):
    """What counts as a detection, where others than the usual ones do. detect: least score, overlap, labels."""

    detect: tuple[float, float, Labels]


class RunCommand(Command, Counting):
    """Runs a batch. slot: its number. bytes: of the slot, at least. inputs: where they are. outputs_at: where outputs begin."""

    slot: int
    bytes: int
    inputs: list[Entry]
    outputs_at: int


class CallCommand(RunCommand):
    """Runs a batch on a board of the kind `cpu`. until, request_id: those of a `Call`."""

    until: float
    request_id: str


class Reply(TypedDict, total=False):
    """The answer to a command: `seconds` and what there is to say, or `error` with the `kind` of its class.

    outputs: where they are. bytes: of the slot, if it has grown. config: of the accelerator, where the board itself has one.
    decode_seconds: how long boxes took, of `seconds`.
    places: starts that may wait in its queue of runs.
    """

    job: int
    seconds: float
    outputs: list[Entry]
    bytes: int
    decode_seconds: float
    config: str | None
    places: int
    error: str
    kind: str


class Sensors(TypedDict):
    """Of a board; None: not measured."""

    watts: float | None
    celsius: float | None


class Notice(TypedDict, total=False):
    """What a worker says beside its answers.

    said: a line for the log. alive: a long command goes on. waits: seconds for which it may wait for its turn at the board; 0: it
    waits no more. sensors: what those of the board show.
    """

    said: str
    alive: bool
    waits: float
    sensors: Sensors
