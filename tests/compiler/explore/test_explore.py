"""The sweep offers only what is legal and fits, predicts as the compiler does, and its front hides nothing better."""

import pickle
import re
from dataclasses import replace

import pytest

from cnna.cli.main import main
from cnna.cli.options import configuration
from cnna.compiler.compile import compile_graph
from cnna.compiler.explore.aim import Aim, Least
from cnna.compiler.explore.drawn import picture, steps, table
from cnna.compiler.explore.explore import Sweep, _for_batches, evaluate, explore
from cnna.compiler.explore.grid import configurations
from cnna.compiler.explore.kept import Kept
from cnna.compiler.explore.page import html
from cnna.compiler.explore.point import option
from cnna.compiler.explore.sizes import Budget, bram36, budget_of, dsp48e2
from cnna.compiler.explore.tasks import Conditions
from cnna.compiler.explore.workers import Workers
from cnna.compiler.report.report import figures
from cnna.hw.verilog import writer
from cnna.hw.verilog.instances import count_instances
from cnna.sim.rtl.build import to_stderr
from cnna.sim.rtl.sources import generated
from cnna.spec.boards import BOARDS, board_of, ddr_of
from cnna.spec.config import Config, preset
from cnna.spec.errors import ModelError, UserError
from cnna.spec.files import default_cache
from cnna.spec.host_time.end_to_end import rates

from ... import networks
from ...agreement import artifact_of
from .points import Fixed, Unbound, explored
from .points import point as written

SMALL, ZU9 = Budget(250, 100), Budget(2520, 912)
ODD = Config("odd", pix=4, ci=4, co=12, ports=1, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)


@pytest.mark.cosim
@pytest.mark.parametrize("config", [preset("tiny"), ODD], ids=lambda config: config.name)
def test_dsps_are_those_of_the_verilog(config):
    """A configuration would be offered for which the chip has too few multipliers, or one that fits would be missing."""
    assert dsp48e2(config) == count_instances(generated(config, default_cache(), to_stderr), writer.TOP, "DSP48E2")


def test_the_preset_of_a_chip_fits_it():
    """A ZU9 has 2,520 DSP48E2 and 912 BRAM36."""
    config = preset("zcu102")
    assert config.macs // 2 < dsp48e2(config) <= 2520
    assert bram36(config) <= 912


def test_block_ram_holds_what_is_stored():
    """A memory would have fewer bits than words times width."""
    for config in (preset("zcu102"), preset("tiny"), ODD):
        stored = config.feature_words * config.ci + config.ring_words * config.ring_word_bytes + 16 * config.vector_ring_words
        assert bram36(config) * 36 * 1024 >= 8 * stored


@pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.key)
def test_the_preset_of_a_board_is_offered_once(board):
    """The best configuration of a KV260 would be missing, whose 56 output channels no step of the sweep has."""
    own = preset(board.key)
    offered = [option(config) for config in configurations(budget_of(board), board)]
    assert offered.count(board.key) == 1
    assert len(set(offered)) == len(offered)
    less = budget_of(board)._replace(dsp=dsp48e2(own) - 1)
    assert board.key not in map(option, configurations(less, board))


def test_a_clock_changes_seconds_and_ddr():
    """Half the clock would give half the images even where DDR decides, or the point would be of another board."""
    board = BOARDS["ultra96"]
    (slow, own) = configurations(budget_of(board), board, clocks=(125, 250))[:2]
    assert (slow.clock_mhz, own.clock_mhz) == (125, 250)
    assert own == preset("ultra96")
    assert option(slow) == "ultra96,clock_mhz=125"
    assert board_of(slow) == board
    assert ddr_of(slow).bytes_per_cycle == 2 * ddr_of(own).bytes_per_cycle
    half, whole = (evaluate([networks.network(3)], config, 1) for config in (slow, own))
    assert half.cycles <= whole.cycles
    assert half.alone < whole.alone
    for clock in (0, 251):
        with pytest.raises(UserError, match=rf"--clock {clock}: must be within 1..250 MHz; 250 is the clock of ultra96"):
            configurations(budget_of(board), board, clocks=(clock,))


@pytest.fixture(scope="module")
def graph():
    return networks.network(3)


@pytest.fixture(scope="module")
def points(graph):
    found, refused = explored([graph], configurations(SMALL)[::9])
    assert not refused
    return found


def test_all_fit(points):
    """A configuration would exceed the chip."""
    for config in configurations(ZU9):
        assert dsp48e2(config) <= 2520
        assert bram36(config) <= 912
    assert {point.batch for point in points} == {1, 2, 4}


def test_the_prediction_is_the_compilers(graph, points):
    """`cnna report` would give other figures for the same configuration."""
    program = compile_graph(graph, points[-1].config, points[-1].batch)
    assert points[-1].cycles == figures(artifact_of(program.piece()))["predicted"]["cycles"]
    assert points[-1].figures()["predicted_fps_at_300mhz"] == points[-1].batch * 300e6 / points[-1].cycles
    artifact = artifact_of(program.piece())
    ends = {way: figures(artifact, native=way)["predicted"]["fps_end_to_end"] for way in (True, False)}
    assert points[-1].figures()["fps_end_to_end"] == ends[True] > ends[False]
    assert evaluate([graph], points[-1].config, points[-1].batch, native=False).fps == ends[False]


def test_no_point_beats_one_of_the_front(points):
    """A point of the front would be beaten by another, or a point that nothing beats be missing."""
    front = Aim().best(points)

    def beats(a, b):
        return a.fps >= b.fps and a.dsp <= b.dsp and a.bram36 <= b.bram36

    assert not any(beats(a, b) for a in front for b in front if a is not b)
    assert all(any(beats(a, b) for a in front) for b in points)
    assert len(table(front).splitlines()) == 1 + len(front)
    speeds = [point.fps for point in steps(points)]
    assert speeds == sorted(speeds)


def test_an_accelerator_that_outruns_its_host_is_not_the_quickest():
    """A user would build the array whose own speed is the highest, and wait for its host: the other one answers sooner.

    Where the host decides, so that both answer at the same speed, the smaller one is enough."""
    large, small, tiny = (preset(name) for name in ("zcu102", "zcu104", "tiny"))
    waits = written(large, 1, (2432, 648.0, 0, 160_000), 300_000, 4_000_000, host_seconds=0.1)
    answers = written(small, 1, (1408, 64.0, 0, 150_000), 3_000_000, 4_000_000, host_seconds=0.001)
    also_waits = written(tiny, 1, (80, 32.0, 0, 39_000), 300_000, 4_000_000, host_seconds=0.1)
    assert waits.alone > answers.alone > answers.answered.quick > waits.answered.quick > waits.answered.slow
    assert Aim().ranked([waits, also_waits, answers]) == [answers, also_waits, waits]
    assert Aim().best([waits, also_waits, answers]) == [answers, also_waits]
    assert steps([waits, also_waits, answers]) == [also_waits, answers]
    heads, first, _ = (re.split(r" {2,}", line.strip()) for line in table([answers, also_waits]).splitlines())
    shown = dict(zip(heads, first, strict=True))
    assert shown["fps, accelerator alone"] == f"{answers.alone:,.1f}"
    assert shown["fps, picture to answer"] == rates(answers.answered)
    rows = [line for line in html("net", [waits, also_waits, answers], SMALL, "").splitlines() if "<tr data-layer=" in line]
    assert [re.search(r'data-copy="([^",]*)', row)[1] for row in rows] == ["zcu104", option(tiny).partition(",")[0], "zcu102"]


def test_larger_batches_are_tried_on_the_quickest_accelerators_too(graph):
    """Where the host decides with one image, the small arrays are the first; a large one that leads with four would be left out."""
    points, _ = explored([graph], configurations(SMALL)[::18], aim=Unbound())
    singly = [point for point in points if point.batch == 1]
    for front in (Aim().best(singly), Aim("alone").best(singly)):
        for config in [point.config for point in front[:4]]:
            assert {point.batch for point in points if point.config == config} == {1, 2, 4}


def test_equal_points_are_shown_once(points):
    assert len(Aim().best([points[0], replace(points[0])])) == 1


def test_picture_is_a_png(points, tmp_path):
    picture("net", points, SMALL, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_batch_that_cannot_be_is_refused(graph):
    """There must be one line, and not one for each configuration, nor an empty table."""
    with pytest.raises(ModelError, match="batch"):
        explored([graph], configurations(SMALL)[:2], 10**9)
    assert evaluate([graph], configurations(SMALL)[0], 3).batch == 3


@pytest.mark.parametrize("budget", [(10, 912), (2520, 1), (-1, -1)])
def test_a_budget_for_nothing_is_refused(budget):
    with pytest.raises(UserError, match="no configuration fits"):
        configurations(Budget(*budget))


@pytest.mark.parametrize("options", [["--dsp", "3"], ["--batch", "0"], ["--target-fps", "inf"], []])
def test_bad_input_is_one_line(tmp_path, capsys, options):
    """Bad input would end in a traceback. The last case has a file that is no model."""
    (tmp_path / "m.onnx").write_text("no model")
    assert main(["explore", str(tmp_path / "m.onnx"), *options]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("option", ["--axes", "--sweep", "--clock", "--weights", "--energy"])
def test_a_list_that_names_nothing_is_one_line(capsys, option):
    """It would be taken for the default, and another question be answered."""
    with pytest.raises(SystemExit) as ended:
        main(["explore", "m.onnx", option, ","])
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.key)
def test_config_options_name_the_configurations_exactly(board):
    """A user would build another accelerator than the one whose speed stands in the row, or for another board."""
    for config in configurations(budget_of(board), board):
        named = configuration(option(config))
        assert replace(named, name=config.name) == config
        assert board_of(named) is board
    assert option(preset(board.key)) == board.key


def test_the_page_has_each_point_with_its_configuration(points):
    """A point would be missing, or a click copy the configuration of another one."""
    text = html("net", points, SMALL, "")
    assert text.count("<tr data-layer=") == len(points)
    for point in points:
        copied = f'data-copy="{option(point.config)}"'
        row = next(line for line in text.splitlines() if copied in line and f">{point.cycles:,}<" in line)
        assert f">{point.dsp:,}<" in row


def test_two_workers_find_what_one_finds(graph, tmp_path):
    """A user with more cores would be told to build another accelerator."""
    file = tmp_path / "networks.pickle"
    file.write_bytes(pickle.dumps([Fixed(graph)]))
    configs = configurations(SMALL)[::12]
    with Workers.local(2) as workers:
        (found, refused) = explore(Sweep(file, Conditions(), [Kept(None, "")], workers), configs, None)
    alone, _ = explored([graph], configs)
    assert not refused
    assert Aim().best(found) == Aim().best(alone)


def test_networks_share_an_accelerator_by_their_images():
    """With three of four images for one network, a second would not hold what both take together."""
    one, other = (written(preset("tiny"), 1, (80, 32.0, 0, 39_000), cycles, 4_000_000) for cycles in (3_000_000, 1_000_000))
    both = replace(one, parts=(*one.parts, *other.parts), shares=(0.75, 0.25))
    assert both.alone == pytest.approx(1 / (0.75 / one.alone + 0.25 / other.alone))
    assert both.fps == pytest.approx(1 / (0.75 / one.fps + 0.25 / other.fps))
    assert both.cycles == 2_500_000


@pytest.mark.parametrize("objective", ["fps", "alone"])
def test_batches_do_not_depend_on_what_was_compiled(objective):
    """A user would get one answer from a first call, and another one from a second, which knows points that the first left out."""
    aim = Aim(objective)
    quick = written(preset("zcu104"), 1, (1408, 64.0, 0, 150_000), 3_000_000, 4_000_000, host_seconds=0.1)
    waits = written(preset("zcu102"), 1, (2432, 648.0, 0, 160_000), 3_300_000, 4_000_000, host_seconds=0.01)
    bound = Least(3_200_000 / 300e6, 1, 0, 14_400)
    assert aim.needless(waits.config, bound, [quick]) == (objective == "alone")
    known = [quick] if objective == "alone" else [quick, waits]
    assert _for_batches(known, aim) == _for_batches([quick, waits], aim)
