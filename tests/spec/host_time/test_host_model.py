"""Every constant of the host's model has a range and a source, and its estimates are near what was counted."""

import ast
import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

from cnna.spec.host_time import host_model
from cnna.spec.host_time.cortex_a53 import run_work, seconds, total
from cnna.spec.host_time.host_model import Constant, Counted
from cnna.spec.host_time.host_work import HostWork
from cnna.spec.manifest import Port

FILES = ("host_model.py", "cortex_a53.py", "native_work.py", "end_to_end.py")
PLAIN = {"CORES", "L2_BYTES", "BYTES", "LINE", "NOTHING"}  # sizes of the chip
NEAR = 0.15  # an estimate's share of the counted instructions


def test_every_constant_has_a_source():
    """A number without one would be a guess that nobody sees."""
    found = {name: value for name, value in vars(host_model).items() if isinstance(value, (Constant, Counted))}
    assert len(found) > 25
    for name, value in found.items():
        assert len(value.source) > 20, f"{name} has no source"
        assert isinstance(value, Counted) or value.unit, name


@pytest.mark.parametrize("file", FILES)
def test_no_constant_stands_elsewhere(root: Path, file: str):
    """A number beside the table has neither range nor source."""
    for node in ast.parse((root / "spec" / "host_time" / file).read_text()).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            sourced = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") in ("Constant", "Counted")
            numbers = [part for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, (int, float))]
            assert sourced or not numbers or names <= PLAIN, f"{file}: {names} has no source"


def test_a_range_has_two_ends_in_order():
    """Ends in the wrong order would call the slow end quick."""
    with pytest.raises(AssertionError, match="is no range"):
        Constant(2, 1, "s", "a slip of the pen, to be refused")


def test_seconds_of_each_kind_of_work():
    """A kind that is left out would be free."""
    whole = HostWork(*range(1, 17), calls={"openat": 1, "clock_gettime": 2, "ioctl": 3, "getpid": 4})
    for name in vars(HostWork()):
        # loops cost their clocks, accesses what the caches lack; the native library's instructions are among the others
        if name not in ("calls", "loops", "read", "written", "native"):
            assert seconds(HostWork(**{name: 10})).slow > 0, name
    parts = [seconds(HostWork(**{name: value})) for name, value in vars(whole).items()]
    assert total(parts).slow == pytest.approx(seconds(whole).slow)
    waits = HostWork(calls={"clock_nanosleep": 5, "ppoll": 5})
    assert seconds(waits).slow == 0, "waits are not work"


def test_the_estimate_is_near_the_counts(root: Path):
    """`cnna explain` would promise another host than the one that was counted."""
    kept = json.loads((root / "docs" / "host_cost.json").read_text())
    ports = {  # input and outputs, as they were compiled for zcu102
        "resnet50/b1": (_folded((3, 224, 224), (42, 112, 112), (2, 7)), [(1000, 1, 1)]),
        "vgg19/b1": (_folded((3, 224, 224), (9, 224, 224), (1, 3)), [(1000, 1, 1)]),
        "squeezenet/b1": (_folded((3, 224, 224), (12, 112, 112), (2, 2)), [(1000, 1, 1)]),
        "yolov8n/b1": (_folded((3, 640, 640), (12, 320, 320), (2, 2)), [(144, 80, 80), (144, 40, 40), (144, 20, 20)]),
    }
    for key, (source, outputs) in ports.items():
        stages = kept[key]["numpy"]["stream"]
        counted = total(seconds(HostWork(**counts)) for stage, counts in stages.items() if stage != "cpu")
        work = run_work([source], [_port(shape) for shape in outputs], 1)
        found = seconds(host_model.BATCH.work.plus(work))
        assert found.quick == pytest.approx(counted.quick, rel=NEAR), key
        assert found.slow == pytest.approx(counted.slow, rel=NEAR), key


def _folded(shape: tuple[int, ...], folded: tuple[int, ...], span: tuple[int, ...]) -> Port:
    size = -(-folded[0] // 16) * 16 * prod(folded[1:])
    return _port(shape, image_bytes=size, fold={"shape": list(folded), "span": list(span)})


def _port(shape: tuple[int, ...], **more: object) -> Port:
    """A port of which only this counts."""
    made: Any = {"shape": list(shape), **more}
    port: Port = made
    return port
