"""Whether the parts of a `.cnna` agree: segments, ports, tensors, commands, CPU parts and what the model takes and gives.

`manifest` has looked at each entry alone; here they are held against each other and the program, once, so that no reader has
to. A new entry of the manifest that others refer to gets its check here. It is read on boards.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from cnna.spec.commands import Table, UnsoundError
from cnna.spec.config import Config
from cnna.spec.cpu_ops import makes
from cnna.spec.manifest import PREDICTED_SINCE, TRACED, Fold, Manifest, ModelInput, ModelOutput, Port
from cnna.spec.program import checked
from cnna.spec.regmap import ENGINES, SEGMENTS


def check(manifest: Manifest, config: Config, contents: Mapping[str, bytes]) -> None:
    """UnsoundError: the first thing that does not agree. contents: the archive's members but the manifest."""
    program = contents["program.bin"]
    _need(len(program) == 8 * manifest["program_writes"] >= 8, f"program.bin is not {manifest['program_writes']} writes of 8 bytes")
    _check_predicted(manifest)
    _check_segments(manifest, contents)
    _check_ports(manifest, config)
    _check_ends(manifest, contents)
    _check_preprocess(manifest)
    tables = checked(program, config, manifest["segments"])
    _check_commands(manifest, tables, config)


def _need(true: bool, what: str) -> None:
    if not true:
        raise UnsoundError(what)


def _check_predicted(manifest: Manifest) -> None:
    """Predicted clocks are there of all, which add up, or, in an older file, of the layers alone."""
    stored = "predicted" in manifest
    _need(stored or manifest["schema"] < PREDICTED_SINCE, "manifest.json has no proper 'predicted'")
    _need(all(("predicted" in command) is stored for command in manifest["commands"]), "some commands have no predicted clocks")
    clocks = sum(layer["predicted_cycles"] for layer in manifest["layers"])
    _need(not stored or manifest["predicted"]["cycles"] == clocks, "its layers' predicted clocks do not add up to the whole's")


def _check_segments(manifest: Manifest, contents: Mapping[str, bytes]) -> None:
    segments = manifest["segments"]
    _need(set(segments) == set(SEGMENTS), f"segments are not {', '.join(SEGMENTS)}")
    _need(all(size < 1 << 32 for size in segments.values()), "a segment has no proper size")
    _need(len(contents["constants.bin"]) == segments["constant"], f"constants.bin is not {segments['constant']} bytes")
    for part, operators in (("head", manifest["cpu_head"]), ("tail", manifest["cpu_tail"])):
        _need(bool(operators) == (f"{part}.onnx" in contents), f"cpu_{part} and {part}.onnx disagree")


# --- ports ---


def _check_ports(manifest: Manifest, config: Config) -> None:
    """Each port lies in its segment, no two of its rows overlap, and no two ports have one name."""
    named: tuple[tuple[str, Sequence[Port | ModelInput | ModelOutput]], ...] = (
        ("inputs", manifest["inputs"]),
        ("outputs", manifest["outputs"]),
        ("model_inputs", manifest["model_inputs"]),
        ("model_outputs", manifest["model_outputs"]),
    )
    for kind, entries in named:
        names = [entry["name"] for entry in entries]
        _need(len(names) == len(set(names)), f"two of its {kind} have one name")
        _need(bool(names), f"it has no {kind}")
    for kind, ports in (("inputs", manifest["inputs"]), ("outputs", manifest["outputs"])):
        for port in ports:
            _need(port["segment"] in SEGMENTS, f"port {port['name']} lies in no segment")
            end = port["offset"] + manifest["batch"] * port["image_bytes"]
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


def _sound_fold(fold: Fold, channels: int) -> bool:
    """Whether the numbers of a fold are possible, of an input with so many channels."""
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


def _check_ends(manifest: Manifest, contents: Mapping[str, bytes]) -> None:
    """Every tensor that a port, an operator on the CPU or the user asks for is made by something before it."""
    head, tail = manifest["cpu_head"], manifest["cpu_tail"]
    given = {entry["name"]: entry["shape"] for entry in manifest["model_inputs"]}
    for port in manifest["inputs"]:
        _need(port["name"] in {*given, *makes(head)}, f"the name of port {port['name']} is that of no input")
        shape = given.get(port["name"]) if port["name"] not in makes(head) else None
        sizes = [size for size in shape or () if size is not None]
        fits = shape is None or len(sizes) < len(shape) or prod(sizes) == prod(port["shape"])
        _need(fits, f"port {port['name']} has another size than the model's input")
    made = {*given, *makes(head), *(port["name"] for port in manifest["outputs"]), *makes(tail)}
    for entry in manifest["model_outputs"]:
        _need(entry["name"] in made, f"nothing makes the model's output {entry['name']}")
        axis = entry.get("batch_axis", -1) if manifest["schema"] >= TRACED else None
        sound = axis is None or 0 <= axis < len(entry["shape"] or ())
        _need(sound, f"output {entry['name']} has no proper 'batch_axis'")


def _check_preprocess(manifest: Manifest) -> None:
    """A mean and a deviation for all channels, or for each of every input."""
    preprocess = manifest["preprocess"]
    if preprocess is None:
        return
    with np.errstate(over="ignore"):
        numbers = np.array([preprocess["scale"], *preprocess["mean"], *preprocess["std"]], np.float32)
        divisors = np.array([preprocess["scale"], *preprocess["std"]], np.float32)
    _need(bool(np.isfinite(numbers).all() and divisors.all()), "preprocess has a number that float32 cannot use")
    for key in ("mean", "std"):
        for entry in manifest["model_inputs"]:
            fits = len(preprocess[key]) in (1, *entry["shape"][:1])
            _need(fits, f"preprocess has {len(preprocess[key])} numbers as {key} for the channels of input {entry['name']}")


# --- commands ---


def _check_commands(manifest: Manifest, tables: Mapping[str, Table], config: Config) -> None:
    """The list of commands is the program's, and what each writes lies in its tensor."""
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
                limits = (manifest["batch"], *manifest["tensors"][command["tensor"]]["shape"])
                _need(_inside(table, row, command["origin"], limits, config), f"commands[{number}] writes outside its tensor")


def _inside(table: Table, row: int, origin: Sequence[int], limits: Sequence[int], config: Config) -> bool:
    """Whether a command's pixels are those of a tensor [N, C, H, W]; channels beyond its last are not."""
    sizes = [int(table.f[name][row]) for name in ("images", "out_height", "out_width")]
    image, block, y, x = origin
    images, channels, height, width = limits
    return image + sizes[0] <= images and block * config.ci < channels and y + sizes[1] <= height and x + sizes[2] <= width
