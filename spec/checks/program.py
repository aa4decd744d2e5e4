"""Finds the commands of a register program that no accelerator could carry out.

A `.cnna` is checked here once, when it is read, so that emulator, simulator, board and report can rely on the program. It writes
only registers that programs may write, takes none that it has not written, and stays within its DDR segments and feature memory.
Program order meets every wait, and every ring word that a command takes was brought before. The module needs numpy alone, because
it runs on boards.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from cnna.spec.codebook import BOOKS, CODES, PLAIN, book_beats
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.program.commands import CommandTable, Fields, Numbers, UnsoundError, tables_of
from cnna.spec.program.decks import located, sets_on
from cnna.spec.program.ring_words import brought_words, groups, stripe, taken_parameters, taken_weights, terms
from cnna.spec.regmap import (
    ADDRESS_BITS,
    CLEARED,
    COUNT_BITS,
    COUNTED,
    DECK_BIT,
    GO_OFFSETS,
    SEGMENTS,
    VECTOR_OPS,
    command_fields,
    registers_of,
    there,
)

MOST_CLOCKS = 1 << 32  # of a run: the accelerator counts them in 32 bits
MOST_TAKEN_BYTES = 1 << 32  # of weights, for one command: what an emulator can hold

Fault = tuple[NDArray[np.bool_], str]  # which of a table's commands have the fault, and a description


def checked(program: bytes, config: Config, segments: Mapping[str, int]) -> dict[str, CommandTable]:
    """The commands of a program by engine, after a check that they are sound for segments of so many bytes.

    UnsoundError: the first command that is not.
    """
    tables = tables_of(program)
    _check_registers(program, config)
    _check_written(program)
    sizes = np.array([segments[name] for name in SEGMENTS], np.int64)
    for table in tables.values():
        for bad, what in _faults(table.engine, table.f, config, sizes):
            if bad.any():
                raise UnsoundError(f"{_command(table, int(bad.argmax()))} {what}")
    for engine in ("conv", "vector", "weight"):
        if _clocks(engine, tables[engine].f, config).sum() >= MOST_CLOCKS:
            raise UnsoundError(f"the {engine} commands of program.bin take {MOST_CLOCKS} clocks or more")
    _check_waits(tables, config)
    _check_books(tables["weight"])
    for ring, engine in enumerate(("conv", "vector")):
        _check_table(tables[engine])
        _check_ring(tables["weight"], ring, tables[engine], config)
    return tables


def _check_registers(program: bytes, config: Config) -> None:
    """UnsoundError: a write to a register that this accelerator lacks."""
    known = [register.offset for register in there(config.codebook)]
    bad = np.flatnonzero(~np.isin(np.frombuffer(program, "<u4")[::2], known))
    if bad.size:
        raise UnsoundError(f"write {bad[0]} of program.bin is to a register that only an accelerator with codebook = 1 has")


def _check_written(program: bytes) -> None:
    """UnsoundError: an engine's first command takes a register that holds what the program's last run, or another program, left."""
    offsets, values = np.frombuffer(program, "<u4").reshape(-1, 2).T
    for go, engine in GO_OFFSETS.items():
        gone = np.flatnonzero((offsets == go) & (values & 1 == 1))
        for register, _ in registers_of(engine) if gone.size else ():
            if register.name not in CLEARED and not (offsets[: gone[0]] == register.offset).any():
                raise UnsoundError(
                    f"write {gone[0]} of program.bin queues a {engine} command before any write to {register.name}, "
                    "whose value then depends on what ran before"
                )


def fault(engine: str, f: Mapping[str, int], config: Config) -> str | None:
    """What is wrong with a single command, whatever the size of its segments; None if nothing is."""
    for name, field in command_fields(engine).items():
        low, high = field.limits
        if not low <= f[name] <= high:
            return _outside(name, low, high)
    rows = {name: np.array([value], np.int64) for name, value in f.items()}
    anywhere = np.full(len(SEGMENTS), np.iinfo(np.int64).max)
    return next((what for bad, what in _faults_within(engine, rows, config, anywhere) if bad.any()), None)


def _command(table: CommandTable, row: int) -> str:
    return f"commands[{table.numbers[row]}] ({table.engine})"


# --- faults of a single command, engine by engine ---


def _faults(engine: str, f: Fields, config: Config, sizes: Numbers) -> Iterator[Fault]:
    """All faults that a command by itself can have. Each check assumes that the faults before it are absent."""
    for name, field in command_fields(engine).items():
        low, high = field.limits  # a register that was never written may hold a value outside the limits
        yield (f[name] < low) | (f[name] > high), _outside(name, low, high)
    yield from _faults_within(engine, f, config, sizes)


def _outside(name: str, low: int, high: int) -> str:
    return f"has {name} outside {low}..{high}"


def _faults_within(engine: str, f: Fields, config: Config, sizes: Numbers) -> Iterator[Fault]:
    """Those of `_faults` that a command can have whose fields are within their limits."""
    yield _clocks(engine, f, config) >= MOST_CLOCKS, f"takes {MOST_CLOCKS} clocks or more"
    yield from _FAULTS[engine](f, config, sizes)


def _clocks(engine: str, f: Fields, config: Config) -> NDArray[np.float64]:
    """About how many clocks each command keeps its engine busy, in floats, since no integer holds some of these products."""
    if engine == "weight":
        return f["beats"].astype(np.float64) * f["repeat"]
    if engine in ("load", "store"):
        return f["blocks"].astype(np.float64) * f["runs"] * f["run"]
    taps = f["kernel_height"].astype(np.float64) * f["kernel_width"]  # more, where a step takes several
    return taps * f["blocks"] * groups(f, config) * (f["chunks"] if engine == "conv" else 1)


def _moved(f: Fields, config: Config, sizes: Numbers) -> Iterator[Fault]:
    """Faults of load and store."""
    words = f["blocks"] * f["runs"] * f["run"]
    yield words > config.feature_words, f"moves more than the {config.feature_words} words of feature memory"
    steps = [(f["blocks"], f["ddr_block"]), (f["runs"], f["ddr_run"])]
    yield _unaligned(f["ddr"], *((step * (count > 1)) for count, step in steps)), "has a DDR address that is no multiple of 16"
    end = f["ddr"] + sum((count - 1) * step for count, step in steps) + f["run"] * config.ci
    yield end > sizes[f["seg"]], "reaches beyond the end of its segment"
    walk = [_blocks(f, "fm", f["blocks"], config), (f["runs"], f["fm_run"]), (f["run"], np.ones_like(f["run"]))]
    yield _beyond(f["fm"], walk, config), _OUTSIDE


def _brought(f: Fields, config: Config, sizes: Numbers) -> Iterator[Fault]:
    """Faults of weight."""
    ports = np.where(f["ring"] == 1, 1, config.ports)
    apart = (ports - 1) * f["port"]
    yield _unaligned(f["ddr"], apart), "has a DDR address that is no multiple of 16"
    yield f["ddr"] + apart + f["beats"] * BEAT_BYTES > sizes[f["seg"]], "reaches beyond the end of its segment"
    yield (f["code"] != PLAIN) & (not config.codebook), "brings books or codes, for which the accelerator has no decoder"
    yield (f["code"] != PLAIN) & (f["ring"] == 1), "brings books or codes to the vector ring"
    books = f["code"] == BOOKS
    yield books & ((f["beats"] != book_beats(config)) | (f["repeat"] != 1)), "brings other than one book for each row"
    yield ~books & (f["beats"] * BEAT_BYTES % stripe(f, config) != 0), "brings a part of a ring word"


def _convolved(f: Fields, config: Config, sizes: Numbers) -> Iterator[Fault]:
    """Faults of conv."""
    held = (f["stream"] == 0) & (groups(f, config) > 1)
    yield held & (terms(f) > config.ring_words), f"holds more than the {config.ring_words} words of the weight ring"
    yield taken_weights(f, config) * config.ring_word_bytes > MOST_TAKEN_BYTES, "takes more than 4 GiB of weights"
    yield (f["chunks"] - 1) * config.chunk_blocks >= f["dst_blocks"], "computes a chunk of which nothing is written"
    used = np.minimum(f["dst_blocks"], f["chunks"] * config.chunk_blocks)
    yield from _written(f, used, config)
    yield _reads_beyond(f, (f["blocks"], f["src_block"]), config), _OUTSIDE
    yield (f["res_enable"] == 1) & _beyond(f["res"], _plane(f, "res", used, config), config), _OUTSIDE


def _made(f: Fields, config: Config, sizes: Numbers) -> Iterator[Fault]:
    """Faults of vector."""
    pairs = f["op"] == VECTOR_OPS.index("elementwise")
    yield pairs & ((f["kernel_height"] != 1) | (f["kernel_width"] > 2)), "is elementwise on more than two operands"
    product = f["op"] == VECTOR_OPS.index("product")
    yield product & ((f["kernel_height"] != 1) | (f["kernel_width"] != 2)), "is a product of other than two operands"
    yield _apart(f, config), "takes taps together whose words do not follow each other"
    yield f["window_columns"] > f["out_width"], "writes more columns than it computes"
    uneven = _uneven({**f, "src_kx": _signed(f["src_kx"], config)})
    yield _reads_beyond(uneven, _blocks(f, "src", f["blocks"], config), config), _OUTSIDE
    flat = (sets_on(f["src"], f["blocks"] - 1, config.depth) + 1, f["b_block"])
    yield (f["b_flat"] == 1) & _beyond(f["src"], [flat], config), _OUTSIDE
    yield from _written(f, f["blocks"], config)


_FAULTS = {"load": _moved, "weight": _brought, "conv": _convolved, "vector": _made, "store": _moved}
_OUTSIDE = "has an address outside feature memory"


def _written(f: Fields, blocks: Numbers, config: Config) -> Iterator[Fault]:
    """Faults of the writes of conv and vector: no word may be written twice, and all must lie in feature memory."""
    pixels = f["images"] * f["out_height"] * _columns(f)
    yield pixels * blocks > config.feature_words, f"writes more than the {config.feature_words} words of feature memory"
    yield _beyond(f["dst"], _plane(f, "dst", blocks, config), config), _OUTSIDE


def _blocks(f: Fields, name: str, blocks: Numbers, config: Config) -> tuple[Numbers, Numbers]:
    """(count, step) of the walk from block to block, within a deck if there are two."""
    return sets_on(f[name], blocks - 1, config.depth) + 1, f[f"{name}_block"]


def _signed(step: Numbers, config: Config) -> Numbers:
    """A step from tap to tap, of which the top bit is a deck with depth 2: as a number of words."""
    half = 1 << (_bits(config) - 1)
    return step if config.depth == 1 else (step + half) % (2 * half) - half


def _bits(config: Config) -> int:
    """The bits of an address within its deck."""
    return ADDRESS_BITS if config.depth == 1 else DECK_BIT


def _plane(f: Fields, name: str, blocks: Numbers, config: Config) -> list[tuple[Numbers, Numbers]]:
    """(count, step) of the four walks over a plane: columns, rows, images, blocks (docs/engines.md, the walk)."""
    row = f["out_width"] * f[f"{name}_x"] + f[f"{name}_row"]
    image = f["out_height"] * row + f[f"{name}_image"]
    return [(_columns(f), f[f"{name}_x"]), (f["out_height"], row), (f["images"], image), _blocks(f, name, blocks, config)]


def _apart(f: Fields, config: Config) -> NDArray[np.bool_]:
    """Which commands take several taps a step though the words of their lanes do not lie evenly apart."""
    apart, one_row = f["window_apart"], f["out_width"] % config.pix == 0
    follows = (f["src_x"] == apart * f["src_kx"]) & (f["stride_x"] == apart * f["stride_dilation_x"])
    even = (f["src_row"] == 0) & (f["src_image"] == 0)  # the lanes behind the last pixel of one image have words as well
    return np.asarray((apart != 0) & ~(follows & (one_row | even) & (f["b_flat"] == 0)))


def _columns(f: Fields) -> Numbers:
    """The output columns that are written."""
    cut = f.get("window_columns", np.zeros_like(f["out_width"]))
    return np.where(cut == 0, f["out_width"], cut)


def _uneven(f: Fields) -> Fields:
    """The commands without their flat taps: their walks begin at tap column 1. A width of 0 remains if there is no other."""
    return {
        **f,
        "src": f["src"] + f["b_flat"] * f["src_kx"],
        "first_x": f["first_x"] + f["b_flat"] * f["stride_dilation_x"],
        "kernel_width": f["kernel_width"] - f["b_flat"],
    }


def _reads_beyond(f: Fields, blocks: tuple[Numbers, Numbers], config: Config) -> NDArray[np.bool_]:
    """Which commands have taps inside of the source that leave feature memory. blocks: as of `_blocks`."""
    rows, columns = _tap_range(f, "y", "height"), _tap_range(f, "x", "width")
    image = f["src_image"] + f["out_height"] * (f["src_row"] + f["out_width"] * f["src_x"])
    none = rows[:, 2].astype(bool) | columns[:, 2].astype(bool)
    low, high = (_in_deck(f["src"], config) + rows[:, end] + columns[:, end] for end in (0, 1))
    for count, step in ((f["images"], image), blocks):
        low, high = low + np.minimum((count - 1) * step, 0), high + np.maximum((count - 1) * step, 0)
    around = low >> _bits(config) << _bits(config)
    return np.asarray(~none & (high - around >= config.deck_words))


def _tap_range(f: Fields, axis: str, size: str) -> Numbers:
    """What rows, or columns, inside of the source add to its address: int64 [commands, (least, most, whether there are none)]."""
    across = f["src_x"] if axis == "x" else f["src_row"] + f["out_width"] * f["src_x"]
    names = (f"out_{size}", f"kernel_{size}", f"first_{axis}", f"stride_{axis}", f"stride_dilation_{axis}", f"in_{size}")
    rows = np.stack([across, f[f"src_k{axis}"], *(f[name] for name in names)], axis=1)
    kinds, which = np.unique(rows, axis=0, return_inverse=True) if len(rows) > 1 else (rows, np.arange(len(rows)))
    found = np.zeros((len(kinds), 3), np.int64)
    for row, (step, tap_step, out, taps, first, stride, dilation, inside) in enumerate(kinds.tolist()):
        pixel, tap = np.arange(out)[:, None], np.arange(taps)
        place = first + pixel * stride + tap * dilation
        added = (pixel * step + tap * tap_step)[(place >= 0) & (place < inside)]
        found[row] = (added.min(), added.max(), 0) if added.size else (0, 0, 1)
    return found[which.reshape(-1)]


def _beyond(first: Numbers, walks: list[tuple[Numbers, Numbers]], config: Config) -> NDArray[np.bool_]:
    """Which walks from `first` on, of so many steps each, leave feature memory. Addresses are modulo 2^20, or 2^19 in a deck."""
    ends = [(count - 1) * step for count, step in walks]
    low = _in_deck(first, config) + sum(np.minimum(end, 0) for end in ends)
    high = _in_deck(first, config) + sum(np.maximum(end, 0) for end in ends)
    around = low >> _bits(config) << _bits(config)
    return np.asarray(high - around >= config.deck_words)


def _in_deck(address: Numbers, config: Config) -> Numbers:
    return located(address, 0 * address, config.depth)


def _unaligned(*addresses: Numbers) -> NDArray[np.bool_]:
    return np.asarray(sum(address % BEAT_BYTES for address in addresses) != 0)


def _pixels(f: Fields) -> Numbers:
    return f["images"] * f["out_height"] * f["out_width"]


# --- faults of the commands together ---


def _units(table: CommandTable, config: Config) -> Numbers:
    """Units of each command for which others can wait."""
    if table.engine == "conv":
        return table.f["chunks"]
    return -(-table.f["blocks"] // config.chunk_blocks) if table.engine == "vector" else np.ones(len(table.numbers), np.int64)


def _check_waits(tables: Mapping[str, CommandTable], config: Config) -> None:
    """UnsoundError: a unit waits for what no earlier command provides. Differences are signed, of COUNT_BITS."""
    units = {engine: _units(tables[engine], config) for engine in COUNTED}
    given = {engine: np.concatenate([[0], np.cumsum(units[engine])]) for engine in COUNTED}
    sign = 1 << (COUNT_BITS - 1)
    for engine in COUNTED:
        table = tables[engine]
        for other in COUNTED:
            enable, step, count = (table.f[f"wait_{other}_{part}"] for part in ("enable", "step", "count"))
            done = given[other][np.searchsorted(tables[other].numbers, table.numbers)]
            last = units[engine] - 1
            for unit in (np.zeros_like(last), last):
                spare = done + (unit if other == engine else 0) - count - unit * step
                # More units than there are would give a count below 0.
                seen = np.minimum(done + (unit if other == engine else 0), sign - 1)
                bad = (enable == 1) & (spare % (2 * sign) > seen)
                if bad.any():
                    who = _command(table, int(bad.argmax()))
                    raise UnsoundError(f"{who} waits for units of {other} that nothing before it makes")


def _check_table(table: CommandTable) -> None:
    """UnsoundError: a command uses a table, but neither it nor one before it has loaded one."""
    bad = (table.f["table_use"] == 1) & (np.cumsum(table.f["table_load"]) == 0)
    if bad.any():
        raise UnsoundError(f"{_command(table, int(bad.argmax()))} uses a table that nothing before it loads")


def _check_books(table: CommandTable) -> None:
    """UnsoundError: a command brings codes, but none before it brings books."""
    bad = (table.f["code"] == CODES) & (np.cumsum(table.f["code"] == BOOKS) == 0)
    if bad.any():
        raise UnsoundError(f"{_command(table, int(bad.argmax()))} brings codes for books that nothing before it brings")


def _check_ring(weight: CommandTable, ring: int, taker: CommandTable, config: Config) -> None:
    """UnsoundError: a command takes ring words that were not brought, or some are left when the program ends."""
    own = weight.f["ring"] == ring
    brought = brought_words(weight.f, config) * own
    there = np.concatenate([[0], np.cumsum(brought)])
    taken = np.cumsum((taken_weights if ring == 0 else taken_parameters)(taker.f, config))
    short = there[np.searchsorted(weight.numbers, taker.numbers)] < taken
    if short.any():
        raise UnsoundError(f"{_command(taker, int(short.argmax()))} takes ring words that nothing before it brings")
    if there[-1] != (taken[-1] if taken.size else 0):
        raise UnsoundError(f"program.bin brings ring words that no {taker.engine} command takes")
