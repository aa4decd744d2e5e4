"""`make host-cost`: how counts become those of a picture, and what is refused. QEMU itself runs in `test_host_cost_counts`."""

import json
import shutil
from functools import reduce
from pathlib import Path

import aarch64_root
import counts
import host_cost
import loops
import pytest
from bench_host import against_targets
from bench_rows import HOST_PATHS, PLANNED_BYTES, rows
from host_cost import SHARE, compared, keep, read
from stages import EMPTY, MODES, NUMBERS, STAGES, WHOLE

from cnna.host.native.build import NAME
from cnna.spec.errors import ToolError, UserError
from cnna.spec.host_time.host_work import HostWork

OTHERS = ("yolov3", "yolov5n", "yolov8n", "yolox_tiny", "dbnet", "unet", "espcn")  # networks whose answers are not scores alone
TOP_FIVE = 6_871  # instructions of `cnna_top_k` at most in 30 draws, which no stream calls
PYTHON, LIBRARY = 0x1000, 0x9000  # addresses of a block of each
MAPS = (
    f"{PYTHON:x}-{PYTHON + 0x1000:x} r-xp 0 0:0 1 /machine/usr/bin/python3.11\n{LIBRARY:x}-a000 r-xp 0 0:0 1 /machine/lib/libm.so\n"
)


@pytest.fixture
def plugin_file(tmp_path: Path) -> tuple[Path, Path]:
    """What the plugin writes of two batches: in each mode, `pack` runs a block of the interpreter and one of a library."""
    lines = [f"instructions {NUMBERS[EMPTY]} 40", f"entries {NUMBERS[EMPTY]} 10"]
    blocks = {PYTHON: [f"{NUMBERS[EMPTY]} 10"], LIBRARY: []}
    for mode in MODES:
        for stage, times in (("pack", (30, 20)), (WHOLE, (100, 20))):
            number = NUMBERS[f"{mode}.{stage}"]
            lines += [f"instructions {number} {4 * sum(times)}", f"entries {number} 2", f"lines {number} 6"]
            lines += [
                f"bytes {number} 1 written 800 100",
                f"bytes {number} 2 read 12 3",
                f"call {number} 56 2",
                f"call {number} 500 4",
            ]
            for address, count in zip((PYTHON, LIBRARY), times, strict=True):
                blocks[address].append(f"{number} {count}")
    lines += [f"block {address:x} 1 2 3 4 : {' '.join(times)}" for address, times in blocks.items()]
    (tmp_path / "counts").write_text("\n".join(lines) + "\n")
    (tmp_path / "maps").write_text(MAPS)
    return tmp_path / "counts", tmp_path / "maps"


@pytest.fixture
def clocks_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven clocks for every block, so that no test of sums needs LLVM."""
    monkeypatch.setattr(loops, "block_clocks", lambda words: 7.0)


@pytest.mark.usefixtures("clocks_by_hand")
def test_counts_are_of_one_picture_and_without_marks(plugin_file):
    """A stage that kept what its marks cost, or the counts of all batches, would make the host look slower than it is."""
    found = counts.read_counts(*plugin_file, batches=2, pictures=3)
    for mode in MODES:
        pack, python = found[mode]["pack"], found[mode]["python"]
        assert pack.interpreter == pytest.approx((4 * 30 - 2 * 4) / 6)  # a pair of marks takes 4, and there were 2 pairs
        assert (pack.libraries, pack.loops, pack.loop_clocks) == (0, pytest.approx(80 / 6), pytest.approx(7 * 20 / 6))
        assert (pack.buffer_written, pack.register_reads, pack.lines) == (pytest.approx(800 / 6), pytest.approx(3 / 6), 1)
        assert pack.calls == {"openat": pytest.approx(2 / 6), "500": pytest.approx(4 / 6)}
        assert pack.plus(python).interpreter == pytest.approx(4 * 100 / 6)  # the stages add up to the run without marks


@pytest.mark.usefixtures("clocks_by_hand")
def test_the_native_library_is_told_apart(plugin_file):
    """The two have floors of their own; one that was counted as the other would hide what is lost."""
    out, maps = plugin_file
    assert counts.read_counts(out, maps, 2, 3)["stream"]["pack"].native == 0
    maps.write_text(maps.read_text().replace("libm.so", NAME))
    work = counts.read_counts(out, maps, 2, 3)["stream"]["pack"]
    assert (work.native, work.python) == (pytest.approx(80 / 6), pytest.approx(work.interpreter))


@pytest.mark.usefixtures("clocks_by_hand")
def test_a_line_past_the_caches_is_cleaned_in_none(plugin_file):
    """Cleaning it writes nothing: it would be priced as if the line went to DDR twice."""
    out, maps = plugin_file
    number = NUMBERS["stream.pack"]
    out.write_text(out.read_text() + f"misses {number} 30 12\nwhole {number} 6 4\n")
    maps.write_text(maps.read_text().replace("libm.so", NAME))
    pack = counts.read_counts(out, maps, 2, 3)["stream"]["pack"]
    assert (pack.whole, pack.past, pack.absent, pack.lines) == (1, pytest.approx(4 / 6), pytest.approx(4 / 6), pytest.approx(2 / 6))
    assert (pack.l1_misses, pack.streamed, pack.l2_misses) == (5, 2, 0)


@pytest.mark.usefixtures("clocks_by_hand")
def test_a_piece_on_the_cpu_is_counted_of_a_run_alone(plugin_file):
    """In a stream the run loop's thread works beside it: what it does would be the piece's, and be missing elsewhere."""
    out, maps = plugin_file
    maps.write_text(maps.read_text().replace("libm.so", NAME))
    lines = out.read_text().splitlines()
    library = next(at for at, line in enumerate(lines) if line.startswith(f"block {LIBRARY:x}"))
    interpreter = next(at for at, line in enumerate(lines) if line.startswith(f"block {PYTHON:x}"))
    for mode, besides in (("stream", 15), ("single", 0)):  # blocks of the library while the piece ran, which has 20 of Python
        number = NUMBERS[f"{mode}.cpu"]
        lines[interpreter] += f" {number} 20"
        lines[library] += f" {number} {besides}" if besides else ""
        lines += [f"instructions {number} {4 * (20 + besides)}", f"entries {number} 2"]
    out.write_text("\n".join(lines) + "\n")
    found = counts.read_counts(out, maps, 2, 3)
    for mode in MODES:
        piece = found[mode]["cpu"]
        assert (piece.native, piece.interpreter) == (0, pytest.approx((4 * 20 - 2 * 4) / 6))
        whole = reduce(HostWork.plus, found[mode].values())
        assert (whole.native, whole.interpreter) == (pytest.approx(4 * 20 / 6), pytest.approx(4 * 100 / 6))


@pytest.mark.parametrize("path", ["native", "cached"])
@pytest.mark.parametrize(("network", "most"), [("resnet50", 550_000), ("squeezenet", 300_000)])
def test_a_planned_picture_keeps_its_floors(root, network, most, path):
    """A check that creeps into the way of every picture would cost more than the picture does."""
    stream, single = (
        reduce(HostWork.plus, (HostWork(**stage) for stage in read(root / "docs")[f"{network}/b1"][path][mode].values()))
        for mode in MODES
    )
    assert stream.native < most - TOP_FIVE
    assert stream.python < 60_000
    assert single.python < stream.python + 200_000


def test_the_hosts_page_has_the_kept_counts(root):
    """Counts that are kept anew would leave older ones in the words about them."""
    page = (root / "docs" / "host.md").read_text()
    kept = [read(root / "docs")[f"{network}/b1"][form] for network in ("resnet50", "squeezenet") for form in HOST_PATHS]
    for mode, words in (("stream", "a picture in `session.stream`"), ("single", "one `session.run`")):
        work = [reduce(HostWork.plus, (HostWork(**stage) for stage in form[mode].values())) for form in kept]
        whole = " | ".join(f"{round(one.native + one.python):,}" for one in work)
        assert f"| {words} | {whole} |" in page
        assert f"| of these Python | {' | '.join(f'{round(one.python):,}' for one in work)} |" in page


def test_the_hosts_page_has_every_counted_classifier_beside_its_targets(root):
    """Modelled figures that nobody computes anew would stay when counts or the model change."""
    kept, measured = read(root / "docs"), json.loads((root / "docs" / "performance.json").read_text())
    page = (root / "docs" / "host.md").read_text()
    counted = [row for row in rows() if "cached" in kept.get(row.key, {}) and not row.pix and row.ddr_bytes == PLANNED_BYTES]
    counted = [row for row in counted if row.network not in OTHERS]
    assert len(counted) == 23
    for row in counted:
        assert against_targets(row, measured[row.key], kept) in page


@pytest.mark.usefixtures("clocks_by_hand")
def test_a_lost_block_is_noticed(plugin_file):
    """The two sums of the plugin must agree, or counts would be lost where several processors count."""
    out, maps = plugin_file
    text = out.read_text()
    out.write_text(text.replace(f"{LIBRARY:x} 1 2 3 4", f"{LIBRARY:x} 1 2 3"))
    with pytest.raises(AssertionError, match="a block was lost"):
        counts.read_counts(out, maps, 2, 3)


def _kept(**stages: HostWork) -> dict[str, dict[str, object]]:
    return {"stream": {stage: work.counts() for stage, work in stages.items()}}


def test_a_count_may_differ_by_a_hundredth():
    """Less would fail for the noise of hash tables; more would hide a copy that was added."""
    before = _kept(pack=HostWork(interpreter=600_000, loops=400_000, buffer_written=150_000))
    near = HostWork(interpreter=600_000 + 0.9 * SHARE * 1e6, loops=400_000, buffer_written=150_000)
    assert not compared(before, _kept(pack=near))
    (line,) = compared(before, _kept(pack=HostWork(interpreter=600_000, loops=400_000 + 1.1 * SHARE * 1e6, buffer_written=150_000)))
    assert line == "stream: 411,000 loops, not 400,000"
    assert compared(before, {}), "a mode that is no longer counted was not missed"


@pytest.mark.parametrize("missing", [["qemu-aarch64"], ["llvm-mc", "llvm-mca"], ["aarch64-linux-gnu-g++"]])
def test_a_missing_tool_fails_with_its_remedy(monkeypatch, capsys, missing):
    """A check that skipped itself where a tool is missing would be green on every machine that lacks one."""
    monkeypatch.setattr(shutil, "which", lambda name: None if name in missing else f"/usr/bin/{name}")
    assert host_cost.main(["--check", "resnet50", "--path", "native"]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    packages = {(aarch64_root.NEEDED | aarch64_root.NATIVE)[name] for name in missing}
    assert said == [f"host costs are counted with {', '.join(missing)}, not installed here: apt-get install {' '.join(packages)}"]


def test_a_network_without_kept_counts_is_refused(tmp_path):
    """A misspelt name would compare nothing and pass."""
    with pytest.raises(UserError, match="resnet05/b1 has no counts of the numpy path"):
        host_cost.check(["resnet05"], "numpy", tmp_path)


def test_kept_counts_come_back_in_the_order_of_rows(tmp_path):
    """A row that is counted again must change its own lines alone."""
    work = HostWork(interpreter=5, calls={"read": 0.25})
    for key in ("yolov8n/b1", "resnet50/b1"):
        keep(key, "numpy", _kept(pack=work), tmp_path)
    assert list(read(tmp_path)) == ["resnet50/b1", "yolov8n/b1"]
    assert HostWork(**read(tmp_path)["yolov8n/b1"]["numpy"]["stream"]["pack"]) == work
    lines = (tmp_path / host_cost.KEPT).read_text().splitlines()
    assert '    "pack": {"interpreter": 5, "calls": {"read": 0.25}}' in lines


def test_every_network_has_kept_counts(root):
    """`make host-cost` must know what `make bench` measures."""
    kept = json.loads((root / "docs" / host_cost.KEPT).read_text())
    wanted = {row.key for row in rows() if row.batch == 1 and row.ddr_bytes == PLANNED_BYTES and row.config is None}
    assert wanted <= set(kept)
    for key in sorted(wanted):
        assert {"stream", "single"} <= set(kept[key]["numpy"])
        assert set(kept[key]["numpy"]["stream"]) <= set(STAGES)


def test_the_folder_of_pynq_is_needed(monkeypatch):
    """pynq's own registers and buffers are part of what is counted."""
    monkeypatch.setattr(host_cost, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r"pip install '\.\[board\]'"):
        host_cost.pynq_folder()
