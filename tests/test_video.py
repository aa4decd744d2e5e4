"""examples/video.py: boxes are drawn on frames of a folder, into another folder and on a page."""

import io
import threading
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import video
from PIL import Image

from cnna.host.model.detections import Detections
from cnna.spec.artifact import save

from . import detector_models

FRAMES = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector, and a folder of frames of another size than its input."""
    made = tmp_path_factory.mktemp("video")
    save(detector_models.made("yolov5").artifact, made / "d.cnna")
    (made / "frames").mkdir()
    for number, picture in enumerate(detector_models.pictures(FRAMES, seed=7)):
        whole = np.kron(picture.transpose(1, 2, 0), np.ones((2, 2, 1), np.uint8))
        Image.fromarray(whole[:96]).save(made / "frames" / f"{number}.png")
    return made


def test_frames_are_drawn_into_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Frames would be lost, in another order or of another size, or without boxes."""
    (folder / "names.txt").write_text("cat\ndog")
    arguments = [str(folder / "d.cnna"), str(folder / "frames"), "--device", "reference", "--names", str(folder / "names.txt")]
    assert video.main([*arguments, "--output", str(folder / "drawn")]) == 0
    assert f"{FRAMES} frames, " in capsys.readouterr().out
    files = sorted((folder / "drawn").iterdir())
    assert [file.name for file in files] == [f"{number:06}.jpg" for number in range(FRAMES)]
    for number, file in enumerate(files):
        given, made = (np.asarray(Image.open(one), np.int64) for one in (folder / "frames" / f"{number}.png", file))
        assert made.shape == given.shape == (96, 128, 3)
        assert (np.abs(made - given).max(axis=2) > 60).mean() > 0.02


def test_boxes_lie_where_they_were_found() -> None:
    """A box would be drawn with rows for columns."""
    found = Detections(np.array([[10, 20, 30, 25]], np.float32), np.array([0.5], np.float32), np.array([1]))
    made = np.asarray(video.drawn(np.zeros((40, 60, 3), np.uint8), found, []))
    rows, columns = np.nonzero(made.any(axis=2))
    assert (rows.min(), columns.min()) == (20, 10)
    for row, column in ((20, 10), (20, 30), (25, 10), (25, 30)):
        assert made[row, column].any()
    assert not made[27:, 10].any()


def test_the_page_streams_the_newest_frame() -> None:
    """A browser would show a still picture, or nothing."""
    page = video.Page(0)
    try:
        with urllib.request.urlopen(page.address, timeout=20) as answer:
            assert b"src=/stream" in answer.read()
        threading.Timer(0.1, page.show, [Image.new("RGB", (8, 6), "#ff0000")]).start()
        with urllib.request.urlopen(f"{page.address}/stream", timeout=20) as answer:
            assert answer.headers["Content-Type"].startswith("multipart/x-mixed-replace")
            assert answer.readline() == b"--frame\r\n"
            assert answer.readline() == b"Content-Type: image/jpeg\r\n"
            length = int(answer.readline().split(b":")[1])
            answer.readline()
            red = np.asarray(Image.open(io.BytesIO(answer.read(length))))
    finally:
        page.close()
    assert red.shape == (6, 8, 3)
    assert red[..., 0].min() > 200 > 60 > red[..., 1].max()


def test_what_is_no_source_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The user would see a traceback."""
    assert video.main([str(folder / "d.cnna"), str(folder / "nowhere"), "--device", "reference"]) == 2
    assert "no such file" in capsys.readouterr().err
