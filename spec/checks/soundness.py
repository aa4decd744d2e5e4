"""Checks that the parts of a `.cnna` agree: segments, ports, tensors, commands, CPU parts, and the model's inputs and outputs.

`manifest` has looked at each entry alone. Here they are compared with each other and with the program, once, so that no reader
has to. A new entry of the manifest to which others refer gets its check here. Boards use this module.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from cnna.spec.checks.program import checked
from cnna.spec.config import Config
from cnna.spec.cpu_ops import makes
from cnna.spec.errors import ModelError
from cnna.spec.manifest import (
    CPU,
    PREDICTED_SINCE,
    TRACED,
    FoldEntry,
    Manifest,
    ModelInput,
    ModelOutput,
    Port,
    ProgramEntry,
    StoredManifest,
)
from cnna.spec.program.commands import CommandTable, UnsoundError
from cnna.spec.regmap import ENGINES, SEGMENTS
from cnna.spec.samples.preprocess import channels_of, from_entry

Shape = Sequence[int | None]


def check(manifest: StoredManifest, config: Config, contents: Mapping[str, bytes]) -> None:
    """UnsoundError: the first parts that do not agree. contents: the archive's members except the manifest."""
    _check_names((("model_inputs", manifest["model_inputs"]), ("model_outputs", manifest["model_outputs"])))
    _need(bool(manifest["pieces"]), "it has no pieces")
    known: dict[str, Shape | None] = {entry["name"]: entry["shape"] for entry in manifest["model_inputs"]}
    for number, entry in enumerate(manifest["pieces"]):
        if entry["kind"] == CPU:
            known |= dict.fromkeys(makes(entry["operators"]))
            continue
        program, constants = (contents[f"piece{number}.{name}"] for name in ("program.bin", "constants.bin"))
        _check_program(entry, manifest, config, program, constants)
        _check_given(entry, known)
        known |= {port["name"]: None for port in entry["outputs"]}
    _check_model_outputs(manifest, known)
    _check_preprocess(manifest)


def _check_program(piece: ProgramEntry, manifest: StoredManifest, config: Config, program: bytes, constants: bytes) -> None:
    """Checks one piece on the accelerator: its entry agrees with itself and with its files."""
    _need(len(program) == 8 * piece["program_writes"] >= 8, f"program.bin is not {piece['program_writes']} writes of 8 bytes")
    _check_predicted(piece, manifest["schema"])
    _check_segments(piece, constants)
    _check_ports(piece, manifest["batch"], config)
    tables = checked(program, config, piece["segments"])
    _check_commands(piece, tables, manifest["batch"], config)


def _need(true: bool, what: str) -> None:
    if not true:
        raise UnsoundError(what)


def _check_predicted(manifest: ProgramEntry, schema: int) -> None:
    """Checks the predicted clocks: all are there and add up or, in an older file, only the layers have them."""
    stored = "predicted" in manifest
    _need(stored or schema < PREDICTED_SINCE, "manifest.json has no proper 'predicted'")
    _need(all(("predicted" in command) is stored for command in manifest["commands"]), "some commands have no predicted clocks")
    clocks = sum(layer["predicted_cycles"] for layer in manifest["layers"])
    _need(not stored or manifest["predicted"]["cycles"] == clocks, "its layers' predicted clocks do not add up to the whole's")


def _check_segments(manifest: ProgramEntry, constants: bytes) -> None:
    segments = manifest["segments"]
    _need(set(segments) == set(SEGMENTS), f"segments are not {', '.join(SEGMENTS)}")
    _need(all(size < 1 << 32 for size in segments.values()), "a segment has no proper size")
    _need(len(constants) == segments["constant"], f"constants.bin is not {segments['constant']} bytes")


# --- ports ---


def _check_names(named: Sequence[tuple[str, Sequence[Port | ModelInput | ModelOutput]]]) -> None:
    """Checks the names: there is at least one of each kind, and no two of a kind are equal."""
    for kind, entries in named:
        names = [entry["name"] for entry in entries]
        _need(len(names) == len(set(names)), f"two of its {kind} have one name")
        _need(bool(names), f"it has no {kind}")


def _check_ports(manifest: ProgramEntry, batch: int, config: Config) -> None:
    """Checks that each port lies in its segment, that no two of its rows overlap, and that no two ports have the same name."""
    ends = (("inputs", manifest["inputs"]), ("outputs", manifest["outputs"]))
    _check_names(ends)
    for kind, ports in ends:
        for port in ports:
            _need(port["segment"] in SEGMENTS, f"port {port['name']} lies in no segment")
            end = port["offset"] + batch * port["image_bytes"]
            _need(end <= manifest["segments"][port["segment"]], f"port {port['name']} ends beyond its segment")
            tensor = manifest["tensors"].get(port["tensor"], port)
            _need(tensor["shape"] == port["shape"], f"port {port['name']} has another shape than its tensor")
            fold = port.get("fold")
            _need(
                fold is None or (kind == "inputs" and _sound_fold(fold, port["shape"][0])),
                f"port {port['name']} has no proper 'fold'",
            )
            shape = fold["shape"] if fold else port["shape"]
            _need(_sound_layout(port, shape, config.ci), f"the bytes of port {port['name']} overlap")


def _sound_layout(port: Port, shape: Sequence[int], ci: int) -> bool:
    """Whether rows, blocks and images of that shape have room beside each other."""
    channels, height, width = shape
    rows = (height - 1) * port["row_bytes"] + width * ci
    return (
        (height == 1 or width * ci <= port["row_bytes"])
        and (channels <= ci or rows <= port["block_bytes"])
        and (-(-channels // ci) - 1) * port["block_bytes"] + rows <= port["image_bytes"]
    )


def _sound_fold(fold: FoldEntry, channels: int) -> bool:
    """Whether the numbers of a fold are possible for an input with so many channels."""
    pairs = [fold["step"], fold["span"], fold["before"]]
    numbers = [number for part in (fold["shape"], *pairs) for number in part]
    whole = all(type(number) is int and 0 <= number < 1 << 16 for number in numbers)
    sizes = len(fold["shape"]) == 3 and all(len(pair) == 2 for pair in pairs)
    return (
        whole
        and sizes
        and min(*fold["shape"], *fold["step"], *fold["span"]) > 0
        and (fold["shape"][0] == channels * fold["span"][0] * fold["span"][1])
    )


# --- the model's ends ---


def _check_given(piece: ProgramEntry, known: Mapping[str, Shape | None]) -> None:
    """Checks that every input of a program is known before it runs. known: name to shape, as far as the shape is known."""
    for port in piece["inputs"]:
        _need(port["name"] in known, f"the name of port {port['name']} is that of no input")
        shape = known[port["name"]]
        sizes = [size for size in shape or () if size is not None]
        fits = shape is None or len(sizes) < len(shape) or prod(sizes) == prod(port["shape"])
        _need(fits, f"port {port['name']} has another size than the model's input")


def _check_model_outputs(manifest: StoredManifest, known: Mapping[str, Shape | None]) -> None:
    """Checks that something makes every output that the user asks for, and that its batch lies in one of its axes."""
    for entry in manifest["model_outputs"]:
        _need(entry["name"] in known, f"nothing makes the model's output {entry['name']}")
        axis = entry.get("batch_axis", -1) if manifest["schema"] >= TRACED else None
        sound = axis is None or 0 <= axis < len(entry["shape"] or ())
        _need(sound, f"output {entry['name']} has no proper 'batch_axis'")


def _check_preprocess(manifest: Manifest) -> None:
    """Checks that a mean and a deviation serve all channels, or that there is one for each channel of every input."""
    preprocess = manifest["preprocess"]
    if preprocess is None:
        return
    with np.errstate(over="ignore"):
        numbers = np.array([preprocess["scale"], *preprocess["mean"], *preprocess["std"]], np.float32)
        divisors = np.array([preprocess["scale"], *preprocess["std"]], np.float32)
    _need(bool(np.isfinite(numbers).all() and divisors.all()), "preprocess has a number that float32 cannot use")
    try:
        how = from_entry(preprocess, "preprocess", strict=False)
    except ModelError as error:
        raise UnsoundError(str(error)) from None
    for key in ("mean", "std"):
        for entry in manifest["model_inputs"]:
            fits = len(preprocess[key]) in (1, channels_of(entry["shape"], how.layout))
            _need(fits, f"preprocess has {len(preprocess[key])} numbers as {key} for the channels of input {entry['name']}")


# --- commands ---


def _check_commands(manifest: ProgramEntry, tables: Mapping[str, CommandTable], batch: int, config: Config) -> None:
    """Checks that the list of commands is the program's, and that each command writes inside its tensor."""
    listed, queued = manifest["commands"], sum(len(table.numbers) for table in tables.values())
    _need(queued == len(listed), f"program.bin queues {queued} commands, but manifest.json lists {len(listed)}")
    tensors = {None, *manifest["tensors"]}
    for index, command in enumerate(listed):
        sound = command["layer"] < len(manifest["layers"]) and command["tensor"] in tensors
        _need(sound, f"commands[{index}] is of a layer or tensor that there is not")
    for engine in ENGINES:
        table = tables[engine]
        for row, number in enumerate(table.numbers):
            command = listed[number]
            _need(command["engine"] == engine, f"commands[{number}] is one of {engine} in program.bin")
            if command["tensor"] is not None and engine in ("conv", "vector"):
                limits = (batch, *manifest["tensors"][command["tensor"]]["shape"])
                _need(_inside(table, row, command["origin"], limits, config), f"commands[{number}] writes outside its tensor")


def _inside(table: CommandTable, row: int, origin: Sequence[int], limits: Sequence[int], config: Config) -> bool:
    """Whether a command's pixels are those of a tensor [N, C, H, W]; channels beyond its last do not count."""
    sizes = [int(table.f[name][row]) for name in ("images", "out_height", "out_width")]
    sizes[2] = int(table.f["window_columns"][row] if table.engine == "vector" else 0) or sizes[2]
    image, block, y, x = origin
    images, channels, height, width = limits
    return image + sizes[0] <= images and block * config.ci < channels and y + sizes[1] <= height and x + sizes[2] <= width
