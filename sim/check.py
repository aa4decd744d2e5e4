"""`--check`: RTL against emulator, word by word as written; emulator against reference, tensor by tensor.

The testbench records every word that is written to feature memory and DDR, in order of time. Address by address, these words must
be those that the emulator writes in program order. Every element of an int8 tensor that a command writes must equal the
reference's. The error names the first difference in program order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cnna.host.device.accelerator import Accelerator
from cnna.sim.emulator import walk
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.sim.emulator.memory import PAGE_BYTES
from cnna.sim.emulator.state import LoggedWrite
from cnna.spec.artifact import ProgramPiece
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.counts import many
from cnna.spec.device import Device
from cnna.spec.errors import CheckError
from cnna.spec.manifest import CommandEntry, ProgramManifest
from cnna.spec.regmap import SEGMENTS, offset

Int8 = NDArray[np.int8]
Tensors = Mapping[str, Int8]


@runtime_checkable
class ObservedRtl(Protocol):
    """A device whose writes a testbench records: the simulated RTL."""

    def read(self, offset: int) -> int:
        """The register at a byte offset."""

    def start_log(self) -> None:
        """Records every write from now on, and drops what was recorded."""

    def logged(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The recorded writes to feature memory and to DDR, in order of time: arrays of `rtl.linked_models.STORED` and
        `WRITTEN`."""


@dataclass(frozen=True)
class Agreement:
    """What was found equal, and between which executions."""

    executions: tuple[str, ...]
    tensors: int
    elements: int

    def __add__(self, other: "Agreement") -> "Agreement":
        """Two batches of one program: the tensors are the same ones."""
        return Agreement(self.executions, max(self.tensors, other.tensors), self.elements + other.elements)

    def __str__(self) -> str:
        return (
            f"{' == '.join(self.executions)}: {many(self.tensors, 'tensor')}, {self.elements} element{'s' * (self.elements != 1)}"
        )


def together(found: Sequence[Agreement]) -> Agreement:
    """That of several programs of one model, whose tensors are all different."""
    return Agreement(found[0].executions, sum(one.tensors for one in found), sum(one.elements for one in found))


def compare(piece: ProgramPiece, golden: Tensors, inputs: Tensors, answers: Tensors, device: Device | None) -> Agreement:
    """Compares the run that `device` has just done; None: the reference itself ran. golden: the reference's tensors.

    CheckError: the first difference.
    """
    if isinstance(device, EmulatorDevice):
        log = device.log
    else:
        log, emulated = emulate(piece, inputs)
    last = "emulator"
    if isinstance(device, ObservedRtl):
        compare_writes(piece, log, device)
        last = "RTL"
    elif device is not None and not isinstance(device, EmulatorDevice):
        last = device.name
        _compare_outputs(piece, emulated, answers, (last, "emulator"))
    tensors, elements = compare_tensors(piece, log, golden, last)
    _compare_outputs(piece, golden, answers, (last, "reference"))
    names = ("emulator", "reference") if last == "emulator" else (last, "emulator", "reference")
    return Agreement(names, tensors, elements)


def emulate(piece: ProgramPiece, inputs: Tensors) -> tuple[list[LoggedWrite], dict[str, Int8]]:
    """What each command writes when the emulator runs a batch, and the outputs by port."""
    sizes = [*piece.manifest["segments"].values(), len(piece.program)]
    device = EmulatorDevice(piece.config, sum(sizes) + 2 * PAGE_BYTES * len(sizes), logging=True)
    outputs = Accelerator(device, piece).run(inputs)
    return device.log, outputs


# --- emulator against reference ---


def compare_tensors(piece: ProgramPiece, log: Sequence[LoggedWrite], golden: Tensors, name: str = "emulator") -> tuple[int, int]:
    """(tensors, elements) compared. CheckError: an element differs or is never written; `name` is what the message blames."""
    manifest = piece.manifest
    seen = {tensor: np.zeros(golden[tensor].shape, bool) for tensor in manifest["tensors"] if tensor in golden}
    for written in log:
        entry = manifest["commands"][written.command.number]
        tensor = entry["tensor"]
        if tensor is None or written.pixels is None:  # a load or store
            continue
        want = golden[tensor]
        index = _elements(written, written.pixels, entry, piece.config)
        inside = (index[1] < want.shape[1]) & np.ones(written.words.shape, bool)
        place = tuple(np.broadcast_to(part, inside.shape)[inside] for part in index)
        got = written.words.view(np.int8)[inside]
        bad = np.flatnonzero(got != want[place])
        if bad.size:
            element = [int(part[bad[0]]) for part in place]
            raise CheckError(
                f"{name} != reference: {_where(manifest, written, tensor)}, element {element}: "
                f"{name} {got[bad[0]]}, reference {want[tuple(element)]}"
            )
        seen[tensor][place] = True
    tensors = (entry["tensor"] for entry in manifest["commands"] if entry["engine"] in ("conv", "vector"))
    written_tensors = {tensor for tensor in tensors if tensor in seen}
    joined = {layer["output"] for layer in manifest["layers"] if layer["op"] == "Concat"}  # in parts, under the parts' names
    for tensor in sorted(written_tensors):
        if tensor not in joined and not seen[tensor].all():
            element = [int(part[0]) for part in np.nonzero(~seen[tensor])]
            raise CheckError(f"{name} != reference: tensor {tensor}, element {element}: no command writes it")
    return len(written_tensors), sum(int(seen[tensor].sum()) for tensor in written_tensors)


def _elements(
    written: LoggedWrite, pixels: NDArray[np.int64], entry: CommandEntry, config: Config
) -> tuple[NDArray[np.int64], ...]:
    """(n, c, h, w) of what a conv or vector command wrote, each broadcasting to [pixels, blocks, ci]."""
    image, y, x = walk.coordinates(written.command.f, pixels)
    origin, (down, right) = entry["origin"], entry.get("step", (1, 1))
    channel = (origin[1] + np.arange(written.addresses.shape[1]))[:, None] * config.ci + np.arange(config.ci)
    row, column = origin[2] + y * down, origin[3] + x * right
    return (origin[0] + image)[:, None, None], channel[None], row[:, None, None], column[:, None, None]


def _compare_outputs(piece: ProgramPiece, golden: Tensors, answers: Tensors, names: tuple[str, str]) -> None:
    for port in piece.manifest["outputs"]:
        got, want = answers[port["name"]], golden[port["tensor"] if port["tensor"] in golden else port["name"]]
        bad = np.argwhere(got != want)
        if bad.size:
            element = tuple(int(part) for part in bad[0])
            raise CheckError(
                f"{names[0]} != {names[1]}: output {port['name']}, element {list(element)}: "
                f"{names[0]} {got[element]}, {names[1]} {want[element]}"
            )


# --- RTL against emulator ---


def compare_writes(piece: ProgramPiece, log: Sequence[LoggedWrite], device: ObservedRtl) -> None:
    """Every write that the testbench saw since `device.start_log()`, which this calls again. CheckError: the first difference."""
    features, ddr = device.logged()
    device.start_log()
    config = piece.config
    to_features = [w for w in log if w.command.engine != "store"]
    _compare_sequences(
        piece, to_features, [w.addresses for w in to_features], features["address"], features["word"][:, : config.ci]
    )
    halves = [(device.read(offset(f"SEG_{name.upper()}_LO")), device.read(offset(f"SEG_{name.upper()}_HI"))) for name in SEGMENTS]
    bases = [low | high << 32 for low, high in halves]
    to_ddr = [w for w in log if w.command.engine == "store"]
    addresses = [_relocated(w, bases[w.command.f.seg]) for w in to_ddr]
    _compare_sequences(piece, to_ddr, addresses, *_ddr_words(ddr, config))


def _relocated(written: LoggedWrite, base: int) -> NDArray[np.int64]:
    """DDR addresses of a store as if its segment were at `base`."""
    first = int(written.addresses.reshape(-1)[0])
    return written.addresses - first + base + int(written.command.f.ddr)


def _ddr_words(ddr: NDArray[Any], config: Config) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """(addresses, words uint8 [n, ci]) of logged beats: the words whose bytes are all strobed."""
    words = ddr["data"].reshape(-1, config.beat_words, config.ci)
    strobe = (ddr["strobe"][:, None].astype(np.int64) >> np.arange(BEAT_BYTES)) & 1
    strobe = strobe.reshape(-1, config.beat_words, config.ci)
    if (strobe != strobe[:, :, :1]).any():
        beat = int(np.flatnonzero((strobe != strobe[:, :, :1]).any(axis=(1, 2)))[0])
        raise CheckError(f"RTL != emulator: the beat at DDR address {int(ddr['address'][beat]):#x} writes a part of a word")
    address = ddr["address"].astype(np.int64)[:, None] + np.arange(config.beat_words) * config.ci
    chosen = strobe[:, :, 0].astype(bool)
    return address[chosen], words[chosen]


def _compare_sequences(
    piece: ProgramPiece,
    log: Sequence[LoggedWrite],
    addresses: Sequence[NDArray[np.int64]],
    rtl_addresses: NDArray[Any],
    rtl_words: NDArray[np.uint8],
) -> None:
    """Address by address, the values written in order of time (RTL) and of the program (emulator)."""
    ci = piece.config.ci
    flat = np.concatenate([a.reshape(-1) for a in addresses]) if log else np.empty(0, np.int64)
    words = np.concatenate([w.words.reshape(-1, ci) for w in log]) if log else np.empty((0, ci), np.uint8)
    by_program, by_time = np.argsort(flat, kind="stable"), np.argsort(rtl_addresses, kind="stable")
    rtl_flat = rtl_addresses.astype(np.int64)
    if len(flat) == len(rtl_flat) and np.array_equal(flat[by_program], rtl_flat[by_time]):
        bad = (words[by_program] != rtl_words[by_time]).any(axis=1)
        if not bad.any():
            return
        position = int(by_program[bad].min())  # the first in program order
        rtl = rtl_words[by_time][int(np.flatnonzero(by_program == position)[0])]
        _raise_difference(piece, log, position, words[position], rtl)
    _raise_counts(piece, log, flat, rtl_flat)


def _raise_difference(
    piece: ProgramPiece, log: Sequence[LoggedWrite], position: int, emulated: NDArray[np.uint8], rtl: NDArray[np.uint8]
) -> None:
    channel = int(np.flatnonzero(emulated != rtl)[0])
    got, want = rtl.view(np.int8)[channel], emulated.view(np.int8)[channel]
    raise CheckError(f"RTL != emulator: {_place(piece, log, position, channel)}: RTL {got}, emulator {want}")


def _raise_counts(piece: ProgramPiece, log: Sequence[LoggedWrite], flat: NDArray[np.int64], rtl: NDArray[np.int64]) -> None:
    """Some address is written more or less often than the program says."""
    known = np.union1d(flat, rtl)
    counts = [np.bincount(np.searchsorted(known, a), minlength=len(known)) for a in (flat, rtl)]
    differ = known[counts[0] != counts[1]]
    ours = np.flatnonzero(np.isin(flat, differ))
    if not ours.size:
        raise CheckError(f"RTL != emulator: the RTL writes address {int(differ[0]):#x}, which no command writes")
    place, address = int(ours[0]), int(flat[ours[0]])
    times = [int(count[np.searchsorted(known, address)]) for count in counts]
    where = _place(piece, log, place, 0)
    raise CheckError(f"RTL != emulator: {where}: the RTL writes its word (address {address:#x}) {times[1]} times, not {times[0]}")


def _place(piece: ProgramPiece, log: Sequence[LoggedWrite], position: int, channel: int) -> str:
    """Layer, tensor and element of a word of the concatenated log."""
    ends = np.cumsum([w.addresses.size for w in log])
    number = int(np.searchsorted(ends, position, side="right"))
    written, inside = log[number], position - (int(ends[number - 1]) if number else 0)
    entry = piece.manifest["commands"][written.command.number]
    index = tuple(int(part) for part in np.unravel_index(inside, written.addresses.shape))
    where = _where(piece.manifest, written, entry["tensor"])
    if written.pixels is not None:  # conv or vector
        parts = _elements(written, written.pixels, entry, piece.config)
        shape = (*written.addresses.shape, piece.config.ci)
        element = [int(np.broadcast_to(part, shape)[(*index, channel)]) for part in parts]
        return f"{where}, element {element}"
    return f"{where}, {written.command}, block {index[0]}, run {index[1]}, word {index[2]}, channel {channel}"


def _where(manifest: ProgramManifest, written: LoggedWrite, tensor: str | None) -> str:
    layer = manifest["commands"][written.command.number]["layer"]
    return f"layer {manifest['layers'][layer]['name']}, tensor {tensor or '(a copy)'}"
