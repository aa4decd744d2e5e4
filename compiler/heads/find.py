"""Finds a detector's heads in a compiled model: asks its tail, tries one family after another, and proves what was found.

`with_detector` adds the heads to an artifact. `Missed` says which structure was expected, and where it broke off.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads import anchors, distances, maps, priors, raw_maps
from cnna.compiler.heads.family import Asked, Corners
from cnna.compiler.heads.grids import grids_of
from cnna.compiler.heads.measured import Rows, runs_of
from cnna.compiler.heads.own_rows import with_rows
from cnna.compiler.heads.sources import BOX, NONE, Arrangement, arrangements, sources, traced
from cnna.compiler.heads.tail import Outputs, Tail, UnlikeError
from cnna.compiler.heads.units import Units, units_of
from cnna.spec.artifact import Artifact, CpuPiece
from cnna.spec.detection.decode import Candidates, candidates
from cnna.spec.detection.heads import AREAS, PEAKS, SOFTMAX, DetectorEntry, Heads, heads_of
from cnna.spec.errors import ArtifactError
from cnna.spec.manifest import ModelInput, PieceEntry

Floats = NDArray[np.float32]

Found = tuple[Asked, DetectorEntry, Corners, Units]

AUTO = "auto"
LOOKS = "it looks like a"
SCORES_END = 1.01  # where int8 of scores ends
MOST_WEIGHT = 1 << 24  # elements of heads: no detector has as many
SEED, DRAWS = 1, 2
SCORES_AGREE, BOXES_AGREE = 1e-6, 1e-4  # how far the decode may be from the tail; boxes as shares of the picture's longer side


@dataclass(frozen=True)
class Missed:
    """No heads were found. why: which structure was expected, and where it broke off."""

    why: str

    def __str__(self) -> str:
        """For a line behind the model's name."""
        return f"no detector's heads found: {self.why}"

    @property
    def likely(self) -> bool:
        """Whether it has a detector's structure, and only its numbers are others."""
        return self.why.startswith(LOOKS)


def with_detector(artifact: Artifact, wanted: str = AUTO) -> tuple[Artifact, Heads | Missed]:
    """The artifact with the detector that was found in it, if one was. wanted: AUTO, or the family of a model of raw maps."""
    manifest = artifact.manifest
    last = artifact.pieces[-1] if artifact.pieces else None
    model = last.model if isinstance(last, CpuPiece) else None
    outputs = [entry["name"] for entry in manifest["model_outputs"]]
    found = find(manifest["pieces"], model, outputs, manifest["model_inputs"], wanted)
    if isinstance(found, Missed):
        return artifact, found
    return replace(artifact, manifest={**manifest, "detector": found.entry}), found


def find(
    pieces: Sequence[PieceEntry],
    model: bytes | None,
    outputs: Sequence[str],
    inputs: Sequence[ModelInput],
    wanted: str = AUTO,
) -> Heads | Missed:
    """The heads of a compiled model. model: the ONNX file of its last piece, if that runs on the CPU. wanted: as above."""
    tail, picture = None, (0, 0)
    try:
        picture = _picture(inputs)
        tail = Tail.of(pieces, model, outputs)
        if sum(int(np.prod(shape)) for shape in tail.shapes) > MOST_WEIGHT:
            raise UnlikeError("its last maps are too large for a detector's heads")
        return _found(tail, picture, wanted)
    except UnlikeError as error:
        found = _cut(tail, picture) if tail is not None else None
        return Missed(str(error)) if found is None else found
    except ArtifactError as error:  # of the tail, for some integers
        return Missed(f"its last piece cannot be asked: {error}")


def _cut(tail: Tail, picture: tuple[int, int]) -> Heads | None:
    """The heads of a tail whose boxes end at the picture's edges; None: it is none, or its boxes end elsewhere."""
    uncut = tail.uncut()
    try:
        return None if uncut is None else _found(uncut, picture, AUTO, tail)
    except (UnlikeError, ArtifactError):
        return None


def _picture(inputs: Sequence[ModelInput]) -> tuple[int, int]:
    """Rows and columns of the only input."""
    shape = inputs[0]["shape"] if inputs else []
    if len(inputs) != 1 or len(shape) != 3 or None in shape:
        raise UnlikeError("a detector has one input, a picture of a fixed size")
    sizes = [size for size in shape if size is not None]
    rows, columns = sizes[1:] if sizes[0] in (1, 3) else sizes[:2]
    return rows, columns


def _found(tail: Tail, picture: tuple[int, int], wanted: str, cut: Tail | None = None) -> Heads:
    """UnlikeError: none of the ways to read the outputs as boxes leads to heads; it says why the likeliest does not.

    cut: the model's own tail, where `tail` is the same without its last Clips.
    """
    outputs = tail.run(tail.filled(0))
    if raw_maps.are_raw(outputs):
        return _raw(tail, outputs, picture, wanted)
    if maps.are_maps(outputs):
        return _proven(*maps.found(tail, outputs, traced(tail), picture))
    ways = arrangements(outputs)
    if not ways:
        shapes = ", ".join(str(list(y.shape)) for y in outputs.values())
        raise UnlikeError(f"its output should be rows of boxes and scores, such as [1, 8400, 85] or [1, 84, 8400], and is {shapes}")
    numbers = traced(tail)
    reasons = ["the size of its output depends on its scores: it chooses boxes by itself"]
    for way in (way for way in ways if set(way.names) <= set(numbers)):
        try:
            _only_scores(tail, way, outputs)
            return _by_families(tail, way, numbers, picture, cut)
        except UnlikeError as error:
            reasons.append(str(error))
    raise UnlikeError(reasons[min(1, len(reasons) - 1)])


def _only_scores(tail: Tail, way: Arrangement, outputs: Outputs) -> None:
    """UnlikeError: another output has scores of the same boxes, such as an objectness, by which a user may multiply."""
    boxes = len(way.rows(outputs))
    others = [name for name, y in outputs.items() if way.beside and name not in way.names and boxes in y.shape]
    if not others:
        return
    low, high = tail.run(tail.filled(-128)), tail.run(tail.filled(127))
    for name in others:
        least, most = float(low[name].min()), float(high[name].max())
        if 0 <= least < most <= SCORES_END:
            raise UnlikeError(
                f"'{name}' looks like scores of the same boxes as '{way.names[1]}', and nothing says whether their product counts: "
                "export one output with boxes, objectness and classes"
            )


def _raw(tail: Tail, outputs: Outputs, picture: tuple[int, int], wanted: str) -> Heads:
    if wanted not in raw_maps.FAMILIES:
        families = " or ".join(f"--detector {name}" for name in raw_maps.FAMILIES)
        raise UnlikeError(f"its outputs look like raw maps, and no anchors are in it; {families} takes those of COCO")
    return heads_of(raw_maps.found(tail, outputs, traced(tail), picture, wanted), tail.shapes, "the model")


def _by_families(
    tail: Tail, way: Arrangement, numbers: Mapping[str, NDArray[np.int64]], picture: tuple[int, int], cut: Tail | None
) -> Heads:
    """cut: as of `_found`."""
    traces, asked_tails = way.rows(dict(numbers)), [tail]

    def rows(tensors: list[NDArray[np.int8]]) -> NDArray[np.float32]:
        made: NDArray[np.float32] = way.rows(asked_tails[-1].run(tensors))
        return made

    def proven(asked: Asked, entry: DetectorEntry, corners: Corners, units: Units | None = None) -> Heads:
        heads = _proven(asked, entry, corners)
        if cut is None:
            return heads if units is None else with_rows(heads, tail, way, units)
        asked_tails.append(cut)
        try:
            return _proven(asked, {**entry, "cut": True}, corners)
        finally:
            asked_tails.pop()

    try:
        return proven(*_yolo(tail, rows, traces, picture))
    except UnlikeError as error:
        mixed = bool((traces[:, :BOX] == NONE).any()) and not bool((traces[:, BOX:] == NONE).any())
        if not mixed and not priors.is_softmax(tail, rows):
            raise
        try:
            return proven(*priors.found(tail, rows, traces, picture))
        except UnlikeError as other:
            raise UnlikeError(f"{error}; as an SSD: {other}") from None


def _yolo(tail: Tail, rows: Rows, traces: NDArray[np.int64], picture: tuple[int, int]) -> Found:
    """The heads of a YOLO. traces: as `traced`, of the output's rows."""
    source = sources(tail, traces)
    units = units_of(grids_of(tail, source), rows(tail.filled(0)), picture)
    source = units.source(source)
    grids = grids_of(tail, source)

    def made(tensors: list[NDArray[np.int8]]) -> NDArray[np.float32]:
        return units.rows(rows(tensors))

    asked = Asked(tail, grids, source, made, runs_of(tail, grids, made, picture), picture)
    mixed = (source.head[:, :BOX] == NONE).any()
    return asked, *(distances.found(asked) if mixed else anchors.found(asked)), units


def _proven(asked: Asked, entry: DetectorEntry, corners: Corners) -> Heads:
    """The heads of an entry. UnlikeError: they are not those of the tail."""
    try:
        heads = heads_of(entry, asked.tail.shapes, "the model")
    except ArtifactError as error:
        raise UnlikeError(str(error)) from None
    _prove(asked, heads, corners)
    return heads


def _prove(asked: Asked, heads: Heads, corners: Corners) -> None:
    """Compares the decode with the tail on drawn heads. UnlikeError: they differ."""
    rng, family = np.random.default_rng(SEED), heads.entry["family"]
    for _ in range(DRAWS):
        tensors = asked.tail.drawn(rng)
        rows = asked.rows(tensors)
        scores = _scores(heads, rows)
        if heads.scores == AREAS:  # all else follows from the map
            head, channel, table = heads.entry["grids"][0]["classes"]
            found = heads.tables[table][tensors[head][channel].reshape(-1).astype(np.int16) + 128]
            if np.abs(found - scores[:, 0]).max() > SCORES_AGREE:
                raise UnlikeError(f"{LOOKS} {family}, but its map for drawn heads is another")
        else:
            _compare(asked, heads, tensors, scores, corners(rows))


def _compare(asked: Asked, heads: Heads, tensors: list[NDArray[np.int8]], scores: Floats, boxes: NDArray[np.float64]) -> None:
    """UnlikeError: a decode of head tensors does not give these scores and boxes."""
    family, least = heads.entry["family"], float(np.quantile(scores.max(axis=1), 0.5))
    found = candidates(heads, tensors, least, "all", scores.size)
    if not agree(scores, found, least):
        raise UnlikeError(f"{LOOKS} {family}, but its scores for drawn heads are others")
    wanted = boxes[found.rows]
    off = (np.abs(found.boxes - wanted) / np.maximum(np.abs(wanted), max(asked.picture))).max(initial=0)
    if not off <= BOXES_AGREE:
        remedy = "; if Q and DQ stand between its softmax and its boxes, quantise it with --detector auto"
        raise UnlikeError(
            f"{LOOKS} {family}, but its boxes for drawn heads are up to {off:.2g} of the picture away"
            + remedy * (heads.entry["form"] == "corners")
        )


def agree(scores: NDArray[np.float32], found: Candidates, least: float) -> bool:
    """Whether candidates are those of the tail's scores [rows, labels], with these scores.

    onnxruntime's sigmoid of one number may differ in its last bit by its place in the tensor, and so fall on either side of the
    threshold.
    """
    passed = np.zeros(scores.shape, bool)
    passed[found.rows, found.classes] = True
    off = np.abs(found.scores - scores[found.rows, found.classes]).max(initial=0)
    missing, surplus = (scores >= least + SCORES_AGREE) & ~passed, passed & (scores < least - SCORES_AGREE)
    return bool(off <= SCORES_AGREE and not missing.any() and not surplus.any())


def _scores(heads: Heads, rows: Floats) -> Floats:
    """The scores [rows, classes] of the tail's rows, as its user has them; -1 where they do not count."""
    grid = heads.entry["grids"][0]
    if heads.scores == AREAS:
        return rows
    if heads.scores == SOFTMAX:
        return rows[:, BOX + 1 :]
    if heads.scores == PEAKS:
        return maps.peaks(rows[:, BOX:], grid["size"])
    made: Floats = rows[:, 5:] * rows[:, 4:5] if grid["objectness"] is not None else rows[:, BOX:]
    return made
