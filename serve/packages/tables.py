"""The tables of a library of models, as C++ (cpp/packed.h declares them): what manifests and the register map say, as constants."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.run_wait import PROGRESS
from cnna.host.device.accelerator import MOST, run_limit
from cnna.host.model.answers import outputs_of
from cnna.host.model.flight import Route
from cnna.host.model.tails import Tail, tails
from cnna.host.native.tensors import Packing, described
from cnna.serve.models.signature import Tensor
from cnna.serve.models.version import Version
from cnna.spec.artifact import Artifact, load
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.errors import UserError
from cnna.spec.identity import SIZES, capability_words
from cnna.spec.manifest import Port
from cnna.spec.progress import counter_names
from cnna.spec.regmap import REGISTERS, SEGMENTS, offset

TYPES = {"float32": "CNNA_FLOAT32", "int8": "CNNA_INT8", "uint8": "CNNA_UINT8"}
UNSEEN = ("streams", "codebook")  # of a device that has more than the programs need
MOST_AXES = 8
ALIGNED = 64  # bytes, to which each member is


@dataclass
class Members:
    """The bytes that tables point to, one member after another."""

    data: bytearray = field(default_factory=bytearray)

    def span(self, more: bytes) -> str:
        """Appends a member, and says where it is, as C++."""
        self.data += bytes(-len(self.data) % ALIGNED)
        at = len(self.data)
        self.data += more
        return f"{{{at}, {len(more)}}}"


def models_text(versions: Sequence[Version], config: str, members: Members) -> str:
    """The tables of the models, whose bytes are added to the members. UserError: one needs more than the library can do."""
    parts, entries = [], []
    for number, version in enumerate(versions):
        text, entry = _model(f"model{number}", version, config, members)
        parts.append(text)
        entries.append(entry)
    return "\n".join([*parts, f"const int64_t MODELS = {len(entries)};", f"const Model inside[] = {{{', '.join(entries)}}};"])


def registers_text(config: Config) -> str:
    """The register map, and what the capability registers of an accelerator for the programs hold."""
    words, found = capability_words(config), []
    for name in ("ID", *SIZES):
        unseen = REGISTERS[name].pack(**{f.name: (1 << f.bits) - 1 for f in REGISTERS[name].fields if f.name in UNSEEN})
        mask = ~unseen & MOST
        found.append(f"{{{offset(name)}, {mask}u, {words[name] & mask}u}}")
    counters = [str(offset(name)) for name in counter_names(config.ports)]
    numbers = {
        "program_low": offset("PROG_BASE_LO"),
        "program_count": offset("PROG_COUNT"),
        "run_limit": offset("RUN_LIMIT"),
        "ctrl": offset("CTRL"),
        "start": REGISTERS["CTRL"].pack(start=1, irq_enable=1),
        "soft_reset": REGISTERS["CTRL"].pack(soft_reset=1),
        "status": offset("STATUS"),
        "done": REGISTERS["STATUS"].pack(done=1),
        "error": REGISTERS["STATUS"].pack(error=1),
    }
    return "\n".join(
        [
            *(f"const uint32_t {name} = {value};" for name, value in numbers.items()),
            *_array("Word", "capabilities", found, "CAPABILITIES"),
            *_array("uint32_t", "counters", counters, "COUNTERS"),
            *_array("uint32_t", "progress", map(str, PROGRESS), "PROGRESS"),
            *_array("uint32_t", "low", (str(offset(f"SEG_{name.upper()}_LO")) for name in SEGMENTS)),
            *_array("uint32_t", "size", (str(offset(f"SEG_{name.upper()}_BYTES")) for name in SEGMENTS)),
        ]
    )


def _array(kind: str, name: str, values: Iterable[str], count: str | None = None) -> list[str]:
    found = list(values)
    return [*([f"const int64_t {count} = {len(found)};"] if count else []), f"const {kind} {name}[] = {{{', '.join(found)}}};"]


def _model(name: str, version: Version, config: str, members: Members) -> tuple[str, str]:
    """The tables of a model, and its entry, as C++."""
    signature = version.signature
    where = f"{version.model}, version {version.name}"
    if signature.detects:
        raise UserError(
            f"{where}: answers boxes, which a library does not find; use --as service, or publish it without --detector"
        )
    if config not in version.compiled:
        raise UserError(
            f"{where}: was compiled for {', '.join(version.compiled)}, not for {config}: publish it with --config {config}"
        )
    lines, programs, pictures = [], [], False
    for number, compiled in enumerate(version.compiled[config]):
        own = f"{name}_{number}"
        route, found = _route(load(compiled.path), version)
        packings = [route.inputs.packing(port) for port in route.programs[0].manifest["inputs"]]
        pictures = len(packings) == 1 and packings[0].table is not None
        lines += _ports(own, packings, route, found, members)
        programs.append(_program(own, route, members))
    lines += _array("Program", f"{name}_programs", programs)
    lines += _array("cnna_models_tensor", f"{name}_inputs", (_tensor(one, where) for one in signature.inputs))
    lines += _array("cnna_models_tensor", f"{name}_outputs", (_tensor(one, where) for one in signature.outputs))
    golden = _golden(name, version, members, lines)
    counts = f"{len(signature.inputs)}, {len(signature.outputs)}, {int(pictures)}"
    entry = f"{{{_text(version.model)}, {_text(version.name)}, {counts}, {name}_inputs, {name}_outputs}}"
    return "\n".join(lines), f"{{{entry}, {len(programs)}, {name}_programs, {golden}}}"


def _route(artifact: Artifact, version: Version) -> tuple[Route, list[Tail]]:
    """The pieces of an artifact, and what becomes of its output ports. UserError: the run loop cannot complete it alone."""
    route, by_name = Route(artifact), {output.name: output for output in outputs_of(artifact.manifest)}
    found = tails(route, [by_name[tensor.name] for tensor in version.signature.outputs])
    names = [port["name"] for port in route.programs[0].manifest["inputs"]] if route.programs else []
    if found is None or names != [entry["name"] for entry in artifact.manifest["model_inputs"]]:
        raise UserError(
            f"{version.model}, version {version.name}: needs more than a run of the accelerator with views and softmax behind it; "
            "use --as service, whose host runs pieces on the CPU too"
        )
    return route, found


def _ports(own: str, packings: Sequence[Packing], route: Route, found: Sequence[Tail], members: Members) -> list[str]:
    """The tables of a program's ports."""
    manifest, ci = route.programs[0].manifest, route.programs[0].config.ci
    given = [_port(packing.port, ci, packing.table, members) for packing in packings]
    taken = [_port(port, ci, None, members) for port in manifest["outputs"]]
    by_port = {tail.port: f"{{{number}, {tail.softmax}}}" for number, tail in enumerate(found)}
    return [
        *_array("Port", f"{own}_in", given),
        *_array("Port", f"{own}_out", taken),
        *_array("Tail", f"{own}_tails", (by_port[port] for port in range(len(taken)))),
    ]


def _port(port: Port, ci: int, table: NDArray[np.int8] | None, members: Members) -> str:
    how = described(port, ci)
    sizes = ", ".join(map(str, (how.ci, how.image_bytes, how.block_bytes, how.row_bytes)))
    lists = ", ".join(f"{{{', '.join(map(str, one))}}}" for one in (how.folded, how.step, how.span, how.before))
    span = "{0, 0}" if table is None else members.span(table.tobytes())
    scale = f"{float(how.scale).hex()}f"
    return f"{{{{{sizes}, {lists}, {how.zero}, {scale}}}, {port['offset']}, {', '.join(map(str, port['shape']))}, {span}}}"


def _program(own: str, route: Route, members: Members) -> str:
    piece = route.programs[0]
    segments = piece.manifest["segments"]
    beats = (max(1, -(-segments[name] // BEAT_BYTES)) for name in SEGMENTS)
    limit = run_limit(piece, piece.predicted_for)
    sizes = f"{{{', '.join(str(beat * BEAT_BYTES) for beat in beats)}}}"
    spans = f"{members.span(piece.constants)}, {members.span(piece.program)}"
    return f"{{{piece.manifest['batch']}, {sizes}, {spans}, {limit if limit <= MOST else 0}u, {own}_in, {own}_out, {own}_tails}}"


def _tensor(tensor: Tensor, where: str) -> str:
    """UserError: the library has no such type, or so many axes."""
    shape = [size or 1 for size in tensor.shape]
    shape = [tensor.rows * shape[0], *shape[1:]] if shape and tensor.rows != 1 else shape
    if tensor.dtype not in TYPES or len(shape) > MOST_AXES:
        raise UserError(f"{where}: {tensor.name} is {tensor.dtype} {shape}, which a library does not take; use --as service")
    sizes = f"{{{', '.join(map(str, shape))}}}"
    return f"{{{_text(tensor.name)}, {TYPES[tensor.dtype]}, {len(shape)}, {prod(shape)}, {sizes}}}"


def _golden(name: str, version: Version, members: Members, lines: list[str]) -> str:
    """The tables of the golden answers, if there are some."""
    golden, signature = version.golden, version.signature
    if golden is None:
        return "{0, nullptr, nullptr, nullptr}"
    for tensor in signature.inputs:
        if golden.inputs[tensor.name].dtype != tensor.dtype:
            raise UserError(
                f"{version.model}, version {version.name}: its golden samples are pictures; publish it again with --input"
            )
    lines += _array("Span", f"{name}_given", _spans(golden.inputs, [one.name for one in signature.inputs], members))
    lines += _array("Span", f"{name}_wanted", _spans(golden.outputs, [one.name for one in signature.outputs], members))
    lines += _array("bool", f"{name}_exact", (str(one.exact).lower() for one in signature.outputs))
    return f"{{{golden.samples}, {name}_given, {name}_wanted, {name}_exact}}"


def _spans(arrays: Mapping[str, NDArray[Any]], names: Sequence[str], members: Members) -> list[str]:
    return [members.span(np.ascontiguousarray(arrays[name]).tobytes()) for name in names]


def _text(text: str) -> str:
    """A C string: octal, since a digit behind `\\x` would be read as a part of it."""
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode()) + '"'
