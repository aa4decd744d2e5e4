"""`Dataset`: samples by number, what is right for each of them, and how one becomes the inputs of a model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os.path import isfile  # of any name, where Path.is_file fails for one that is too long
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cnna.host.samples import pictures
from cnna.host.samples.arrays import open_rows
from cnna.host.samples.given import FILE
from cnna.host.samples.picture_modes import upright
from cnna.host.samples.rows import Rows
from cnna.spec.errors import DataError
from cnna.spec.samples.preprocess import NORMALISATION, Preprocess, from_entry

Inputs = dict[str, NDArray[Any]]
WHOLE, LETTERBOX, CORNER, CUT = FITS = ("whole", "letterbox", "corner", "cut")  # how a picture meets the input's rows and columns
MOST_PIXELS = 1 << 26  # of an object that is cut out, with what lies beside its picture
MARGIN_GREY = 114  # around a picture in a letterbox, as YOLO's trainings have it


class SampleError(DataError):
    """One sample cannot be read; others may."""


@dataclass(frozen=True, eq=False)
class Intake:
    """What one model takes.

    name: of the model, for messages. inputs: the shape of each without its batch axis, None where any size will do. types: of the
    inputs of integers. table: how pictures become the input (docs/preprocess.md). takes_pixels: whether it takes uint8 and does
    the rest itself.
    """

    name: str
    inputs: Mapping[str, Sequence[int | None]]
    types: Mapping[str, str]
    table: Mapping[str, Any]
    takes_pixels: bool = False

    @property
    def how(self) -> Preprocess:
        """The table, read. ModelError: a value in it has another kind."""
        return from_entry(self.table, self.name, strict=False)

    def picture_input(self) -> tuple[str, Sequence[int | None]]:
        """Name and shape of the input that takes pictures. DataError: there is none, or nothing says how pictures become it."""
        if len(self.inputs) != 1:
            raise DataError(f"{self.name}: pictures are for one input, not {', '.join(self.inputs)}; give an .npz")
        ((name, shape),) = self.inputs.items()
        if name not in self.types and not any(key in self.table for key in NORMALISATION):
            raise DataError(
                f"{self.name}: nothing says how pictures become floats: give --scale, --mean and --std (--scale 1/255: 0 to 1), "
                f"or write a {FILE} beside the model"
            )
        try:
            pictures.frame(shape, self.how)
        except DataError as error:
            raise DataError(f"{self.name}: {error}") from None
        return name, shape

    @property
    def frame(self) -> tuple[int, int] | None:
        """Rows and columns of the pictures that the model takes; None: it takes none."""
        try:
            return pictures.frame(next(iter(self.inputs.values())), self.how)[1:] if len(self.inputs) == 1 else None
        except DataError:
            return None

    def same_cut(self, other: "Intake") -> bool:
        """Whether the other model takes pictures of the same pixels."""
        alike = [(tuple(one.inputs.values()), one.how.size, one.how.crop, one.how.layout, one.how.colour) for one in (self, other)]
        return alike[0] == alike[1] and len(self.inputs) == 1

    def ready(self, pixels: NDArray[np.uint8]) -> Inputs:
        """The input of pictures, from their pixels in the model's layout."""
        ((name, _),) = self.inputs.items()
        return {name: pixels if self.takes_pixels or name in self.types else self.how.apply(pixels)}


class Source(Protocol):
    """Where samples come from."""

    def read(self, numbers: Sequence[int], intake: Intake) -> Inputs:
        """The inputs of some samples, [n, ...] by name. SampleError: one cannot be read. DataError: none fits the model."""

    def picture(self, number: int) -> NDArray[np.uint8] | None:
        """A sample to look at, uint8 [H, W, 3]; None: it is no picture."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples and what is right for them.

    layout: what the data look like, for people. names: of the samples. targets: what is right for each, in the form that the task
    wants; None where nothing is known. classes: names of the classes by number, where there are any. identity: a digest of all
    that could change between two evaluations. grouped: whether samples of one class follow each other. notes: lines for the user.
    """

    layout: str
    path: str
    names: Sequence[str]
    targets: Sequence[Any]
    source: Source
    identity: str
    classes: tuple[str, ...] | None = None
    grouped: bool = False
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)


class Pictures:
    """Picture files as a source. fit: CUT scales and cuts as the model's preprocessing says; others use the whole picture."""

    def __init__(self, files: Sequence[Path], fit: str = CUT, boxes: Sequence[Sequence[float]] | None = None) -> None:
        self._files, self._fit, self._boxes = files, fit, boxes
        self._last: tuple[tuple[int, ...], Intake, NDArray[np.uint8]] | None = None  # models that take the same pixels share them

    def read(self, numbers: Sequence[int], intake: Intake) -> Inputs:
        """As of Source."""
        _, shape = intake.picture_input()
        last = self._last
        if last is not None and last[0] == tuple(numbers) and last[1].same_cut(intake):
            return intake.ready(last[2])
        try:
            cut = np.concatenate([self._cut(number, shape, intake.how) for number in numbers])
        except DataError as error:
            raise SampleError(str(error)) from None
        pixels = pictures.as_input(cut, intake.how)
        self._last = tuple(numbers), intake, pixels
        return intake.ready(pixels)

    def _cut(self, number: int, shape: Sequence[int | None], how: Preprocess) -> NDArray[np.uint8]:
        if not isfile(self._files[number]):
            raise SampleError(f"{self._files[number]}: no such file")
        if self._fit == CUT:
            return pictures.read([self._files[number]], shape, how)
        channels, rows, columns = pictures.frame(shape, how)
        picture = upright(self._files[number], channels)
        picture = self._cropped(picture, number)
        place = Place.of((picture.height, picture.width), (rows, columns), self._fit)
        height, width = (round(size * scale) for size, scale in zip((picture.height, picture.width), place.scales, strict=True))
        scaled = np.asarray(picture.resize((max(width, 1), max(height, 1)), pictures.BILINEAR), np.uint8)
        whole = np.full((rows, columns, channels), MARGIN_GREY, np.uint8)
        top, left = (round(shift) for shift in place.shifts)
        whole[top : top + height, left : left + width] = scaled.reshape(*scaled.shape[:2], channels)
        return (whole[..., ::-1] if how.colour == "bgr" else whole)[None]

    def picture(self, number: int) -> NDArray[np.uint8] | None:
        """As of Source; None too where the file cannot be read."""
        try:
            return np.asarray(self._cropped(upright(self._files[number], 3), number), np.uint8)
        except DataError:
            return None

    def _cropped(self, picture: Any, number: int) -> Any:
        """The sample's box of a picture. SampleError: it is too large."""
        if self._boxes is None:
            return picture
        left, top, width, height = self._boxes[number]
        if width * height > MOST_PIXELS:
            raise SampleError(f"{self._files[number]}: a box of {width:g}x{height:g} pixels is too large to be cut out")
        return picture.crop((round(left), round(top), round(left + width), round(top + height)))


@dataclass(frozen=True)
class Place:
    """Where a whole picture lies in a model's input: input = picture * scale + shift, for rows and columns."""

    scales: tuple[float, float]
    shifts: tuple[float, float]

    @classmethod
    def of(cls, picture: tuple[int, int], frame: tuple[int, int], fit: str) -> "Place":
        """For the rows and columns of both.

        fit: WHOLE stretches; LETTERBOX keeps the sides' ratio, with margins on both sides; CORNER with margins below and right.
        """
        scales = frame[0] / picture[0], frame[1] / picture[1]
        if fit != WHOLE:
            scales = (min(scales), min(scales))
        if fit == CORNER:
            return cls(scales, (0, 0))
        over = [size - round(own * scale) for size, own, scale in zip(frame, picture, scales, strict=True)]
        return cls(scales, (over[0] // 2, over[1] // 2))

    def back(self, x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Columns and rows of the input as those of the picture."""
        return (x - self.shifts[1]) / self.scales[1], (y - self.shifts[0]) / self.scales[0]


def _ignored(line: str) -> None:
    """Says nothing."""


class ArrayFile:
    """The arrays of a .npy or .npz as a source. beside: names of arrays that are no inputs."""

    def __init__(self, path: Path, beside: Sequence[str] = ()) -> None:
        self._path, self._beside = path, tuple(beside)
        self.note: Callable[[str], object] = _ignored  # takes a line about arrays that are left out
        self._noted: set[str] = set()
        self._rows: dict[str, dict[str, Rows]] = {}  # by model

    def read(self, numbers: Sequence[int], intake: Intake) -> Inputs:
        """As of Source."""
        rows = self.opened(intake)
        which = np.array(numbers)
        found = {name: one[which] for name, one in rows.items()}
        plain = intake.takes_pixels or not intake.table
        return (
            found
            if plain
            else {n: intake.how.apply(x) if x.dtype == np.uint8 and n not in intake.types else x for n, x in found.items()}
        )

    def opened(self, intake: Intake) -> dict[str, Rows]:
        """The model's inputs in the file. DataError: as of `open_rows`."""
        if intake.name not in self._rows:
            self._rows[intake.name] = open_rows(
                self._path, intake.inputs, allow_uint8=bool(intake.table), types=intake.types, beside=self._beside, note=self._say
            )
        return self._rows[intake.name]

    def _say(self, line: str) -> None:
        """Hands a line on, once for all models."""
        if line not in self._noted:
            self._noted.add(line)
            self.note(line)

    def picture(self, number: int) -> NDArray[np.uint8] | None:
        """As of Source: of the first model's first input, if it has one or three channels."""
        if not self._rows:
            return None
        rows = next(iter(next(iter(self._rows.values())).values()))
        if rows.ndim != 4 or not {rows.shape[1], rows.shape[3]} & {1, 3}:
            return None
        first = rows.shape[1] in (1, 3)
        shape = rows.shape[1:] if first else (rows.shape[3], *rows.shape[1:3])
        x = rows[np.array([number])]
        shown = pictures.shown(x, shape)[0]
        return np.rint(np.broadcast_to(shown, (*shown.shape[:2], 3)) * 255).astype(np.uint8)
