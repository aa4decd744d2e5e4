"""The program that is measured under QEMU: pictures through a session on the board of `stand_in`, with and without marks inside.

measured.py ARTIFACT PYNQ MAPS COUNT PATH     writes the mapped libraries to MAPS; COUNT: batches that are counted in each mode
"""

import io
import sys
import time
from collections.abc import Iterator
from ctypes import byref, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stages import EMPTY, MODES, NUMBERS, OUTSIDE, WHOLE, Marks
from stand_in import open_board

from cnna.host.board.board_device import BoardDevice
from cnna.host.device.accelerator import Accelerator
from cnna.host.model.detector import Detector
from cnna.host.model.inputs import Inputs
from cnna.host.model.queued import Queued
from cnna.host.model.session import InferenceSession
from cnna.host.native import library
from cnna.host.native.detect_rows import ModelRows
from cnna.host.samples import pictures
from cnna.spec.artifact import Artifact, load
from cnna.spec.cpu_ops import CpuPart
from cnna.spec.detection.heads import AREAS
from cnna.spec.host_time.detector_time import CANDIDATES
from cnna.spec.samples import pack
from cnna.spec.samples.preprocess import Preprocess

CAMERA = (480, 640)  # rows and columns of the picture that is resized
WARM = 2  # batches before those that are counted
AHEAD = 4  # batches at most that a stream takes before the answer of the first of them is there
SETTLED = 0.3  # seconds
CALLS = 50  # of the function that does nothing
BOXES, OWN = "boxes", "own"  # the paths of a detector: to boxes, and to its own outputs
NONE, LEAST = 1.0, 0.25  # a score that no zero has, and the usual least one
# rows and columns of an area of text: a word of 18x60 pixels, shrunk on each side by 0.84 of its area over its edge, as by DBNet
AREA_CELLS = (6, 48)
AREAS_ACROSS = 10  # areas beside each other

Feed = dict[str, NDArray[Any]]


def main(arguments: list[str]) -> None:
    """Measures one artifact."""
    path, pynq, maps, count = Path(arguments[0]), Path(arguments[1]), Path(arguments[2]), int(arguments[3])
    cached, boxes = arguments[4] in ("cached", BOXES, OWN), arguments[4] == BOXES
    artifact = prepared(load(path))
    marks = Marks()
    board = open_board(artifact.config, pynq, pool_bytes(artifact), cached)
    measure_marks(marks)
    if not boxes:  # a detector's way to its input is the letterbox
        measure_resize(marks, artifact)
    with Boxes(artifact, board) if boxes else InferenceSession(artifact, board, cpu_threads=1) as session:
        feeds = feeds_of(artifact, count + WARM)
        for mode in MODES:
            measure(session, feeds, marks, mode, WHOLE)
        measure_packing(board, artifact, feeds, marks)
        mark_stages(marks)
        for mode in MODES:
            measure(session, feeds, marks, mode, "python")
        maps.write_text(Path("/proc/self/maps").read_text())


class Boxes:
    """A detector, as a session is called. The plugin's heads are zeros, of which none passes; in a map of text, areas are drawn."""

    def __init__(self, artifact: Artifact, board: BoardDevice) -> None:
        entry = artifact.manifest["detector"]
        assert entry is not None
        areas = entry.get("scores") == AREAS
        if areas:
            draw_areas(artifact, board)
        self._count = CANDIDATES if areas else 0
        self._detector = Detector(artifact, board, least=LEAST if areas else NONE, cpu_threads=1)

    def run(self, outputs: None, feed: Feed) -> None:
        """One picture."""
        found = self._detector.detect(next(iter(feed.values()))[0])
        assert len(found.boxes) == self._count, f"the heads were to have {self._count} boxes, not {len(found.boxes)}"

    def stream(self, outputs: None, feeds: list[Feed]) -> Iterator[Any]:
        """Many."""
        return self._detector.stream(next(iter(feed.values()))[0] for feed in feeds)

    def __enter__(self) -> "Boxes":
        return self

    def __exit__(self, *error: object) -> None:
        self._detector.close()


def draw_areas(artifact: Artifact, board: BoardDevice) -> None:
    """Draws areas into a map's memory, in every slot, as soon as the host maps it: an accelerator would leave them there."""
    (port,) = (port for piece in artifact.programs for port in piece.manifest["outputs"])
    mapped = board.mapped
    rng = np.random.default_rng(2)

    def drawn(address: int, size: int) -> NDArray[np.uint8] | None:
        memory = mapped(address, size)
        if memory is not None and size == port["image_bytes"]:
            rows, columns = port["shape"][1:]
            cells = memory.view(np.int8).reshape(rows, columns, -1)[..., 0]
            cells[...] = -128
            steps = rows // AREAS_ACROSS, columns // AREAS_ACROSS
            for number in range(CANDIDATES):
                places = zip(divmod(number, AREAS_ACROSS), steps, AREA_CELLS, strict=True)
                top, left = (at * step + int(rng.integers(1, step - side)) for at, step, side in places)
                cells[top : top + AREA_CELLS[0], left : left + AREA_CELLS[1]] = 127
        return memory

    board.mapped = drawn  # type: ignore[method-assign]


def prepared(artifact: Artifact) -> Artifact:
    """The artifact, which takes uint8 pictures if its single input may be one."""
    inputs = artifact.manifest["model_inputs"]
    shape = inputs[0]["shape"]
    if artifact.manifest["preprocess"] is None and len(inputs) == 1 and len(shape) == 3 and shape[0] in (1, 3):
        mean, std = (pictures.MEAN, pictures.STD) if shape[0] == len(pictures.MEAN) else ((0.5,), (0.25,))
        artifact.manifest["preprocess"] = Preprocess(1 / 255, mean, std).entry()
    return artifact


def pool_bytes(artifact: Artifact) -> int:
    """Enough memory for everything that the session places."""
    sizes = [sum(p.manifest["segments"].values()) + len(p.program) + len(p.constants) for p in artifact.programs]
    return 3 * sum(sizes) + (1 << 22)


def feeds_of(artifact: Artifact, count: int) -> list[Feed]:
    """Batches of uint8 pictures, channels last, where the model takes them; of floats or zeros otherwise."""
    rng, batch = np.random.default_rng(1), artifact.manifest["batch"]
    feeds = []
    for _ in range(count):
        feed: Feed = {}
        for entry in artifact.manifest["model_inputs"]:
            shape = [1 if size is None else size for size in entry["shape"]]
            if artifact.manifest["preprocess"] is not None and len(shape) == 3:
                feed[entry["name"]] = rng.integers(0, 256, (batch, *shape[1:], shape[0]), np.uint8)
            elif entry["dtype"] == "float32":
                feed[entry["name"]] = rng.normal(0, 1, (batch, *shape)).astype(np.float32)
            else:
                feed[entry["name"]] = np.zeros((batch, *shape), entry["dtype"])
        feeds.append(feed)
    return feeds


def measure(session: InferenceSession | Boxes, feeds: list[Feed], marks: Marks, mode: str, stage: str) -> None:
    """Runs all feeds and counts those after the first WARM."""
    marks.mode, number = mode, NUMBERS[f"{mode}.{stage}"]
    if mode == "single":
        for at, feed in enumerate(feeds):
            marks.enter(number if at >= WARM else 0)
            session.run(None, feed)
            marks.enter(0)
        return
    answers: Iterator[Any] = session.stream(None, [*feeds, *feeds[:AHEAD]])
    for at, _ in enumerate(answers):  # between two answers lies the work of one batch, as long as more are behind it
        if at + 1 in (WARM, len(feeds)):
            time.sleep(SETTLED)  # a thread beside this one has done all that it may, so that whole batches are counted
        marks.enter(number if WARM <= at + 1 < len(feeds) else 0)
    marks.enter(0)


def measure_packing(board: BoardDevice, artifact: Artifact, feeds: list[Feed], marks: Marks) -> None:
    """What threads share, of a model whose one input goes to its first program: pictures that the library packs into two slots."""
    calls, manifest = library.native().calls, artifact.manifest
    ports = artifact.programs[0].manifest["inputs"] if artifact.programs else []
    named = [port["name"] for port in ports] == [entry["name"] for entry in manifest["model_inputs"]]
    if calls is None or not named or len(ports) != 1:
        return
    inputs, images, size = Inputs(manifest), manifest["batch"], manifest["batch"] * ports[0]["image_bytes"]
    packing, slots = inputs.packing(ports[0]), [board.mapped(board.allocate_moved(size), size) for _ in range(2)]
    packer = c_void_p()
    code = calls.cnna_packer_open(byref(packing.c_port), byref(packer))
    assert code == library.OK
    pack_bare = calls["cnna_packer_pack"]  # another object than `calls.cnna_packer_pack`, which would convert its arguments
    table = c_void_p(None if packing.table is None else packing.table.ctypes.data)
    for mode in MODES:
        for at, feed in enumerate(feeds):
            tensor, memory = packing.tensor(next(iter(inputs.checked(feed).values()))), slots[at % 2]
            assert tensor is not None
            assert memory is not None
            place = c_void_p(memory.ctypes.data)
            marks.enter(NUMBERS[f"{mode}.pack"] if at >= WARM else 0)
            code = pack_bare(packer, byref(tensor), table, c_int64(images), place, c_size_t(size))
            if board.cache is not None:
                calls.cnna_cache_clean(None, place, size)
            marks.enter(0)
            assert code == library.OK
    calls.cnna_packer_close(packer)


def mark_stages(marks: Marks) -> None:
    """Puts marks around the functions that are stages. What they call of each other is taken out of them."""
    places: list[tuple[Any, str, str]] = [
        *((pack, name, "quantise") for name in ("lookup", "quantise")),
        (Preprocess, "apply", "quantise"),
        (Accelerator, "store_inputs", "pack"),
        *((Accelerator, name, "start") for name in ("set_registers", "start", "queue")),
        (Queued, "_end", "wait"),
        (Accelerator, "load_outputs", "unpack"),
        (pack, "dequantise", "unpack"),
        (CpuPart, "run", "cpu"),
        (ModelRows, "run", "cpu"),
        *((sys.modules["pynq.buffer"].PynqBuffer, name, "cache") for name in ("flush", "invalidate")),
    ]
    for owner, name, stage in places:
        setattr(owner, name, marks.around(stage, getattr(owner, name)))


def measure_marks(marks: Marks) -> None:
    """What a pair of marks adds to the stage inside. `python` is the rest of a run without marks, so it has none of it."""
    inside = marks.around(EMPTY, lambda: None)
    for number in (0, NUMBERS[OUTSIDE]):
        marks.enter(number)
        for _ in range(CALLS):
            inside()
        marks.enter(0)


def measure_resize(marks: Marks, artifact: Artifact) -> None:
    """A camera's picture, scaled and cut to the model's input."""
    inputs = artifact.manifest["model_inputs"]
    shape = inputs[0]["shape"]
    if len(inputs) != 1 or len(shape) != 3 or shape[0] not in (1, 3):
        return
    raw = np.random.default_rng(1).integers(0, 256, (*CAMERA, 3), np.uint8).tobytes()
    for again in range(2):
        file = io.BytesIO(f"P6 {CAMERA[1]} {CAMERA[0]} 255\n".encode() + raw)
        marks.enter(NUMBERS["resize"] if again else 0)
        pictures.read([file], shape)
        marks.enter(0)


if __name__ == "__main__":
    main(sys.argv[1:])
