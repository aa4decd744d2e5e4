"""A JSON file as COCO has it: `images`, `annotations` and `categories`, for boxes and for keypoints."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from os.path import isfile
from pathlib import Path
from typing import Any

from cnna.evaluate.datasets.dataset import WHOLE, Dataset, Pictures, Place
from cnna.evaluate.datasets.labels import identity_of
from cnna.evaluate.datasets.turned import turn_of
from cnna.host.samples.picture_modes import size_of
from cnna.spec.checks.json_kinds import is_number
from cnna.spec.errors import DataError
from cnna.spec.files import read_bytes
from cnna.spec.names import in_line

LISTS = ("images", "annotations", "categories")
NO_SIZE = (1, 1)  # of a picture that is not there, and is left out
FARTHEST = 1 << 24  # pixels, of a box's numbers
Json = Mapping[str, Any]


def read_boxes(path: Path, labels: tuple[str, ...] | None, images: Path | None, fit: str, skip: bool = False) -> Dataset:
    """A sample for each image, with its boxes. images: the folder of the pictures; None: that of the file, or `images` in it.

    Categories are classes in the order of their ids, or as `labels` order their names. DataError: the file is not COCO's, or a
    picture is not there.
    """
    whole = _read(path)
    classes = _classes(path, whole, labels)
    places = {one["id"]: classes.index(str(one["name"])) for one in whole["categories"]}
    objects: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for number, one in enumerate(whole["annotations"]):
        where = f"{path}: annotation {number}"
        _need(one, ("image_id", "category_id", "bbox"), where)
        if type(one["category_id"]) not in (int, str) or one["category_id"] not in places:
            raise DataError(f"{where}: category {one['category_id']} is not among the categories")
        box = _box(one["bbox"], where)
        if type(one["image_id"]) not in (int, str):
            raise DataError(f"{where}: image_id {one['image_id']!r:.60} is neither a number nor a name")
        objects[one["image_id"]].append(
            {"box": box, "area": _area(one, box, where), "crowd": _is_crowd(one, where), "class": places[one["category_id"]]}
        )
    files = _files(path, whole["images"], images, skip)
    if lost := set(objects) - {one["id"] for one in whole["images"]}:
        raise DataError(f"{path}: annotations name image {min(map(str, lost))}, which is not among the images")
    targets = []
    for one, file in zip(whole["images"], files, strict=True):
        turn = turn_of(file, one)
        size = turn.size or _size(path, one, file)
        for each in objects[one["id"]]:
            each["box"] = turn.box(each["box"])
        targets.append({"size": size, "objects": objects[one["id"]], "place": partial(_place, size, fit)})
    return Dataset(
        layout="COCO",
        path=str(path),
        names=[str(one["file_name"]) for one in whole["images"]],
        targets=targets,
        source=Pictures(files, fit),
        identity=identity_of(files, read_bytes(path), repr((fit, classes)).encode()),
        classes=classes,
    )


def read_points(path: Path, images: Path | None, skip: bool = False) -> Dataset:
    """A sample for each object with keypoints: its box, cut out of its picture. Points are in pixels of that cut.

    DataError: as of `read_boxes`, or there are no keypoints.
    """
    whole = _read(path)
    by_id = dict(zip([one["id"] for one in whole["images"]], _files(path, whole["images"], images, skip), strict=True))
    turns = {one["id"]: turn_of(by_id[one["id"]], one) for one in whole["images"]}
    files, boxes, names, targets = [], [], [], []
    for number, one in enumerate(whole["annotations"]):
        where = f"{path}: annotation {number}"
        points = _points(one, where)
        if not points or one.get("iscrowd"):
            continue
        _need(one, ("image_id", "bbox"), where)
        if type(one["image_id"]) not in (int, str) or one["image_id"] not in by_id:
            raise DataError(f"{where}: image {one['image_id']} is not among the images")
        turn = turns[one["image_id"]]
        box, points = turn.box(_box(one["bbox"], where)), turn.points(points)
        if min(box[2:]) < 1:
            raise DataError(f"{where}: bbox {box} has no pixel to cut out for its keypoints")
        rows = [[points[at] - box[0], points[at + 1] - box[1], points[at + 2]] for at in range(0, len(points), 3)]
        files.append(by_id[one["image_id"]])
        boxes.append(box)
        names.append(f"{files[-1].name}, object {one.get('id', number)}")
        about = {"area": _area(one, box, where), "size": (box[3], box[2]), "picture": one["image_id"], "corner": box[:2]}
        targets.append({"points": rows, **about})
    if not files:
        raise DataError(f"{path}: has no annotation with keypoints")
    identity = identity_of(files, read_bytes(path))
    return Dataset("COCO keypoints", str(path), names, targets, Pictures(files, WHOLE, boxes), identity)


def _place(size: tuple[int, int], fit: str, frame: tuple[int, int]) -> Place:
    return Place.of(size, frame, fit)


def _read(path: Path) -> dict[str, Any]:
    """The file. DataError: it is no JSON, or lacks one of its lists."""
    try:
        whole = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}: " if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(f"{path}: {where}not JSON; it must have {', '.join(LISTS)}, as COCO's annotations have") from None
    if not isinstance(whole, dict) or not all(isinstance(whole.get(name), list) for name in LISTS):
        missing = [name for name in LISTS if not isinstance(whole, dict) or not isinstance(whole.get(name), list)]
        raise DataError(f"{path}: has no list {', '.join(missing)}; it must have {', '.join(LISTS)}, as COCO's annotations have")
    for name in LISTS:
        if wrong := [number for number, one in enumerate(whole[name]) if not isinstance(one, dict)]:
            raise DataError(f"{path}: {name}[{wrong[0]}] is no object")
    if not whole["images"]:
        raise DataError(f"{path}: has no image")
    for name, what, needed in (("images", "image", ("id", "file_name")), ("categories", "category", ("id", "name"))):
        ids = set()
        for number, one in enumerate(whole[name]):
            where = f"{path}: {what} {number}"
            _need(one, needed, where)
            if name == "categories" and type(one["name"]) not in (int, str):
                raise DataError(f"{where}: its name {one['name']!r:.60} is no text")
            if type(one["id"]) not in (int, str):
                raise DataError(f"{where}: id {one['id']!r:.60} is neither a number nor a name")
            if one["id"] in ids:
                raise DataError(f"{where}: id {one['id']} is that of another {what} too")
            ids.add(one["id"])
    return whole


def _need(one: Json, names: Sequence[str], where: str) -> None:
    if missing := [name for name in names if name not in one]:
        raise DataError(f"{where}: has no {', '.join(missing)}")


def _box(box: Any, where: str) -> list[float]:
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_place, box)) or min(box[2:]) < 0:
        raise DataError(f"{where}: bbox {box!r:.60} is no box: left, top, width, height")
    return [float(one) for one in box]


def _is_place(value: Any) -> bool:
    return is_number(value) and abs(value) <= FARTHEST


def _is_crowd(one: Json, where: str) -> bool:
    crowd = one.get("iscrowd") or 0
    if crowd not in (0, 1):
        raise DataError(f"{where}: iscrowd {crowd!r:.60} is neither 0 nor 1")
    return bool(crowd)


def _area(one: Json, box: Sequence[float], where: str) -> float:
    """An object's area; that of its box if nothing says it."""
    area = one.get("area", box[2] * box[3])
    if not is_number(area) or area < 0:
        raise DataError(f"{where}: area {area!r:.60} is no number from 0 up")
    return float(area)


def _points(one: Json, where: str) -> list[float]:
    """The numbers of an object's keypoints; none if it has none that is known."""
    points = one.get("keypoints") or []
    if not isinstance(points, list) or len(points) % 3 or not all(map(is_number, points)):
        raise DataError(f"{where}: keypoints {points!r:.60} are no list of numbers: x, y, and whether it is known, for each")
    return points if any(known > 0 for known in points[2::3]) else []


def _classes(path: Path, whole: Json, labels: tuple[str, ...] | None) -> tuple[str, ...]:
    """The names of the classes by number. DataError: a category has no label, or two have one name."""
    names = [str(one["name"]) for one in sorted(whole["categories"], key=_in_order)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"{path}: two categories are called {twice}")
    if labels is None:
        return tuple(names)
    if unknown := [name for name in names if name not in labels]:
        raise DataError(f"{path}: --labels has no name for category {in_line(unknown)}")
    return labels


def _in_order(one: Json) -> tuple[bool, Any]:
    """By their ids: numbers, then names."""
    return isinstance(one["id"], str), one["id"]


def _files(path: Path, images: Sequence[Json], folder: Path | None, skip: bool) -> list[Path]:
    """Where the pictures are. DataError: one is not there, and is not to be left out later (`skip`), or none is."""
    folders = [folder] if folder is not None else [path.parent, path.parent / "images", path.parent.parent / "images"]
    first = str(images[0]["file_name"])
    base = next((one for one in folders if isfile(one / first)), folders[0])
    files = [base / str(one["file_name"]) for one in images]
    lost = [file for file in files if not isfile(file)]
    if lost and not (skip and len(lost) < len(files)):
        missing = lost[0]
        remedy = "" if folder is not None else "; --images DIR says where the pictures are"
        raise DataError(f"{path}: {missing}: no such picture{remedy}")
    return files


def _size(path: Path, one: Json, file: Path) -> tuple[int, int]:
    """Rows and columns of a picture."""
    size = one.get("height"), one.get("width")
    if all(isinstance(side, int) and side > 0 for side in size):
        return int(one["height"]), int(one["width"])
    found = size_of(file) if isfile(file) else NO_SIZE
    if found is None:
        raise DataError(f"{path}: {one['file_name']}: has no height and width, and its file says none")
    return found
