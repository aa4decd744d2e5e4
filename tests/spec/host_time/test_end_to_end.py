"""The modelled images a second from picture to answer, compared with sums made by hand."""

from dataclasses import replace

import pytest

from cnna.spec.host_time import end_to_end as module
from cnna.spec.host_time import host_model
from cnna.spec.host_time.cortex_a53 import Range, run_work, seconds
from cnna.spec.host_time.end_to_end import IN_PYTHON, NATIVELY, EndToEnd, crossing_seconds, modelled, rates
from cnna.spec.host_time.host_work import HostWork
from cnna.spec.host_time.native_work import more_seconds
from cnna.spec.manifest import ACCELERATOR, CPU

BATCH, CLOCK_MHZ, CYCLES = 2, 300, 600_000  # 2 ms
LONG = 1000 * CYCLES


def _program(*shapes: tuple[int, int, int]):
    """A piece on the accelerator with one input; all other shapes are outputs."""
    ports = [{"shape": list(shape)} for shape in shapes]
    return {"kind": ACCELERATOR, "inputs": ports[:1], "outputs": ports[1:]}


def _cpu(seconds: float):
    return {"kind": CPU, "seconds": seconds}


def end_to_end(pieces, cycles, clock_mhz, batch) -> EndToEnd:
    """In Python alone: `test_native_work` has the other."""
    return module.end_to_end(pieces, cycles, clock_mhz, batch, native=False)


PIECES = [_cpu(1e-3), _program((3, 10, 10), (8, 5, 5)), _cpu(3e-3), _program((8, 5, 5), (4, 1, 1))]


def test_the_busier_side_decides():
    """The sum of both sides would promise half the speed of two overlapping batches; one side alone would ignore the other."""
    found = end_to_end(PIECES, CYCLES, CLOCK_MHZ, BATCH)
    moved = BATCH * (300 + 200 + 200 + 4)
    assert (found.crossings, found.crossing_bytes, found.starts) == (4, moved, 2)
    work = seconds(found.stream)
    factor = host_model.PIECE_FACTOR
    fps = found.fps()
    assert fps.quick == pytest.approx(BATCH / (BATCH * 4e-3 * factor.quick + work.quick))
    assert fps.slow == pytest.approx(BATCH / (BATCH * 4e-3 * factor.slow + work.slow))
    busy = end_to_end(PIECES, LONG, CLOCK_MHZ, BATCH).fps()
    launches = 2 * host_model.LAUNCH_SECONDS.quick  # the next run waits in the queue, not for the host
    assert busy.quick == pytest.approx(BATCH / (1000 * 2e-3 + launches))
    assert busy.slow < BATCH / (1000 * 2e-3 + launches)  # the host's bytes come on top


def test_latency_overlaps_nothing():
    """One picture alone waits for all that is done for it, one after another."""
    found = end_to_end(PIECES, CYCLES, CLOCK_MHZ, BATCH)
    least = 2e-3 + 2 * host_model.WAKE_SECONDS.quick + BATCH * 4e-3 * host_model.PIECE_FACTOR.quick + seconds(found.single).quick
    assert found.latency().quick == pytest.approx(least)
    assert seconds(found.single).quick > seconds(found.stream).quick


def test_one_batch_alone_takes_no_bandwidth_from_its_own_run():
    """It is packed before the run begins: its bytes would be priced twice. Those of a stream are moved beside the run before."""
    moved = HostWork(past=1e6, native=1)
    found = replace(end_to_end(PIECES[1:2], LONG, CLOCK_MHZ, BATCH), stream=moved, single=moved)
    own = LONG / (CLOCK_MHZ * 1e6)
    waking = host_model.LOOP_LOOK_SECONDS.slow + 2 * host_model.THREAD_SECONDS.slow
    assert found.latency().slow == pytest.approx(own + seconds(moved).slow + waking)
    taken = 64e6 * host_model.DDR_TAKEN_SECONDS.slow
    assert found.fps().slow == pytest.approx(BATCH / (own + taken + host_model.LAUNCH_SECONDS.slow))


def test_four_cores_share_pieces_on_the_cpu_alone():
    """Python runs on one core, so more of them must not promise a quicker host."""
    found, alone = end_to_end(PIECES, CYCLES, CLOCK_MHZ, BATCH), end_to_end(PIECES[1:2], CYCLES, CLOCK_MHZ, BATCH)
    assert found.fps(1).quick < found.fps(4).quick
    assert found.latency(1).slow > found.latency(4).slow
    assert alone.fps(1) == alone.fps(4)


def test_the_run_loop_works_beside_python():
    """Its thread packs while Python hands arrays over: their sum would hide what several cores are for; one core has no such."""
    python, loop = HostWork(interpreter=3e8), HostWork(loop_clocks=1.2e9, loops=1e9, native=1e9)
    found = replace(end_to_end(PIECES[1:2], 0, CLOCK_MHZ, BATCH), stream=python.plus(loop), single=python.plus(loop))
    assert found.fps(4).quick == pytest.approx(BATCH / seconds(loop).quick)
    assert found.fps(1).quick == pytest.approx(BATCH / (seconds(loop).quick + seconds(python).quick))
    waking = host_model.LOOP_LOOK_SECONDS.slow + 2 * host_model.THREAD_SECONDS.slow  # Python wakes the thread, which wakes Python
    assert found.latency().slow == pytest.approx(waking + seconds(found.single).slow)
    assert found.latency(1).slow > found.latency().slow  # one core polls with pauses


def test_four_threads_pack():
    """A picture that one thread packs would hold up a network that is quicker; and registers are one thread's alone."""
    pack, rest = HostWork(loop_clocks=1.2e9, loops=1e9, native=1e9), HostWork(register_reads=1e6, libraries=6e7, native=6e7)
    stream = pack.plus(rest)
    found = replace(end_to_end(PIECES[1:2], 0, CLOCK_MHZ, BATCH), stream=stream, single=stream, packing=pack)
    registers = HostWork(register_reads=1e6)
    shared = seconds(stream.plus(registers, -1)).quick / 4 + host_model.THREAD_SECONDS.quick
    assert found.fps(4).quick == pytest.approx(BATCH / (shared + seconds(registers).quick))
    assert found.fps(1) == replace(found, packing=HostWork()).fps(1)
    assert found.latency(4).slow < replace(found, packing=HostWork()).latency(4).slow


def test_a_single_run_wakes_its_helpers_alone():
    """A batch of one run is the caller's own work; with several runs, or pieces on the CPU, its thread is woken and wakes."""
    pack = HostWork(loop_clocks=1.2e9, loops=1e9, native=1e9)
    found = replace(end_to_end(PIECES[1:2], 0, CLOCK_MHZ, BATCH), stream=pack, single=pack, packing=pack)
    waking = 2 * host_model.THREAD_SECONDS.slow
    several = replace(found, starts=2).latency().slow - host_model.LOOP_LOOK_SECONDS.slow
    assert several == pytest.approx(found.latency().slow + waking)
    pieces = HostWork(loop_clocks=1, loops=1)
    assert replace(found, cpu=pieces).latency().slow == pytest.approx(found.latency().slow + waking)
    assert found.latency(1).slow > found.latency(4).slow + waking / 2, "on one core the thread does the work"


def test_counted_work_takes_the_place_of_estimates():
    """A network whose host was counted must not show what was estimated for it."""
    found = replace(end_to_end(PIECES, 0, CLOCK_MHZ, BATCH), stream=HostWork(loop_clocks=1.2e9), cpu=HostWork(loop_clocks=2.4e9))
    assert found.fps(1).quick == pytest.approx(BATCH / (1 + 2))
    assert found.fps(4).quick == pytest.approx(BATCH / (1 + 2 / host_model.ONE_CORE.slow))
    assert found.fps(1).slow == pytest.approx(BATCH / (3 * host_model.LOOP_FACTOR.slow))


def test_the_cpu_alone():
    """Without a program there are neither clocks nor crossings to divide by."""
    found = end_to_end([_cpu(5e-3)], 0, CLOCK_MHZ, 1)
    assert found.fps().quick == pytest.approx(200 / host_model.PIECE_FACTOR.quick)
    assert (found.accelerator_share, found.crossings) == (0, 0)


def test_older_files_that_do_not_say_what_the_cpu_takes():
    """Their 0 seconds would look like an infinitely fast CPU."""
    found = end_to_end([_program((3, 4, 4), (1, 1, 1)), _cpu(0.0)], CYCLES, CLOCK_MHZ, 1)
    assert (found.fps(), found.latency(), found.accelerator_share, found.cpu_seconds) == (None, None, None, None)
    assert "compile it again" in str(found)
    assert modelled(found.figures()) is None


def test_texts_have_both_ends():
    """One number of a range would be taken for a measurement."""
    found = end_to_end(PIECES, CYCLES, CLOCK_MHZ, BATCH)
    assert rates(Range(quick=1234.4, slow=56.78)) == "56.8 to 1,234"
    assert rates(found.fps()) in str(found)
    assert modelled(found.figures()) == f"{rates(found.fps(4))} on four cores and {rates(found.fps(1))} on one"
    alone = end_to_end(PIECES[1:2], CYCLES, CLOCK_MHZ, BATCH)
    assert modelled(alone.figures()) == rates(alone.fps())


def test_estimates_say_how_the_host_works():
    """A line of Python alone would seem to contradict the figures of the native library, which are several times as high."""
    for native, way, host in ((False, IN_PYTHON, "python"), (True, NATIVELY, "native")):
        found = module.end_to_end(PIECES, CYCLES, CLOCK_MHZ, BATCH, native)
        assert str(found).startswith(f"modelled from picture to answer, {way}: ")
        assert found.figures()["modelled"]["host"] == host
        assert module.way(found.figures()) == way


def test_a_large_picture_comes_from_ddr():
    """Half of a picture of 640x640 does not stay in the second cache until it is packed."""
    small, large = ({"shape": [3, side, side]} for side in (64, 640))
    per_element = [run_work([port], [], 1).l2_misses / (3 * port["shape"][1] ** 2) for port in (small, large)]
    assert per_element[1] > 0.6
    assert run_work([small], [], 1).l2_misses == host_model.RUN.work.l2_misses


def test_a_start_costs_what_was_counted():
    """The compiler would cut models into pieces for an accelerator that starts in no time, or spare crossings that cost little."""
    assert crossing_seconds(1, 0) > host_model.NATIVE_RUN_SECONDS.middle
    assert crossing_seconds(2, 100) < 2 * crossing_seconds(1, 100)
    maps = [{"shape": [64, 28, 28], "image_bytes": 64 * 28 * 28}]
    assert crossing_seconds(1, 2 * 64 * 28 * 28) == pytest.approx(more_seconds(maps, maps, 1).middle, rel=0.1)


def test_a_model_of_the_cpu_alone_crosses_nothing():
    """The line would end in "0 crossings of 0 bytes 0 to 0 ms"."""
    found = str(end_to_end([_cpu(0.002)], 0, CLOCK_MHZ, BATCH))
    assert "crossing" not in found
    assert "accelerator" not in found
    assert "takes CPU " in found
