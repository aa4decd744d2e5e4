"""`cnna.explore` and `cnna.tilings`: what they give equals what the command writes and prints."""

import errno
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

import cnna
from cnna.cli import explore as command
from cnna.cli.main import main
from cnna.compiler.explore.aim import Aim
from cnna.jobs.explore.sweep import at_work, conditions, reached
from cnna.spec.boards import BOARDS
from cnna.spec.config import preset
from cnna.spec.counts import many
from cnna.spec.errors import UserError

from ...compiler.explore.points import point

RULE_NOTHING_OUT = ("dsp", "bram", "energy")  # no energy is known before a point is compiled
LIMITS = "--dsp 48 --bram 60 --batch 1"


@pytest.mark.parametrize("model", ["m.onnx", "q.onnx"])
def test_it_gives_what_the_command_writes(
    in_float: onnx.ModelProto,
    quantised: onnx.ModelProto,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    model: str,
) -> None:
    """A notebook and a script would have two answers to one question."""
    monkeypatch.chdir(tmp_path)
    onnx.save(in_float, "m.onnx")
    onnx.save(quantised, "q.onnx")
    assert main(f"explore {model} {LIMITS} --jobs 1 --cache c --ddr-latency 90 --png p.png --json f.json".split()) == 0
    said = capsys.readouterr()
    steps: list[tuple[int, int, str]] = []
    limits: dict[str, Any] = {"dsp": 48, "bram": 60, "batch": 1, "ddr": cnna.Ddr(latency=90), "cache": "d"}
    came: list[Mapping[str, Any]] = []
    found = cnna.explore(model, **limits, progress=lambda *step: steps.append(step), found=came.append)
    assert capsys.readouterr() == ("", "")
    written = json.loads(Path("f.json").read_text())
    assert json.loads(json.dumps(found.figures())) == written
    assert list(found.figures()) == list(written)
    assert f"{found}\n" == said.out
    early = [line for line in said.err.splitlines() if " images a second from picture to answer" in line]
    assert len(early) == sum(figures["pareto"] for figures in came) > 0
    assert [figures["config"] for figures in came] == [point["config"] for point in found.points]
    compiled = f"{many(len(found.points), 'point')} compiled"
    rest = f", {found.discarded} ruled out by their least work" if found.discarded else ""
    assert said.err.splitlines() == [*found.notes, *early, compiled + rest, "wrote p.png, f.json"]
    assert bool(found.notes) == (model == "m.onnx")
    assert found.save("s.png").read_bytes() == Path("p.png").read_bytes()
    assert [point.fps for point in found.best] == sorted((point.fps for point in found.best), reverse=True)
    assert steps[-1][0] == steps[-1][1] == len(found.points) + found.refused + found.discarded
    assert "data:image/png;base64," in found._repr_html_()
    assert "<html" in found.save("s.html").read_text()


def test_tilings_are_what_the_command_writes(
    quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A notebook and a script would have two answers to one question."""
    monkeypatch.chdir(tmp_path)
    onnx.save(quantised, "q.onnx")
    assert main(["explore", "q.onnx", "--layer", "stem", "--config", "tiny", "--png", "p.png", "--json", "f.json"]) == 0
    said = capsys.readouterr().out
    found = cnna.tilings("q.onnx", "stem", "tiny")
    assert json.loads(json.dumps(found.figures())) == json.loads(Path("f.json").read_text())
    assert f"{found}\n" == said
    assert found.picture() == Path("p.png").read_bytes()
    with pytest.raises(cnna.UserError, match="none"):
        cnna.tilings("q.onnx", "none", "tiny")


@pytest.mark.parametrize(
    ("board", "options", "said"),
    [
        ("moon", {}, "--board moon: there is no such board; there are zcu102"),
        ("zcu102", {"batch": 0}, "--batch 0: must be within 1..511"),
        ("zcu102", {"batch": 512}, "--batch 512: must be within 1..511"),
        ("zcu102", {"dsp": 1}, "no configuration fits"),
        ("zcu102", {"dsp": -5}, "--dsp -5: must be at least 0"),
        ("zcu102", {"uram": -1}, "--uram -1: must be at least 0"),
        ("zcu102", {"target_fps": 1e300, "dsp": 60}, r"reaches 1e\+300 images a second"),
        ("zcu102", {"target_fps": 1e5}, r"whatever the accelerator, the host's part, .*, allows [0-9,]+ images a second"),
        ("zcu102", {"target_ms": 1e-3}, r"whatever the accelerator, the host's part, .*, takes [0-9.]+ ms at the slow end"),
        ("zcu102", {"axes": ()}, "--axes: none is named"),
        ("zcu102", {"ddr": cnna.Ddr(latency=0)}, "--ddr-latency 0: must be within"),
        ("zcu102", {"ddr": cnna.Ddr(road="zcu102-ps")}, "explore predicts with the plain road"),
    ],
)
def test_what_cannot_be_explored_is_one_line(quantised: onnx.ModelProto, board: str, options: dict[str, Any], said: str) -> None:
    """The command refuses it in its options, which a program does not have."""
    with pytest.raises(cnna.UserError, match=said):
        cnna.explore(quantised, board, **options)


@pytest.mark.parametrize("option", ["--board kv260", "--dsp 100", "--uram 0", "--axes dsp", "--confirm 1"])
@pytest.mark.parametrize("question", ["--layer n", "--choices c.json"])
def test_options_of_a_sweep_are_refused_elsewhere(
    quantised: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str], question: str, option: str
) -> None:
    """`--layer` for a kv260 would be answered for a zcu102, without a word."""
    onnx.save(quantised, tmp_path / "q.onnx")
    assert main(["explore", str(tmp_path / "q.onnx"), *question.split(), *option.split()]) == 2
    said = capsys.readouterr().err
    assert said == f"cnna: {option.split()[0]} is for comparing configurations, and not for --layer or --choices\n"


def test_what_no_configuration_can_run_names_the_file(
    quantised: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user with several models would not learn which of them it is: the graph in a file has any name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cnna.jobs.explore.sweep.MOST_BATCH", 1 << 20)  # so that it comes to the compiler
    onnx.save(quantised, "q.onnx")
    assert main(["explore", "q.onnx", "--dsp", "48", "--bram", "60", "--batch", "70000", "--cache", "c", "--jobs", "1"]) == 2
    assert capsys.readouterr().err.startswith("cnna: q.onnx: ")


def test_what_is_kept_is_not_compiled_again(quantised: onnx.ModelProto, tmp_path: Path) -> None:
    """A command that was interrupted would begin anew, or another answer come from what is kept than from compiling."""
    options: dict[str, Any] = {"dsp": 48, "bram": 60, "batch": 1, "cache": tmp_path, "axes": RULE_NOTHING_OUT}
    with pytest.raises(cnna.UserError, match="--resume: nothing is kept"):
        cnna.explore(quantised, **options, resume=True)
    came: list[Mapping[str, Any]] = []

    def interrupted(figures: Mapping[str, Any]) -> None:
        came.append(figures)
        if len(came) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cnna.explore(quantised, **options, found=interrupted)
    (file,) = (tmp_path / "explore").glob("*.jsonl")
    file.write_text(file.read_text() + '\n["half a line')
    resumed = cnna.explore(quantised, **options, resume=True)
    assert resumed.compiled == len(resumed.points) - 2 > 0
    assert not resumed.refused
    assert cnna.explore(quantised, **options).compiled == 0
    whole = cnna.explore(quantised, **options, again=True)
    assert whole.compiled == len(whole.points)
    assert whole.figures() == resumed.figures()
    assert cnna.explore(quantised, **{**options, "ddr": cnna.Ddr(latency=90)}).compiled == len(whole.points)
    with pytest.raises(cnna.UserError, match="give one of them"):
        cnna.explore(quantised, **options, resume=True, again=True)


def test_ctrl_c_says_what_is_kept(
    quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user would believe that minutes of work are lost, and not look for a way to go on."""
    monkeypatch.chdir(tmp_path)
    onnx.save(quantised, "q.onnx")

    own = command.Early.found

    def stopped(self: command.Early, figures: Mapping[str, Any]) -> None:
        own(self, figures)
        raise KeyboardInterrupt

    monkeypatch.setattr(command.Early, "found", stopped)
    arguments = f"explore q.onnx {LIMITS} --jobs 1 --cache c".split()
    assert main(arguments) == 130
    assert "1 point of " in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--resume"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any("point" in line and " compiled, 1 kept from before" in line for line in lines)


def test_a_target_that_nothing_reaches_is_said_in_plain_figures() -> None:
    """A user would have to read 2.88e+04 images a second."""
    known = point(preset("tiny"), 1, (80, 32.0, 0, 39_000), 10_400, 4_000_000)
    with pytest.raises(cnna.UserError, match=r"reaches 9,000,000,000 images a second .* does [0-9]+,[0-9]{3} images") as raised:
        reached([known], Aim(target_fps=9e9), 0)
    assert "e+" not in str(raised.value)
    with pytest.raises(cnna.UserError, match=r"least work of 3 rules them out; .* and the fewest bytes of these are 5 MB an image"):
        reached([known], Aim(ddr_traffic=4), 3)


@pytest.mark.parametrize("weights", [(1e308, 1e308), (5e-324, 5e-324), (3, 3)], ids=repr)
def test_weights_of_any_size_are_shares(weights: tuple[float, float]) -> None:
    """The sum of large ones is infinite, and each share would be none."""
    assert conditions(cnna.Ddr(), BOARDS["zcu102"], weights).shares == (0.5, 0.5)


def test_speeds_of_ddr_are_an_axis(
    quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The slowest memory that is enough would have to be found by hand, a call for each; or a speed be predicted as another."""
    monkeypatch.chdir(tmp_path)
    onnx.save(quantised, "q.onnx")
    options: dict[str, Any] = {"dsp": 48, "bram": 60, "batch": 1, "cache": tmp_path}
    each = [cnna.explore(quantised, ddr=cnna.Ddr(bytes_per_cycle=speed), axes=RULE_NOTHING_OUT, **options) for speed in (1, 4)]
    steps: list[tuple[int, int, str]] = []
    wanted: dict[str, Any] = {"ddr_speed": [1200, 300], "objective": "alone", "axes": ["dsp", "bandwidth"]}
    both = cnna.explore(quantised, **wanted, progress=lambda *step: steps.append(step), **options)
    cycles = [{point.config: point.cycles for point in found.all_points} for found in each]
    for one in both.all_points:
        assert one.cycles == cycles[one.bandwidth == 1200][one.config]
    assert {one.bandwidth for one in both.best} == {300, 1200}
    assert steps[-1][0] == steps[-1][1] == len(both.points) + both.discarded
    assert "DDR MB/s" in str(both)
    assert " for a DDR of 300 and 1,200 MB a second" in str(both)
    assert not cnna.explore(quantised, ddr_speed=[300], **options).compiled, "what is kept has the DDR in its name"
    target = f"--target-fps {each[0].best[0].fps / 2} --objective bandwidth --ddr-speed 300,1200 --json f.json"
    assert main(f"explore q.onnx {LIMITS} --jobs 1 --cache c {target}".split()) == 0
    written = json.loads(Path("f.json").read_text())
    assert [point["ddr_megabytes_a_second"] for point in written["points"] if point["pareto"]] == [300]
    assert {point["ddr_bytes_per_cycle"] for point in written["points"]} == {1}, "a quicker DDR is not tried, once one is enough"
    heads, row = (re.split(" {2,}", line.strip()) for line in capsys.readouterr().out.splitlines()[:2])
    assert dict(zip(heads, row, strict=True))["DDR MB/s"] == "300"


def test_clocks_of_which_nothing_was_compiled_are_named(quantised: onnx.ModelProto, tmp_path: Path) -> None:
    """A user would read that 1 MHz was not tried, because its least work ruled out all of it."""
    options: dict[str, Any] = {"dsp": 48, "bram": 60, "batch": 1, "cache": tmp_path}
    alone = cnna.explore(quantised, **options)
    assert " at 300 MHz, the clock of zcu102" in str(alone)
    both = cnna.explore(quantised, clock=[300, 1], **options)
    quick = [point for point in both.points if point["clock_mhz"] == 300]
    assert " at 1 and 300 MHz;" in str(replace(both, points=quick, discarded=len(both.points) - len(quick)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ddr_speed": [299]}, "--ddr-speed 299: must be within 300..19,200 MB a second"),
        ({"ddr_speed": [600], "ddr": cnna.Ddr(bytes_per_cycle=2)}, "give one of them"),
        ({"objective": "bandwidth"}, "the least of all is the slowest DDR"),
        (
            {"ddr_traffic": 1e-6, "dsp": 48, "bram": 60},
            "no configuration reaches at most .* MB through DDR",
        ),
    ],
)
def test_a_ddr_that_cannot_be_is_one_line(quantised: onnx.ModelProto, tmp_path: Path, options: dict[str, Any], said: str) -> None:
    """A slip would be explored for minutes, as another question."""
    with pytest.raises(cnna.UserError, match=said) as raised:
        cnna.explore(quantised, cache=tmp_path, **options)
    assert "\n" not in str(raised.value)


def test_no_room_for_what_processes_share_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken for a full disk behind standard output."""

    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UserError, match=r"networks\.pickle: No space left on device; TMPDIR .* --jobs 1"), at_work([], 2, None):
        pass
