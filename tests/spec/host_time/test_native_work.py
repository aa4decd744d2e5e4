"""The estimate of the native library's work, beside what was counted: every classifier, and maps of a whole picture."""

import json
from functools import reduce
from typing import Any

import pytest
from fitted import INPUTS, OUTPUTS, SCORES, pieces_of

from cnna.spec.host_time import host_model
from cnna.spec.host_time.cortex_a53 import Range, seconds
from cnna.spec.host_time.end_to_end import end_to_end
from cnna.spec.host_time.host_work import HostWork
from cnna.spec.host_time.native_work import native_work, packed, planned
from cnna.spec.manifest import ACCELERATOR, CPU

NEAR = 0.1
MODES = ("stream", "single")


@pytest.fixture(scope="module")
def kept(root) -> dict[str, Any]:
    """The counts of docs/host_cost.json."""
    found: dict[str, Any] = json.loads((root / "docs" / "host_cost.json").read_text())
    return found


def _rows(kept):
    """Rows that were counted to pack, with the path and the counts: those of a piece on the CPU are not the estimate's."""
    for key, paths in kept.items():
        for path in ("native", "cached"):
            if "pack" in paths.get(path, {}).get("stream", {}):
                yield key, path, {mode: {s: counts for s, counts in paths[path][mode].items() if s != "cpu"} for mode in MODES}


def _whole(stages) -> HostWork:
    return reduce(HostWork.plus, (HostWork(**counts) for counts in stages.values()))


def test_the_estimate_is_near_every_counted_row(kept):
    """`cnna explain` would promise another host than the one that was counted, as it did while it knew Python alone."""
    rows = list(_rows(kept))
    assert len({key for key, _, _ in rows if key not in OUTPUTS}) >= 23
    for key, path, counted in rows:
        pieces = pieces_of(key, kept[key])
        found = end_to_end(pieces, 0, 300, 1, cached=path == "cached")
        assert planned(pieces) == ("cpu" not in kept[key][path]["stream"])
        for mode, work in zip(MODES, (found.stream, found.single), strict=True):
            whole = _whole(counted[mode])
            for have, want in zip(_ends(work), _ends(whole), strict=True):
                assert have == pytest.approx(want, rel=NEAR), f"{key} {path} {mode}"
            assert work.native == pytest.approx(whole.native, rel=NEAR), f"{key} {path} {mode}"
            if key not in OUTPUTS:
                assert work.python == pytest.approx(whole.python, rel=NEAR), f"{key} {path} {mode}"
        assert found.packing.native == pytest.approx(counted["stream"]["pack"]["native"], rel=NEAR), f"{key} {path}"


def test_a_model_like_one_that_was_counted_gets_its_range(kept):
    """What is shown are ends of a range on four cores and one, which threads, waits and shares come into."""
    for key, path, counted in _rows(kept):
        if "cpu" in kept[key][path]["stream"]:
            continue
        found = end_to_end(pieces_of(key, kept[key]), 600_000, 300, 1, cached=path == "cached")
        pack = HostWork(**counted["stream"]["pack"])
        own = {name: _whole(counted[name]) for name in MODES}
        wanted = type(found)(1, found.accelerator_seconds, 0.0, 2, 0, 1, own["stream"], own["single"], packing=pack)
        for cores in (1, 4):
            for have, want in ((found.fps(cores), wanted.fps(cores)), (found.latency(cores), wanted.latency(cores))):
                assert have is not None
                assert want is not None
                assert (have.quick, have.slow) == pytest.approx((want.quick, want.slow), rel=NEAR), f"{key} {path} {cores}"


def test_what_was_not_counted_is_a_range():
    """A second run, and floats that the CPU hands over, would be free, or as sure as what was counted."""
    one, two = ({"kind": ACCELERATOR, "inputs": [_port(3, 8, 8)], "outputs": [_port(4, 8, 8)]} for _ in range(2))
    cut = {"kind": CPU, "seconds": 1e-3, "operators": [{"op": "Resize"}]}
    alone, several = native_work([one, cut], 2), native_work([one, cut, two], 2)
    assert alone.uncounted == Range(0.0, 0.0)
    floats = 2 * 3 * 8 * 8
    more = Range.of(host_model.NATIVE_RUN_SECONDS) + Range.of(host_model.FLOAT_SECONDS, floats)
    assert several.uncounted == more
    assert several.stream.register_reads == 2 * alone.stream.register_reads
    found = end_to_end([one, cut, two], 0, 300, 2)
    without = type(found)(**{**vars(found), "uncounted": Range(0.0, 0.0)})
    assert found.latency().slow == pytest.approx(without.latency().slow + more.slow)
    assert found.fps(1).slow < without.fps(1).slow


def test_what_the_run_loop_does_itself():
    """A softmax would be a call of onnxruntime, which takes longer than the picture; and any other operator none."""
    program = {"kind": ACCELERATOR, "inputs": [_port(3, 8, 8)], "outputs": [_port(1000, 1, 1)]}

    def behind(*ops: str) -> list[Any]:
        return [program, {"kind": CPU, "seconds": 1e-3, "operators": [{"op": op} for op in ops]}]

    assert planned(behind("Softmax", "Reshape"))
    assert not planned(behind("Sigmoid"))
    assert not planned([behind("Softmax")[1], program])
    plain, soft, general = (native_work(behind(op), 1).stream for op in ("Flatten", "Softmax", "Sigmoid"))
    assert soft.native - plain.native == pytest.approx(1000 * host_model.NATIVE_SOFTMAX.work.native)
    assert general.python > plain.python
    ends = [end_to_end(behind(op), 0, 300, 1).cpu_seconds for op in ("Softmax", "Sigmoid")]
    assert ends == [0.0, 1e-3]


def test_cached_memory_is_cleaned_and_not_written_past_the_cache():
    """The estimate would be of memory that no default gives, or of both at once."""
    pieces = pieces_of("resnet50/b1", {"native": {"stream": {"pack": {"buffer_written": 602_112}}}})
    plain, cached = (native_work(pieces, 1, cached).stream for cached in (False, True))
    assert (plain.lines, plain.buffer_written) == (0, 602_112)
    assert cached.buffer_written == cached.buffer_read == 0
    lines, kept = 602_112 / 64, host_model.WHOLE_LINES.middle
    assert cached.lines == pytest.approx(kept + SCORES["image_bytes"] / 64)
    assert cached.absent == cached.past - plain.past == pytest.approx(lines - kept)
    assert cached.whole == kept


def test_a_row_that_ends_inside_a_line_keeps_lines_in_the_cache():
    """The processor counts whole lines in a row anew there, so that what it writes is cleaned as before."""
    wide = {**INPUTS[404_992], "fold": {"shape": [24, 112, 113], "span": [2, 4]}}
    even = {**wide, "fold": {"shape": [24, 113, 112], "span": [2, 4]}}
    one, other = (packed(port, 1, True) for port in (wide, even))
    assert (one.past, one.absent, one.lines) == (0, 0, pytest.approx(404_992 / 64))
    assert other.lines < one.lines / 10


def _ends(work: HostWork) -> tuple[float, float]:
    found = seconds(work)
    return found.quick, found.slow


def _port(*shape: int) -> dict[str, Any]:
    return {"shape": list(shape)}
