"""`cnna.Detector`: pictures in, boxes out, decoded from the accelerator's own integers (docs/detectors.md).

with cnna.Detector("yolo.cnna", device="cnna.bit") as detector:
    boxes, scores, classes = detector.detect("street.jpg")
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.detections import Detections
from cnna.host.model.letterbox import Picture, Placed, placed, put, read
from cnna.host.model.planned import BOXES, CLASSES, COUNT, SCORES
from cnna.host.model.session import InferenceSession
from cnna.host.native.detect import Decoder, Found, Settings
from cnna.host.native.detect_rows import model_rows_of
from cnna.host.samples.pictures import frame
from cnna.spec.artifact import Artifact, CpuPiece, Holder, Source, held
from cnna.spec.counts import shown
from cnna.spec.cpu_ops import CpuPart, makes
from cnna.spec.detection.decode import LABELS, Labels
from cnna.spec.detection.heads import Heads, heads_of
from cnna.spec.errors import DataError
from cnna.spec.manifest import ACCELERATOR, Manifest, ModelOutput, Port
from cnna.spec.samples import pack
from cnna.spec.samples.preprocess import from_entry

__all__ = ["AT_CORNER", "MOST_BOXES", "Decoder", "Detector", "Found", "Heads", "Settings", "apart", "found_in", "settings_of"]

AT_CORNER = ("YOLOX",)  # families that are trained with pictures at the top and left
MOST = 1 << 16  # detections that can be asked for
MOST_BOXES = 200  # detections in a picture, unless a caller says otherwise


class Detector:
    """A compiled detector on one device: what `cnna.compile(detector="auto")` gave, or a path or the bytes of such a .cnna file.

    device and options: those of `InferenceSession`. least: the lowest score that counts. overlap: of two boxes of a class that
    overlap by more, the surer one stays. labels: "all" gives a detection for each class that counts, "best" one for each box. most:
    detections in a picture.

    ArtifactError: as of `InferenceSession`. DataError: no heads are known, it stores no preprocessing, or an argument does not fit.
    """

    def __init__(
        self,
        path_or_artifact: Source | Artifact | Holder,
        device: Any = "emulator",
        *,
        least: float = 0.25,
        overlap: float = 0.5,
        labels: Labels = "all",
        most: int = MOST_BOXES,
        **options: Any,
    ) -> None:
        self.settings = settings_of(least, overlap, labels, most)
        artifact = held(path_or_artifact)
        self.heads, self._ports = _heads(artifact.manifest)
        self._decode = Decoder(self.heads, self.settings)
        self._how = _preprocessing(artifact.manifest)
        (entry,) = artifact.manifest["model_inputs"]
        self._input = entry["name"]
        self._channels, *room = frame(entry["shape"], self._how)
        self._room = (room[0], room[1])
        self._whole = placed(self._room, self._room, corner=False)  # of a picture that needs no scaling
        self._artifact, self._rows = artifact, model_rows_of(artifact.manifest)
        self._outputs = [output["name"] for output in artifact.manifest["model_outputs"]]
        self.session = InferenceSession(_without_tail(artifact, self._ports), device, **options)
        self._plan = self.session.detecting(self._decode)

    def detect(self, picture: Any) -> Detections:
        """The detections in one picture: a file, or uint8 [rows, columns, channels] in RGB, of any size. Boxes: in its pixels.

        DataError: it is no such picture. RunError: as of `InferenceSession`.
        """
        places, feed = self._feed([picture], copied=False)
        return self._decoded(self.session.answers(feed, self._plan), 0, places[0])

    def stream(self, pictures: Iterable[Any]) -> Generator[Detections, None, None]:
        """Yields the detections in one picture after another. A board prepares the next while it computes one.

        Arrays of the input's own size are not copied in batches of one: leave each alone until its detections are there.
        """
        waiting: deque[list[Placed]] = deque()

        def feeds() -> Iterator[dict[str, NDArray[Any]]]:
            for group in _groups(pictures, self.session.manifest["batch"]):
                places, feed = self._feed(group, copied=len(group) > 1)
                waiting.append(places)
                yield feed

        for answers in self.session.answers_of(feeds(), self._plan):
            for number, place in enumerate(waiting.popleft()):
                yield self._decoded(answers, number, place)

    def in_inputs(self, feed: Mapping[str, NDArray[Any]]) -> list[Detections]:
        """The detections in inputs that are made already, [N, ...] as a session takes them. Boxes: in pixels of the input."""
        made = self.session.run(None, feed)
        return [Detections(*self._decode([y[number] for y in made])) for number in range(len(made[0]))]

    def outputs(self, picture: Any) -> dict[str, NDArray[Any]]:
        """The model's own outputs for one picture, by name, as any `InferenceSession` of the file gives them."""
        made = self.session.run(None, self._feed([picture])[1])
        if self._rows is not None:
            found = self._rows.run({port["name"]: q for port, q in zip(self._ports, made, strict=True)})
            return {name: found[name] for name in self._outputs}
        real = {port["name"]: pack.dequantise(q, port["scale"], port["zero"]) for port, q in zip(self._ports, made, strict=True)}
        real |= self._tail.run(real) if self._tail else {}
        return {name: real[name] for name in self._outputs}

    def close(self) -> None:
        """Closes the session."""
        self.session.close()

    def __enter__(self) -> "Detector":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __str__(self) -> str:
        return f"{self.session.name}: {self.heads.said()}"

    # --- inside ---

    @cached_property
    def _tail(self) -> CpuPart | None:
        """What makes the model's outputs of its heads, which may need onnxruntime; None: nothing needs to."""
        last = self._artifact.pieces[-1]
        if not isinstance(last, CpuPiece):
            return None
        names = [name for name in self._outputs if name in makes(last.manifest["operators"])]
        return CpuPart(last.model, last.manifest["operators"], names, numpy=last.manifest["numpy"])

    def _feed(self, pictures: list[Any], copied: bool = True) -> tuple[list[Placed], dict[str, NDArray[Any]]]:
        """Where the pictures lie in the input, and the input. copied: whether the caller may change them meanwhile."""
        read_in = [read(picture, self._channels) for picture in pictures]
        dense = read_in[0].shape[:2] == self._room and read_in[0].flags.c_contiguous
        if dense and not copied and self._how.colour == "rgb":
            return [self._whole], {self._input: read_in[0][None]}
        x: Picture = np.empty((len(read_in), *self._room, self._channels), np.uint8)
        turned = [picture[..., ::-1] if self._how.colour == "bgr" else picture for picture in read_in]
        corner = self.heads.entry["family"] in AT_CORNER
        return [put(picture, into, corner) for picture, into in zip(turned, x, strict=True)], {self._input: x}

    def _decoded(self, answers: Mapping[str, NDArray[Any]], number: int, place: Placed) -> Detections:
        """The detections in a picture of a batch, of its heads, or as the run loop has found them."""
        if self._plan is not None and COUNT in answers:
            found = found_in(answers, number)
        else:
            found = self._decode([answers[port["name"]][number] for port in self._ports])
        return Detections(place.back(found.boxes), found.scores, found.classes)


def found_in(answers: Mapping[str, NDArray[Any]], number: int) -> Found:
    """The detections in one picture of a batch, as the run loop has found them."""
    return Found(*(answers[name][number, : answers[COUNT][number]].copy() for name in (BOXES, SCORES, CLASSES)))


def settings_of(least: float = 0.25, overlap: float = 0.5, labels: Labels = "all", most: int = MOST_BOXES) -> Settings:
    """What counts. DataError: an argument is out of its range."""
    for name, value in (("least", least), ("overlap", overlap)):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not 0 <= value <= 1:
            raise DataError(f"{name}={shown(value)}: must be a number from 0 to 1")
    if not isinstance(labels, str) or labels not in LABELS:
        raise DataError(f"labels={shown(labels)}: must be {' or '.join(map(repr, LABELS))}")
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or not 1 <= most <= MOST:
        raise DataError(f"most={shown(most)}: must be a whole number from 1 to {MOST:,}")
    return Settings(float(least), float(overlap), labels, int(most))


def _heads(manifest: Manifest) -> tuple[Heads, list[Port]]:
    """The heads, and their ports. DataError: there are none. ArtifactError: the programs do not have them."""
    entry = manifest.get("detector")
    if entry is None:
        raise DataError(
            f"{manifest['name']}: its file knows no detector's heads: compile it with --detector auto, which says why it finds none"
        )
    ports = {port["name"]: port for piece in manifest["pieces"] if piece["kind"] == ACCELERATOR for port in piece["outputs"]}
    found = [ports[name] for name in entry["heads"] if name in ports]
    return heads_of(entry, [port["shape"] for port in found], manifest["name"]), found


def _preprocessing(manifest: Manifest) -> Any:
    """DataError: the model stores none."""
    entry = manifest["preprocess"]
    if entry is None:
        raise DataError(
            f"{manifest['name']}: it does not say how it takes pictures: quantise it with --scale, --mean, --std, as --scale 1/255"
        )
    return from_entry(entry, f"{manifest['name']}: preprocess", strict=False)


def _without_tail(artifact: Artifact, ports: list[Port]) -> Artifact:
    """The artifact whose outputs are its heads, as int8."""
    pieces = artifact.pieces[:-1] if isinstance(artifact.pieces[-1], CpuPiece) else artifact.pieces
    outputs: list[ModelOutput] = [
        {"name": port["name"], "shape": [1, *port["shape"]], "dtype": "int8", "batch_axis": 0} for port in ports
    ]
    entries = artifact.manifest["pieces"][: len(pieces)]
    manifest: Manifest = {**artifact.manifest, "pieces": entries, "model_outputs": outputs}
    return replace(artifact, manifest=manifest, pieces=pieces)


def apart(artifact: Artifact) -> tuple[Artifact, Heads]:
    """A detector in its two halves: what makes its heads as int8, and what a `Decoder` makes boxes of."""
    heads, ports = _heads(artifact.manifest)
    return _without_tail(artifact, ports), heads


def _groups(pictures: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """The pictures in lists of so many; the last one may be shorter."""
    group: list[Any] = []
    for picture in pictures:
        group.append(picture)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group
