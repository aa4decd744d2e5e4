"""The DDR model on the roads of a ZCU102: latency, what is under way, bank groups, rows, refresh, turns.

Figures are of 300 MHz. Streams of the ports lie `apart` bytes from each other; on the PS's DDR4, groups change every 8 KiB, banks
every 32 KiB and rows every 128 KiB.
"""

from itertools import count, pairwise

import pytest

from cnna.spec.ddr import ROADS

from ...rigs.ddr_bus import BASE, Bus, Reader, Writer, compiled, run

PS, PL, REVISION_11 = (ROADS[name].number for name in ("zcu102-ps", "zcu102-pl", "zcu102-ps-rev1.1"))
PEAK = {2133: 17067 / 300, 2400: 19200 / 300}  # bytes a clock
GROUP, BANK, ROW = 8 << 10, 32 << 10, 128 << 10
CLOCKS = 2000


@pytest.fixture(scope="module")
def library(tmp_path_factory, root):
    """The model as a shared library."""
    return compiled(root, tmp_path_factory.mktemp("ddr"))


@pytest.fixture
def bus(library, tmp_path):
    """Makes buses with settings."""
    numbers = count()
    return lambda **settings: Bus(library, tmp_path / f"memory{next(numbers)}", size=4 << 20, **settings)


def stream(port, apart, base=BASE):
    """The addresses of a port's bursts of 16 beats: the same 8 KiB again and again, so that it keeps its group and row."""
    return [base + port * apart + 256 * i % GROUP for i in range(CLOCKS // 8)]


def moved(b, reads=(), writes=(), apart=GROUP + ROW):
    """Bytes a clock that these ports read and write, over CLOCKS."""
    readers = [Reader(b, p, [(address, 16) for address in stream(p, apart)]) for p in reads]
    beats = [(1, 0xFFFF)] * 16
    writers = [Writer(b, p, [(address, beats) for address in stream(p, apart, BASE + (2 << 20) + BANK)]) for p in writes]
    run(b, [*readers, *writers], iter([False] * CLOCKS + [True]).__next__)
    assert b.violation == ""
    return 16 * sum(len(r.got) for r in readers) / CLOCKS, 256 * sum(len(w.responses) for w in writers) / CLOCKS


@pytest.mark.parametrize("latency", [120, 180])
@pytest.mark.parametrize(("road", "mts"), [(PS, 2133), (PS, 2400), (PL, 2666)])
def test_an_idle_road_answers_after_its_latency(bus, road, mts, latency):
    """The latency is a setting, as on the plain road; figures of both roads could not be compared otherwise."""
    b = bus(road=road, mts=mts, latency=latency, write_latency=latency)
    reader, writer = Reader(b, 2, [(BASE, 1)]), Writer(b, 1, [(BASE, [(1, 0xFFFF)] * 16)])
    run(b, [reader], lambda: not reader.bursts)
    assert abs(run(b, [reader], lambda: b.see["rvalid"][2]) + 1 - latency) <= 1
    run(b, [reader, writer], lambda: not writer.beats)
    assert abs(run(b, [writer], lambda: b.see["bvalid"][1]) - latency) <= 1


@pytest.mark.parametrize(("beats", "taken"), [(16, 8 + 8), (8, 8 + 16), (1, 8 + 16)])
def test_a_port_takes_what_its_queue_and_fifo_hold(bus, beats, taken):
    """8 commands wait; behind them are at most 16, and no more than 128 beats. More would hide the latency that the board has."""
    b = bus(road=PS, latency=500)
    reader = Reader(b, 0, [(BASE + 256 * i, beats) for i in range(40)])
    run(b, [reader], iter([False] * 100 + [True]).__next__)
    assert 40 - len(reader.bursts) == taken


def test_a_port_takes_the_beats_that_its_fifo_holds(bus):
    """Without an address, 128 beats are taken (UG1085 lets data come first); more would be a FIFO that the board lacks."""
    b = bus(road=PS)
    writer = Writer(b, 0, [(BASE, [(1, 0xFFFF)] * 16)] * 10)
    addresses, writer.addresses = writer.addresses, []
    run(b, [writer], iter([False] * 300 + [True]).__next__)
    assert 160 - len(writer.beats) == 128
    writer.addresses = addresses
    run(b, [writer], lambda: len(writer.responses) == 10)


@pytest.mark.parametrize("latency", [120, 180, 300])
def test_what_is_under_way_bounds_a_port(bus, latency):
    """2 KiB in the latency of the road: 17 bytes a clock at 120 clocks, more than a beat, and 11 at 180."""
    rate, _ = moved(bus(road=PS, latency=latency), [0])
    bound = min(16, 2048 / latency)
    assert 0.85 * bound < rate <= bound


@pytest.mark.parametrize("mts", [2133, 2400])
def test_streams_in_one_bank_group_share_two_thirds(bus, mts):
    """tCCD_L is 3 ticks where tCCD_S is 2; the layout of weights in DDR matters for no other reason than this and the rows."""
    apart, _ = moved(bus(road=PS, mts=mts, latency=40), range(4))
    together, _ = moved(bus(road=PS, mts=mts, latency=40), range(4), apart=BANK + ROW)
    assert 0.85 * PEAK[mts] < apart < 0.97 * PEAK[mts]  # a refresh takes 4 %
    assert 0.55 * PEAK[mts] < together < 0.67 * PEAK[mts]


def test_one_stream_lies_in_two_groups_on_revision_11(bus):
    """Bit 6 of the address is a bit of the group there. Streams of one row then lose nothing; on revision 1.0 they lose a third."""
    rates = [moved(bus(road=road, latency=40), range(4), apart=0)[0] for road in (PS, REVISION_11)]
    assert rates[0] < 0.67 * PEAK[2400]
    assert 0.85 * PEAK[2400] < rates[1] < 0.97 * PEAK[2400]


def test_rows_of_one_bank_cost_their_opening(bus):
    """Four streams in four rows of one bank: a model without rows would not lose more than a bank group does."""
    rows, _ = moved(bus(road=PS, latency=40), range(4), apart=ROW)
    group, _ = moved(bus(road=PS, latency=40), range(4), apart=BANK + ROW)
    assert rows < 0.9 * group


def test_a_refresh_stops_the_stream(bus):
    """Every 7.8 microseconds for 260 ns and the time to close and open rows: 78 to 110 clocks in 2,340.

    At this latency the port's FIFO has no beats in store that would bridge the gap.
    """
    b = bus(road=PS, mts=2133, latency=150)
    reader, gaps, last = Reader(b, 0, [(BASE + 256 * i, 16) for i in range(1000)]), [], 0
    for clock in range(7200):
        reader.before()
        b.clock()
        reader.after()
        if b.see["rvalid"][0]:
            if last and clock - last > 60:
                gaps.append((last, clock - last))
            last = clock
    assert len(gaps) == 3
    assert all(78 <= length <= 110 for _, length in gaps)
    assert all(abs(b[0] - a[0] - 2340) < 30 for a, b in pairwise(gaps))


@pytest.mark.parametrize("road", [PS, PL])
def test_turns_between_reads_and_writes_cost(bus, road):
    """Both directions together move less than the reads alone, and neither starves."""
    alone, _ = moved(bus(road=road, latency=40), range(4))
    reads, writes = moved(bus(road=road, latency=40), range(4), range(4))
    assert 0.4 * alone < reads + writes < 0.95 * alone
    assert min(reads, writes) > 0.15 * alone


def test_three_ports_get_three_quarters_of_the_peak(bus):
    """Manev, Vaishnav and Koch (FPT 2019) measured 75 % on a ZCU102 at best, with three ports, not HP1 and HP2 together."""
    rate, _ = moved(bus(road=PS, mts=2133), [0, 1, 3])
    assert abs(rate / PEAK[2133] - 0.75) < 0.04


def test_a_reset_in_the_middle_leaves_nothing_behind(bus):
    """What the controller had of a port before the reset must not answer a read after it."""
    b = bus(road=PS)
    b.memory[:4096] = 7
    old = [Reader(b, p, [(BASE + (1 << 20) + 256 * i, 16) for i in range(20)]) for p in range(4)]
    run(b, old, iter([False] * 90 + [True]).__next__)
    b.drive["arvalid"] = [0] * 4
    for _ in range(3):
        b.clock(reset_n=0)
    new = Reader(b, 0, [(BASE, 16)] * 4)
    run(b, [new], lambda: len(new.got) == 64)
    assert all(data == int.from_bytes(bytes([7] * 16), "little") for data, _, _ in new.got)
    run(b, [], iter([False] * 400 + [True]).__next__)
    assert not any(b.see["rvalid"])


@pytest.mark.parametrize("road", [0, PS])
def test_a_setting_that_stays_as_it_is_loses_no_answer(bus, road):
    """Reads that hung would have no answer for ever after all settings were given again, and a soft reset would not end."""
    b = bus(road=road, mts=2133, hang_after=20)
    reader = Reader(b, 0, [(BASE + 256 * i, 16) for i in range(4)])
    run(b, [reader], iter([False] * 400 + [True]).__next__)
    assert 0 < len(reader.got) < 64
    for name, value in (("road", road), ("mts", 2133), ("hang_after", -1)):
        assert b.c.ddr_set(name.encode(), value) == 0
    run(b, [reader], lambda: len(reader.got) == 64)
