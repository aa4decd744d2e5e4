"""`cnna.compile`: a quantised model becomes an artifact for one configuration of the accelerator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnna.jobs.detector import check_wanted, detector_figures, detector_lines, detector_of, with_heads
from cnna.jobs.given import GivenModel, Progress, Shapes, Warn, Warnings, name_of, native_host, quiet, shaped, with_tools
from cnna.jobs.options.configurations import GivenConfig, config_of
from cnna.jobs.result import ASIDE, Result
from cnna.spec.artifact import Artifact, CpuPiece, save, stored_model
from cnna.spec.artifact import load as read
from cnna.spec.boards import described
from cnna.spec.checks.archive import is_archive
from cnna.spec.config import Config
from cnna.spec.counts import counted, many
from cnna.spec.errors import UserError, about_model
from cnna.spec.files import check_outputs, make_folder, read_bytes
from cnna.spec.host_time.end_to_end import EndToEnd, end_to_end
from cnna.spec.manifest import ACCELERATOR, CpuEntry, pieces_text

if TYPE_CHECKING:
    from cnna.compiler.compile import Choices
    from cnna.host.model.session import InferenceSession

SHOWN = 5e-4  # of the multiply-accumulates, below which a share would be shown as 0.0 %


@dataclass(frozen=True, eq=False, kw_only=True)
class Compiled(Result):
    """A compiled model and its figures. MACs are of an image; clocks and seconds of what is predicted are of a batch.

    output: where it was written. activation_bytes: at a time (`alive`), and with a buffer for each tensor (`separate`).
    cpu_operators: of the pieces on the CPU; numpy_suffices: without onnxruntime. artifact: the compiled model itself. notes: the
    lines that `warn` got. detector: what is known of a detector's heads, if they were looked for and found.
    """

    output: Path | None
    config: str
    detector: Mapping[str, Any] | None
    clock_mhz: int
    batch: int
    macs: int
    cpu_macs: int
    layers: int
    program_writes: int
    constant_bytes: int
    workspace_bytes: int
    activation_bytes: Mapping[str, int]
    predicted_cycles: int
    coded_layers: Sequence[str]
    pieces: Sequence[str]
    cpu_operators: Sequence[str]
    cpu_seconds: float
    numpy_suffices: bool
    predicted_end_to_end: EndToEnd
    artifact: Artifact = field(metadata=ASIDE)
    notes: tuple[str, ...] = field(default=(), metadata=ASIDE)

    @property
    def on_cpu(self) -> str | None:
        """One line if the CPU multiplies or does everything, which a user may not expect."""
        return cpu_warning(self.figures())

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the artifact whole, or not at all. UserError: it cannot be written."""
        save(self.artifact, path)
        return Path(path)

    def session(self, device: Any = "emulator", *, check: bool = False, **options: Any) -> "InferenceSession":
        """The model on a device: `cnna.InferenceSession` with these arguments."""
        from cnna.host.model.session import InferenceSession

        return InferenceSession(self.artifact, device, check=check, **options)

    def __str__(self) -> str:
        lines = [
            f"{self.output or self.artifact.manifest['name']}: {many(self.layers, 'layer')} for {described(self.artifact.config)}, "
            f"{self.macs:,} MACs an image, {self.program_writes:,} register writes, {self.constant_bytes:,} bytes of constants"
        ]
        if self.artifact.programs:
            alive, separate = (self.activation_bytes[name] for name in ("alive", "separate"))
            share = f", {1 - alive / separate:.1%} less than a buffer a tensor ({separate:,})" if alive < separate else ""
            lines.append(f"activations: {alive:,} bytes at a time{share}; {self.workspace_bytes:,} bytes of workspace in DDR")
        if self.coded_layers:
            lines.append(f"weights come as codes of 4 bits in {', '.join(self.coded_layers)}")
        if cpu_entries(self.artifact):
            lines += cpu_lines(self.figures())
        return "\n".join([*lines, *detector_lines(self.artifact), str(self.predicted_end_to_end)])


@with_tools
def compile(  # as the command is called, whatever Python calls so
    model: "GivenModel | Artifact | Compiled",
    config: GivenConfig | None = None,
    *,
    batch: int | None = None,
    cpu: bool = True,
    shapes: Shapes | None = None,
    detector: str | None = None,
    output: str | PathLike[str] | None = None,
    dump: str | PathLike[str] | None = None,
    choices: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> Compiled:
    """Compiles a quantised model, or anew the model in a .cnna.

    model: a path, the bytes of an ONNX file, or an `onnx.ModelProto`, quantised; or a .cnna by its path, or compiled already.
    config: as of `config_of`; batch: images in one run. Both may be left out for a .cnna, which says them; else a batch is 1.
    detector: "auto" finds a detector's heads, for `cnna.Detector`; None: those that a .cnna has. cpu: whether the CPU may work
    between layers and multiply. output: where to write the artifact. dump: a folder for the graph after every pass. choices: a
    file of choices of the plan, such as `search_choices` writes. UserError: nothing says the configuration, or a file cannot be
    used. ModelError: the model cannot be read or compiled. Nothing is written unless all has gone well.
    """
    tell, warnings = progress or quiet, Warnings(warn)
    check_wanted(detector)
    name, source, chosen, images, heads = _wanted(model, config, batch)
    if output is not None:
        check_outputs({"output": Path(output)}, ())
    if dump is not None:
        make_folder(Path(dump))
    from cnna.compiler.compile import compile_model

    with about_model(name):
        tell(0, 0, f"compiling for {chosen.name}")
        known = shaped(source, shapes, warnings, name)
        folder = None if dump is None else Path(dump)
        given = None if choices is None else given_choices(choices, chosen, images)
        made = compile_model(known, chosen, batch=images, dump=folder, cpu=cpu, count=tell, choices=given)
        made = with_heads(made, detector or heads, warnings)
    if output is not None:
        save(made, output)
    return compiled(made, None if output is None else Path(output), warnings.lines)


@with_tools
def load(path: str | PathLike[str] | bytes) -> Compiled:
    """What a .cnna holds, with its figures. path: the file, or its content. ArtifactError: it cannot be read, or is not sound."""
    return compiled(read(path), None if isinstance(path, bytes) else Path(path))


def compiled(artifact: Artifact, output: Path | None = None, notes: tuple[str, ...] = ()) -> Compiled:
    """An artifact with its figures."""
    return Compiled(**values_of(artifact, output), notes=notes)


def values_of(artifact: Artifact, output: Path | None) -> dict[str, Any]:
    """The fields of a `Compiled`, by name."""
    from cnna.compiler.report.report import coded_layers

    cpu, manifest, programs = cpu_entries(artifact), artifact.manifest, artifact.programs
    activations = [program.manifest["activation_bytes"] for program in programs]
    return {
        "output": output,
        "config": artifact.config.name,
        "detector": detector_figures(artifact),
        "clock_mhz": artifact.config.clock_mhz,
        "batch": manifest["batch"],
        "macs": manifest["macs"],
        "cpu_macs": manifest["cpu_macs"],
        "layers": sum(len(program.manifest["layers"]) for program in programs),
        "program_writes": sum(program.manifest["program_writes"] for program in programs),
        "constant_bytes": sum(len(program.constants) for program in programs),
        "workspace_bytes": sum(program.manifest["segments"]["workspace"] for program in programs),
        "activation_bytes": {key: max((entry[key] for entry in activations), default=0) for key in ("alive", "separate")},
        "predicted_cycles": artifact.predicted_clocks(),
        "coded_layers": coded_layers(artifact),
        "pieces": [piece.manifest["kind"] for piece in artifact.pieces],
        "cpu_operators": [node["op"] for entry in cpu for node in entry["operators"]],
        "cpu_seconds": sum(entry["seconds"] for entry in cpu),
        "numpy_suffices": all(entry["numpy"] for entry in cpu),
        "predicted_end_to_end": predicted(artifact),
        "artifact": artifact,
    }


def _wanted(
    model: "GivenModel | Artifact | Compiled", config: GivenConfig | None, batch: int | None
) -> tuple[str, GivenModel, Config, int, str | None]:
    """What errors call the model, the model, and what it is compiled for; what was not said is as in a .cnna.

    The last is the detector that a .cnna is. UserError: a model without a configuration. ArtifactError: as of
    `stored_model`.
    """
    chosen = None if config is None else config_of(config)
    known = model.artifact if isinstance(model, Compiled) else model
    if isinstance(known, Artifact):
        own = known.manifest["batch"] if batch is None else batch
        return known.manifest["name"], known.model, chosen or known.config, own, detector_of(known)
    name = name_of(known)
    if isinstance(known, str | PathLike) and is_archive(Path(known)):
        stored = stored_model(Path(known))
        return name, stored.model, chosen or stored.config, stored.batch if batch is None else batch, stored.detector
    if chosen is None:
        raise missing(name, "--config C")
    return name, known, chosen, 1 if batch is None else batch, None


def given_choices(path: str | PathLike[str], config: Config, batch: int) -> "Choices":
    """The choices in a file. UserError: it is none, or it was made for another configuration or batch."""
    from cnna.compiler.compile import choices_of

    found = choices_of(read_bytes(Path(path)), fspath(path))
    if found.config not in (None, config.name):
        raise UserError(
            f"{fspath(path)}: these choices are for {found.config}, not for {config.name}; leave out its config to try them"
        )
    if found.batch not in (None, batch):
        raise UserError(f"{fspath(path)}: these choices are for a batch of {found.batch}; give --batch {found.batch}")
    return found


def missing(name: str, what: str) -> UserError:
    """The error for a model that comes without what only a .cnna says itself."""
    return UserError(f"{name}: give {what} too; only a .cnna says itself for what it is compiled (see cnna compile --help)")


def predicted(artifact: Artifact) -> EndToEnd:
    """The predicted time of a batch from picture to answer."""
    manifest = artifact.manifest
    return end_to_end(manifest["pieces"], artifact.predicted_clocks(), artifact.config.clock_mhz, manifest["batch"], native_host())


def cpu_entries(artifact: Artifact) -> list[CpuEntry]:
    """The manifest's entries of the pieces on the CPU."""
    return [piece.manifest for piece in artifact.pieces if isinstance(piece, CpuPiece)]


def cpu_lines(figures: Mapping[str, Any]) -> list[str]:
    """What runs on the CPU, in lines. figures: of a `Compiled`."""
    needs = "numpy is enough for it" if figures["numpy_suffices"] else "it needs onnxruntime"
    milliseconds = figures["cpu_seconds"] * 1e3
    return [
        f"{pieces_text(figures['pieces'])}, where {needs} and {milliseconds:.2g} ms an image are predicted",
        f"on the CPU: {counted(figures['cpu_operators'])}",
    ]


def cpu_warning(figures: Mapping[str, Any]) -> str | None:
    """A line if the CPU multiplies, or if it does everything, which the user may not expect. figures: of a `Compiled`."""
    count = figures["pieces"].count(ACCELERATOR)
    why = _at_run(figures["cpu_operators"]) or "cnna explain says why"
    share = figures["cpu_macs"] / max(figures["cpu_macs"] + figures["macs"], 1)
    if share >= SHOWN:
        what = "all of the model runs" if not count else f"{share:.1%} of the multiply-accumulates run"
        return f"{what} on the CPU: {figures['cpu_macs']:,} MACs an image; {why}"
    return f"all of the model runs on the CPU; {why}" if not count else None


def _at_run(operators: Sequence[str]) -> str | None:
    """Why nothing else is possible with a model that is quantised while it runs, and what is; None for other models."""
    from cnna.compiler.frontend.pieces.support import FLOAT_MODEL, WHOLE_NUMBERS

    own = [name for name in dict.fromkeys(operators) if name.rpartition(".")[2] in WHOLE_NUMBERS]
    return f"it is quantised while it runs ({', '.join(own)}): {FLOAT_MODEL}" if own else None
