"""`session.buffer` and the interrupt, through pynq's own classes for a board of this machine."""

import os
from pathlib import Path

import numpy as np

from ..hand_made import expected
from .below_pynq import inside
from .local_board import LocalBoard

CAMERA = """
import gc, json, mmap
bit, x, model = sys.argv[2], np.load(sys.argv[3])[:2], sys.argv[4]
with cnna.InferenceSession(model, bit) as session:
    frame = session.buffer("x")
    file = os.open("/dev/mem", os.O_RDWR)
    dma = np.frombuffer(mmap.mmap(file, frame.nbytes, offset=frame.physical_address), np.float32).reshape(frame.shape)
    dma[:] = x  # as a camera does
    (y,) = session.run(None, {"x": frame})
    waiting = str(session.device.interrupt)
late = np.asarray(frame)
del frame
gc.collect()
late[:] = 0  # which would end the process, were its pages gone
print(json.dumps([y.tolist(), waiting]))
"""


def test_a_camera_writes_where_the_loop_reads(board: LocalBoard, files: tuple[Path, Path, Path]) -> None:
    """The physical address of another buffer would let a camera overwrite a model; pages that go too early end the process."""
    y, waiting = board.run(CAMERA, *files)
    assert np.array_equal(y, expected(np.load(files[1])[:2], batch=2))
    assert waiting.startswith("by polling: Linux has no UIO device for interrupt 121")


def test_the_fabrics_interrupt_is_found(board: LocalBoard, files: tuple[Path, Path, Path]) -> None:
    """PYNQ's images have this device; the loop would poll on all of them."""
    entry = inside(board.folder, "/sys/class/uio/uio4")
    entry.mkdir()
    (entry / "name").write_text("fabric\n")
    inside(board.folder, "/proc/interrupts").write_text(
        "           CPU0       CPU1\n 45:          0          0     GICv2 121 Level     fabric\n"
    )
    os.mkfifo(inside(board.folder, "/dev/uio4"))
    y, waiting = board.run(CAMERA, *files)
    assert np.array_equal(y, expected(np.load(files[1])[:2], batch=2))
    assert waiting == "by interrupt, through /dev/uio4"


def test_the_interpreter_ends_with_buffers_in_an_open_stream(board: LocalBoard, files: tuple[Path, Path, Path]) -> None:
    """The thread would pack from pages that are gone, and the process would end with a signal."""
    code = """
bit, x, model = sys.argv[2], np.load(sys.argv[3])[:2], sys.argv[4]
session = cnna.InferenceSession(model, bit)
frames = [session.buffer("x") for _ in range(4)]
stream = session.stream(None, ({"x": frames[n % 4]} for n in range(1000)))
for _ in range(5):
    next(stream)
raise SystemExit(7)
"""
    for _ in range(3):
        with board.start(code, *files) as process:
            said = process.communicate(timeout=100)
        assert (process.returncode, *said) == (7, "", "")
