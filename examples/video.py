"""A camera, a video or a folder of pictures, with a detector's boxes drawn: into a folder, into a video, or on a page.

    .venv/bin/python examples/video.py yolo.cnna photos/ --output drawn/
    .venv/bin/python examples/video.py yolo.cnna 0 --device cnna.bit --page 8000      # camera 0, at http://127.0.0.1:8000
    .venv/bin/python examples/video.py shapes.cnna clip --enlarge 4 --output drawn/   # frames that it draws itself (`cnna.shapes`)

Videos and cameras are read by OpenCV (the extra `video`); folders of pictures, and the page, need Pillow alone. At the end it says
the frames a second, and which share of the time goes where.
"""

import argparse
import io
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from cnna import Detector, shapes
from cnna.host.model.detections import Detections
from cnna.host.model.letterbox import read
from cnna.host.samples.pictures import find
from cnna.spec.errors import CnnaError, DataError, ToolError
from cnna.spec.extras import install

Frame = NDArray[np.uint8]  # [rows, columns, 3], red, green, blue

COLOURS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324", "#808000")
CLIP, FRAMES, SEED = "clip", 48, 8  # the source of frames that are drawn here
VIDEO, RATE, QUALITY = (".mp4", ".avi", ".mkv", ".mov", ".webm"), 25.0, 85
BOUNDARY = b"frame"
PAGE = b"<!doctype html><title>cnna</title><body style='margin:0;background:#222'><img id=view src=/stream style='max-width:100%'>"
WAIT_SECONDS = 0.5


class Spent:
    """Seconds by what they were spent on."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Counts the block's time."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - began

    def said(self, frames: int) -> str:
        """Frames a second from picture to answer, and where they go."""
        whole = sum(self.seconds.values())
        shares = ", ".join(f"{what} {seconds / whole:.0%}" for what, seconds in self.seconds.items())
        return f"{frames} frames, {frames / whole:.3g} a second from picture to answer: {shares}" if frames else "no frames"


class Page:
    """The newest frame on a page, as a stream of JPEG pictures. address: where it is."""

    def __init__(self, port: int) -> None:
        self._newest, self._number, self._changed = b"", 0, threading.Condition()
        self._ended = False
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads a line for each request."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def show(self, picture: Image.Image) -> None:
        """Makes a picture the newest one."""
        data = io.BytesIO()
        picture.save(data, "JPEG", quality=QUALITY)
        with self._changed:
            self._newest, self._number = data.getvalue(), self._number + 1
            self._changed.notify_all()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """The page, or frames until one side ends."""
        request.send_response(200)
        stream = request.path == "/stream"
        kind = f"multipart/x-mixed-replace; boundary={BOUNDARY.decode()}" if stream else "text/html"
        request.send_header("Content-Type", kind)
        request.end_headers()
        if not stream:
            request.wfile.write(PAGE)
            return
        seen = 0
        while not self._ended:
            with self._changed:
                self._changed.wait_for(partial(self._later, seen), WAIT_SECONDS)
                data, number = self._newest, self._number
            if number > seen:
                seen = number
                head = b"--%s\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % (BOUNDARY, len(data))
                try:
                    request.wfile.write(head + data + b"\r\n")
                except OSError:  # whoever watched has gone
                    return

    def _later(self, seen: int) -> bool:
        return self._number > seen or self._ended

    def close(self) -> None:
        """Ends the page."""
        self._ended = True
        self._server.shutdown()
        self._server.server_close()


def opencv() -> Any:
    """ToolError: it is not installed."""
    try:
        import cv2
    except ImportError:
        raise ToolError(f"videos and cameras are read with OpenCV, which is not installed: {install('video')}") from None
    return cv2


def frames(source: str) -> Iterator[Frame]:
    """Frames of a folder or a picture, of a video, or of the camera of that number; or of CLIP. DataError: there are none."""
    path = Path(source)
    if source == CLIP and not path.exists():
        yield from shapes.clip(FRAMES, SEED)
        return
    if not source.isdecimal() and path.suffix.lower() not in VIDEO:
        for file in find(path):
            yield read(file, 3)
        return
    cv2 = opencv()
    capture = cv2.VideoCapture(int(source) if source.isdecimal() else str(path))
    try:
        if not capture.isOpened():
            raise DataError(f"{source}: OpenCV opens no {'camera' if source.isdecimal() else 'video'} of that name")
        while True:
            there, frame = capture.read()
            if not there:
                return
            yield frame[..., ::-1]  # OpenCV has blue first
    finally:
        capture.release()


def drawn(frame: Frame, found: Detections, names: Sequence[str], times: int = 1) -> Image.Image:
    """The frame, so many times as large, with its boxes, each with its class and score."""
    picture = Image.fromarray(np.ascontiguousarray(frame.repeat(times, axis=0).repeat(times, axis=1)))
    draw = ImageDraw.Draw(picture)
    for box, score, number in zip(found.boxes, found.scores, found.classes, strict=True):
        colour = COLOURS[int(number) % len(COLOURS)]
        left, top, right, bottom = map(float, times * box)
        draw.rectangle((left, top, max(left, right), max(top, bottom)), outline=colour, width=2)
        name = names[number] if number < len(names) else str(number)
        label(draw, (left, top), f"{name} {score:.2f}", colour)
    return picture


def label(draw: ImageDraw.ImageDraw, place: tuple[float, float], text: str, colour: str) -> None:
    """Writes on a plate of the box's colour, above its top left corner; below it at the picture's edge."""
    _, _, wide, high = draw.textbbox((0, 0), text)
    left, top = place[0], place[1] - high - 2 if place[1] > high + 2 else place[1]
    draw.rectangle((left, top, left + wide + 4, top + high + 2), fill=colour)
    draw.text((left + 3, top), text, fill="white")


class Folder:
    """Writes frames to a folder, as JPEG files in order."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        path.mkdir(parents=True, exist_ok=True)

    def show(self, picture: Image.Image) -> None:
        """Writes a frame."""
        picture.save(self.path / f"{self.count:06}.jpg", quality=QUALITY)
        self.count += 1

    def close(self) -> None:
        """Nothing is left to write."""


class Video:
    """Writes frames to a video."""

    def __init__(self, path: Path) -> None:
        self.cv2, self.path = opencv(), path
        self._writer: Any = None

    def show(self, picture: Image.Image) -> None:
        """Writes a frame."""
        if self._writer is None:
            self._writer = self.cv2.VideoWriter(str(self.path), self.cv2.VideoWriter_fourcc(*"mp4v"), RATE, picture.size)
        self._writer.write(np.asarray(picture)[..., ::-1])

    def close(self) -> None:
        """Ends the video."""
        if self._writer is not None:
            self._writer.release()


def run(args: argparse.Namespace) -> str:
    """Draws all frames. Returns how many, how quick, and where the time goes."""
    if args.enlarge < 1:
        raise DataError(f"--enlarge {args.enlarge}: must be at least 1")
    names = args.names.read_text().split("\n") if args.names else list(shapes.CLASSES) if args.source == CLIP else []
    spent, count, waiting = Spent(), 0, list[Frame]()
    with ExitStack() as stack:
        shown: list[Folder | Video | Page] = []
        if args.output:
            shown.append(Video(args.output) if args.output.suffix.lower() in VIDEO else Folder(args.output))
        if args.page is not None:
            shown.append(page := Page(args.page))
            print(f"frames at {page.address}; Ctrl-C ends", flush=True)
        for one in shown:
            stack.callback(one.close)
        detector = stack.enter_context(Detector(args.model, args.device, least=args.least, labels="best"))

        def read_frames() -> Iterator[Frame]:
            source = frames(args.source)
            while True:
                with spent.on("reading"):
                    frame = next(source, None)
                if frame is None:
                    return
                waiting.append(frame)
                yield frame

        answers = detector.stream(read_frames())
        while True:
            before = spent.seconds.get("reading", 0.0)
            with spent.on("detecting"):
                found = next(answers, None)
            spent.seconds["detecting"] -= spent.seconds.get("reading", 0.0) - before  # which it has done meanwhile
            if found is None:
                return spent.said(count)
            with spent.on("drawing"):
                picture = drawn(waiting.pop(0), found, names, args.enlarge)
            with spent.on("writing"):
                for one in shown:
                    one.show(picture)
            count += 1


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Draws a detector's boxes on a camera, a video or a folder of pictures.")
    parser.add_argument("model", type=Path, help="a .cnna that was compiled with --detector")
    parser.add_argument("source", help=f"a folder, a picture, a video, or the number of a camera; {CLIP}: frames drawn here")
    parser.add_argument("--device", default="emulator", help="as of cnna.Detector (default: emulator)")
    parser.add_argument("--least", type=float, default=0.25, help="the lowest score that counts (default: 0.25)")
    parser.add_argument("--enlarge", type=int, default=1, metavar="N", help="draw frames so many times as large (default: 1)")
    parser.add_argument("--names", type=Path, help="a file with the name of a class in each line")
    parser.add_argument("--output", type=Path, help="a folder for pictures, or a video")
    parser.add_argument("--page", type=int, help="the port of a page that shows the frames; 0: a free one")
    try:
        print(run(parser.parse_args(arguments)))
    except CnnaError as error:
        print(f"video: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
