"""examples/video.py: boxes are drawn on frames of a folder, into another folder and on a page."""

import io
import itertools
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
import video
from PIL import Image

from cnna.host.model.detections import Detections
from cnna.spec.artifact import save

from . import detector_models
from .browser import drawn, needs_browser

FRAMES, BROWSER_SECONDS = 3, 300.0
PROBE = b"""<script>
const view = document.getElementById("view"), canvas = document.createElement("canvas"), seen = new Set();
const look = async () => {
  await fetch("tick");  // takes real time: the page's own clock runs ahead of the frames
  if (view.naturalWidth) {
    [canvas.width, canvas.height] = [view.naturalWidth, view.naturalHeight];
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    pen.drawImage(view, 0, 0);
    const [red, green] = pen.getImageData(32, 24, 1, 1).data;
    seen.add(red > 128 ? "red" : green > 128 ? "green" : "none");
    document.body.dataset.seen = [...seen].sort().join();
    document.body.dataset.size = `${canvas.width}x${canvas.height}`;
  }
  await (seen.has("red") && seen.has("green") ? fetch("done") : new Promise((go) => setTimeout(() => go(look()), 20)));
};
look();
</script>"""


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


def test_a_clip_needs_no_file(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no camera could try nothing."""
    monkeypatch.setattr(video, "FRAMES", 2)
    monkeypatch.chdir(folder)
    arguments = ["d.cnna", "clip", "--device", "reference", "--output", "clip-drawn"]
    assert video.main([*arguments, "--enlarge", "2"]) == 0
    made = [np.asarray(Image.open(file)) for file in sorted((folder / "clip-drawn").iterdir())]
    assert [frame.shape for frame in made] == [(192, 192, 3)] * 2
    assert video.main([*arguments, "--enlarge", "0"]) == 2
    assert "--enlarge 0: must be at least 1" in capsys.readouterr().err


def test_boxes_lie_where_they_were_found() -> None:
    """A box would be drawn with rows for columns."""
    found = Detections(np.array([[10, 20, 30, 25]], np.float32), np.array([0.5], np.float32), np.array([1]))
    made = np.asarray(video.drawn(np.zeros((40, 60, 3), np.uint8), found, []))
    assert np.nonzero(made.any(axis=2))[1].min() == 10
    assert made[20:26, 10].any(axis=1).all()
    assert made[25, 10:31].any(axis=1).all()
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


@needs_browser
def test_a_browser_shows_one_frame_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chromium would show no picture, or the first one for ever, since its parts are not as it reads them."""
    monkeypatch.setattr(video, "PAGE", video.PAGE + PROBE)
    page, stop, done = video.Page(0), threading.Event(), threading.Event()
    answer = page.answer

    def answered(request: BaseHTTPRequestHandler) -> None:
        answer(request)
        if request.path == "/done":
            done.set()

    def end() -> None:  # a browser that dumps its page waits for the end of all that it loads
        done.wait(BROWSER_SECONDS)
        page.close()

    def show() -> None:
        for number in itertools.count():
            if stop.wait(0.1):
                return
            page.show(Image.new("RGB", (64, 48), ("#ff0000", "#00ff00")[number // 5 % 2]))

    monkeypatch.setattr(page, "answer", answered)
    threads = [threading.Thread(target=show), threading.Thread(target=end)]
    for thread in threads:
        thread.start()
    try:
        body = drawn(page.address, 4000, timeout_seconds=BROWSER_SECONDS)
    finally:
        stop.set()
        done.set()
        for thread in threads:
            thread.join()
    assert 'data-size="64x48"' in body
    assert 'data-seen="green,red"' in body


def test_what_is_no_source_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The user would see a traceback."""
    assert video.main([str(folder / "d.cnna"), str(folder / "nowhere"), "--device", "reference"]) == 2
    assert "no such file" in capsys.readouterr().err
