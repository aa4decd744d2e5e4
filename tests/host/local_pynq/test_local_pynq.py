"""The driver on pynq's own classes for a board of this machine: `EmbeddedDevice`, `Overlay`, `MMIO` and `allocate`."""

from pathlib import Path

import numpy as np
import pytest

from ..hand_made import expected
from .local_board import LocalBoard

ANSWERS = """
import json
bit, x, model = sys.argv[2], np.load(sys.argv[3]), sys.argv[4]
board = {board}
with cnna.InferenceSession(model, board) as session, cnna.InferenceSession(model, board) as other:
    (y,) = session.run(None, {{"x": x}})
    assert type(session.device.mmio) is pynq.MMIO and session.device.mmio.array.dtype == np.uint32
    assert type(next(iter(session.device.buffers.values())).buffer) is pynq.buffer.PynqBuffer
    feeds = [{{"x": x[i % 5 : i % 5 + 1]}} for i in range(20)]
    streamed = np.concatenate([y for (y,) in session.stream(None, feeds)])
    assert np.array_equal(other.run_async(None, {{"x": x}}).result()[0], y)
    begun = len(loops)
    taken = sum(loop.taken for loop in loops)
    kind = type(pynq.Device.active_device).__name__
print(json.dumps([y.tolist(), streamed.tolist(), begun, taken, kind]))
"""


@pytest.mark.parametrize("opened", ["bit", "pynq.Overlay(bit)", "pynq.Overlay(bit).device"])
def test_a_model_through_pynqs_local_classes(board: LocalBoard, files: tuple[Path, Path, Path], opened: str) -> None:
    """On every real board the driver meets these classes: another name, type or order there would be found by the first user.

    The native loop must do the runs: a board would else answer right, and at a tenth of its pace.
    """
    x = np.load(files[1])
    y, streamed, begun, taken, kind = board.run(ANSWERS.format(board=opened), *files)
    assert kind == "EmbeddedDevice"
    assert np.array_equal(y, expected(x, batch=2))
    assert np.array_equal(streamed, np.concatenate([expected(x[i % 5 : i % 5 + 1], batch=1) for i in range(20)]))
    assert begun == 2, "one thread for each session"
    assert taken == 3 + 20 + 3
    assert board.page is not None
    assert board.page.starts == taken
