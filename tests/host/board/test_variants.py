"""One model on the boards of both variants, through stock pynq: the same bits, equal to the reference; and a thousand runs."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from cnna.sim.board.board import VirtualBoard

from ...sim.board import stock
from ...sim.board.served import serving

VARIANTS = ("ps", "pl")
RUNS = 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled network with three samples, and the images of both variants."""
    made = tmp_path_factory.mktemp("variants")
    stock.digits(made)
    with np.load(made / "calib.npz") as images:
        np.save(made / "x.npy", images["x"][:3])
        np.save(made / "one.npy", images["x"][:1])
    for variant in VARIANTS:
        stock.images(made / variant, variant=variant)
    return made


@pytest.fixture
def boards(request: pytest.FixtureRequest, address: str) -> Iterator[dict[str, tuple[str, VirtualBoard]]]:
    """For each variant, the address of a board of `tiny` with the backend that the test asks for, and the board."""
    with ExitStack() as stack:
        made: dict[str, tuple[str, VirtualBoard]] = {}
        for number, variant in enumerate(VARIANTS):
            where = f"{address.rpartition('.')[0]}.{20 + number}"
            made[variant] = where, stack.enter_context(serving(where, variant, request.param))
        yield made


@pytest.mark.parametrize("boards", ["emulator", pytest.param("rtl", marks=pytest.mark.cosim)], indirect=True)
def test_both_give_the_bits_of_the_reference(boards: dict[str, tuple[str, VirtualBoard]], folder: Path) -> None:
    """Command, artifact and input are the same; only the overlay differs."""
    answers, cycles = {}, {}
    for variant, (where, board) in boards.items():
        out, report = folder / f"{variant}.npz", folder / f"{variant}.json"
        model = str(folder / "digits.cnna")
        line = [sys.executable, "-W", "ignore", "-m", "cnna.cli.main", "run", model, "--device", "pynq", "--check"]
        files = ["--overlay", str(folder / variant / "cnna.bit"), "--input", str(folder / "x.npy"), "-o", str(out)]
        assert "board == reference: 1 output, 30 elements" in stock.execute(where, [*line, *files, "--json", str(report)])
        with np.load(out) as found:
            answers[variant] = dict(found)
        cycles[variant] = json.loads(report.read_text())["cycles"]
        assert not board.dram.used_bytes
    assert all(np.array_equal(answers["pl"][name], value) for name, value in answers["ps"].items())
    if cycles["ps"] is not None:  # 15 bytes a clock, not 16; copies of the next image and the last answer beside
        assert cycles["ps"] <= cycles["pl"] < 1.05 * cycles["ps"]


@pytest.mark.parametrize("boards", ["emulator"], indirect=True)
def test_info_and_selftest_say_the_variant(boards: dict[str, tuple[str, VirtualBoard]], folder: Path) -> None:
    """A user runs these first (test_pynq_driver.py has the test for `ps`)."""
    line = [sys.executable, "-W", "ignore", "-m", "cnna.cli.main", "board"]
    overlay = ["--overlay", str(folder / "pl" / "cnna.bit")]
    assert "variant      pl: it works on the PL's own DDR4" in stock.execute(boards["pl"][0], [*line, "info", *overlay])
    said = stock.execute(boards["pl"][0], [*line, "selftest", *overlay])
    assert "ok     streams          300,000 bytes equal" in said
    assert "ok     network          board == the reference: 1 output, 8192 elements" in said
    assert "FAILED" not in said


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("boards", ["emulator", "rtl"], indirect=True)
def test_two_processes_take_turns_and_a_killed_one_is_passed_over(
    boards: dict[str, tuple[str, VirtualBoard]], variant: str, folder: Path
) -> None:
    """With two notebooks on one board both must get right answers (on `pl` each restores its model); a killed one must not
    hinder.
    """
    code = """
overlay = Overlay(sys.argv[1], download=False)
import cnna
x = np.load(sys.argv[3])
with cnna.InferenceSession(sys.argv[2], overlay) as session:
    y = session.run(None, {"image": x})[0]
    print("first", flush=True)
    while True:
        assert np.array_equal(session.run(None, {"image": x})[0], y)
        if sys.argv[4] != "forever":
            break
np.save(sys.argv[4], y)
print("right")
"""
    where, _ = boards[variant]
    files = folder / variant / "cnna.bit", folder / "digits.cnna", folder / "x.npy"
    stock.run(where, "Overlay(sys.argv[1])", files[0])
    alone, beside, after = (folder / f"{name}.npy" for name in ("alone", "beside", "after"))
    assert stock.run(where, code, *files, alone).endswith("right\n")
    endless = stock.command(code, *files, "forever")
    with subprocess.Popen(endless, env=stock.environment(where), stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "first\n"
        assert stock.run(where, code, *files, beside).endswith("right\n")
        other.kill()
    assert stock.run(where, code, *files, after).endswith("right\n")
    assert np.array_equal(np.load(alone), np.load(beside))
    assert np.array_equal(np.load(alone), np.load(after))


@pytest.mark.slow  # 200 s, most of them for turns over the network
@pytest.mark.parametrize("boards", ["emulator"], indirect=True)
def test_many_runs_in_constant_memory(boards: dict[str, tuple[str, VirtualBoard]], folder: Path) -> None:
    """In a demonstration that runs for a day, the board's memory or the client's would grow."""
    code = """
import resource
import cnna
x = np.load(sys.argv[3])
with cnna.InferenceSession(sys.argv[2], Overlay(sys.argv[1])) as model:
    first = model.run(None, {"image": x})[0]
    for number in range(int(sys.argv[4])):
        assert np.array_equal(model.run(None, {"image": x})[0], first)
        if number == 100:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    for variant, (where, board) in boards.items():
        grown_kib = stock.run(where, code, folder / variant / "cnna.bit", folder / "digits.cnna", folder / "one.npy", RUNS)
        assert int(grown_kib) < 2048
        assert not board.dram.used_bytes
