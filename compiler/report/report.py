"""`cnna report`: what an artifact is predicted to cost and, with a run's figures, what it did cost.

`figures` makes one dict (the JSON form). `table` prints it, and `html` and `picture` show it; `trace` has the timeline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cnna.compiler.cost.cost import ddr_bytes
from cnna.compiler.cost.engine_steps import command_steps
from cnna.compiler.predict.timeline import Bar, busy, in_a_row, last_clock, layer_clocks, measured_bars, predicted_bars
from cnna.compiler.report.network import network
from cnna.compiler.report.over_time import ddr_over_time, memory_over_time
from cnna.spec.artifact import Artifact
from cnna.spec.boards import ddr_of, described
from cnna.spec.codebook import CODES
from cnna.spec.config import BEAT_BYTES, TAPS, Config
from cnna.spec.ddr import DdrSpeed
from cnna.spec.errors import DataError
from cnna.spec.host_time.detector_time import detector_end_to_end
from cnna.spec.host_time.end_to_end import end_to_end
from cnna.spec.host_time.piece_times import PieceTime, piece_times
from cnna.spec.manifest import ACCELERATOR, CPU, LayerEntry, Manifest, PieceEntry, ProgramEntry
from cnna.spec.metrics import REPORT_MHZ
from cnna.spec.program.commands import WRITE_BYTES, commands, go_writes
from cnna.spec.regmap import COUNTED, ENGINES, SEGMENTS

Figures = dict[str, Any]


def figures(
    artifact: Artifact, measured: Mapping[str, Any] | None = None, memory: DdrSpeed | None = None, native: bool = True
) -> Figures:
    """All figures of an artifact. measured: what `cnna run --json` wrote. DataError: it is of another artifact.

    memory: the DDR that is predicted for; None: the one of the configuration's board.

    All figures are of a whole batch. Names that begin with `predicted` come from the predictor; all others were measured or follow
    from the program. What was not measured is None. `memory` and `ddr` are predicted (`over_time`). A layer's `bound` is the engine
    that is predicted to work on it longest.
    """
    manifest, config = artifact.manifest, artifact.config
    memory = memory or ddr_of(config)
    if measured is not None:
        _check(artifact, measured)
    run = measured or {}
    programs, entries = artifact.programs, layers_of(artifact)
    bars = {
        "predicted": in_a_row((program, predicted_bars(program, memory)) for program in programs),
        "measured": bars_measured(artifact, run),
    }
    own = run.get("layers") or [{}] * len(entries)
    fetched = fetched_bytes(artifact)
    work = [{kind: _of_layer(found, number) for kind, found in bars.items()} for number in range(len(entries))]
    shares = layer_clocks(bars["predicted"] or [], len(entries))
    layers = [
        _layer(entry, fetched[number], shares[number], own[number], work[number], config.macs)
        for number, entry in enumerate(entries)
    ]
    return {
        "name": manifest["name"],
        "config": config.name,
        "described": described(config),
        "clock_mhz": config.clock_mhz,
        "board_ddr": ddr_of(config).entry(),
        "batch": manifest["batch"],
        "macs": manifest["macs"],
        "macs_per_cycle": config.macs,
        "vector_macs_per_cycle": TAPS * config.pix * config.ci,
        **_roof(memory, config),
        "cpu_macs": manifest["cpu_macs"],
        "program_writes": sum(program.manifest["program_writes"] for program in programs),
        "segments": {name: sum(program.manifest["segments"][name] for program in programs) for name in SEGMENTS},
        "coded_layers": coded_layers(artifact),
        "pieces": [_piece(entry) for entry in manifest["pieces"]],
        "piece_times": [asdict(time) for time in _times(artifact, bars["predicted"] or [], memory, native)],
        "device": run.get("device"),
        "predicted": _predicted(artifact, bars["predicted"] or [], memory, native),
        "to_boxes": _to_boxes(artifact, last_clock(bars["predicted"] or [])),
        "measured": _measured(manifest, run, config) if run.get("cycles") else None,
        "engines": _engines(artifact, bars),
        "layers": layers,
        "graph": network(artifact),
        "timeline": {kind: found and [_bar(bar) for bar in found] for kind, found in bars.items()},
        "feature_words": config.deck_words,
        "memory": memory_over_time(artifact, bars["predicted"] or []),
        "ddr": ddr_over_time(artifact, bars["predicted"] or []),
    }


def _roof(memory: DdrSpeed, config: Config) -> Figures:
    """The bytes that can come from and go to DDR in a clock, and what limits them: the memory, or the ports to it."""
    ports = BEAT_BYTES * config.ports
    limit = "DDR" if memory.bytes_per_cycle <= ports else "its port" if config.ports == 1 else f"its {config.ports} ports"
    return {"ddr_bytes_per_cycle": min(memory.bytes_per_cycle, ports), "ddr_limit": limit}


def layers_of(artifact: Artifact) -> list[LayerEntry]:
    """The layers of all programs."""
    return [entry for program in artifact.programs for entry in program.manifest["layers"]]


def fetched_bytes(artifact: Artifact) -> list[int]:
    """For each layer, the bytes of the program that hold its commands' writes, in whole beats, as a run counts them."""
    found: list[int] = []
    for program in artifact.programs:
        own, before = [0] * len(program.manifest["layers"]), 0
        ends = (go_writes(program.program) + 1) * WRITE_BYTES // BEAT_BYTES * BEAT_BYTES
        ends[-1:] = -(-len(program.program) // BEAT_BYTES) * BEAT_BYTES  # the END write is behind the last command
        for entry, end in zip(program.manifest["commands"], ends.tolist(), strict=True):
            own[entry["layer"]] += end - before
            before = end
        found += own
    return found


def coded_layers(artifact: Artifact) -> list[str]:
    """The names of the layers whose weights come as codes of 4 bits."""
    return [*dict.fromkeys(name for piece in artifact.programs for name in coded_in(piece.manifest, piece.program))]


def coded_in(entry: ProgramEntry, program: bytes) -> list[str]:
    """The same for one program and its entry."""
    coded = [c.number for c in commands(program) if c.engine == "weight" and c.f.code == CODES]
    return [*dict.fromkeys(entry["layers"][entry["commands"][number]["layer"]]["name"] for number in coded)]


def bars_measured(artifact: Artifact, run: Mapping[str, Any]) -> list[Bar] | None:
    """The measured bars of all programs; None where no timeline was measured. DataError: the timeline is of another program."""
    programs = run.get("programs") or ()
    measured = [(entry.get("unit_clocks"), entry.get("weight_clocks")) for entry in programs]
    if not measured or not all(units for units, _ in measured) or len(measured) != len(artifact.programs):
        return None
    return in_a_row((piece, measured_bars(piece, *clocks)) for piece, clocks in zip(artifact.programs, measured, strict=True))


def _piece(entry: PieceEntry) -> Figures:
    """One piece as one line: where it runs, and what is predicted."""
    if entry["kind"] == CPU:
        return {
            "kind": CPU,
            "operators": [node["op"] for node in entry["operators"]],
            "macs": entry["macs"],
            "seconds": entry["seconds"],
        }
    cycles = sum(layer["predicted_cycles"] for layer in entry["layers"])
    return {"kind": ACCELERATOR, "layers": len(entry["layers"]), "macs": entry["macs"], "cycles": cycles}


def _times(artifact: Artifact, bars: Sequence[Bar], memory: DdrSpeed, native: bool) -> tuple[PieceTime, ...]:
    """What each piece takes with that DDR. bars: of all programs."""
    programs = artifact.programs
    own = [last_clock(bars)] if len(programs) == 1 else [last_clock(predicted_bars(program, memory)) for program in programs]
    return piece_times(artifact.manifest["pieces"], artifact.config, artifact.manifest["batch"], own, native)


def _check(artifact: Artifact, measured: Mapping[str, Any]) -> None:
    """DataError: the figures are of another artifact, or are no figures."""
    manifest = artifact.manifest
    try:
        names = [layer["name"] for layer in measured["layers"]]
        run = (measured["config"], measured["batch"], names)
        _ = measured["cycles"], measured["device"]
    except (KeyError, TypeError) as error:
        raise DataError(f"the measured figures are not what `cnna run --json` writes ({error} is missing)") from None
    wanted = (manifest["config"]["name"], manifest["batch"], [layer["name"] for layer in layers_of(artifact)])
    for what, have, want in zip(("configuration is", "batch is", "layers are"), run, wanted, strict=True):
        if have != want:
            raise DataError(f"the measured figures are of another artifact: their {what} {_short(have)}, not {_short(want)}")


def _short(value: Any) -> str:
    """Shortens a long list of layer names."""
    return f"{len(value)} from {value[0]} to {value[-1]}" if isinstance(value, list) and len(value) > 3 else str(value)


def for_ddr(found: Figures) -> str:
    """Names the DDR of the prediction where it is not the board's."""
    ddr = DdrSpeed(**found["predicted"]["ddr"])
    return "" if ddr.entry() == found["board_ddr"] else f" for {ddr}"


def _total(manifest: Manifest, cycles: float, config: Config) -> Figures:
    batch, macs = manifest["batch"], manifest["macs"]
    return {
        "cycles": cycles,
        "mac_utilization": macs * batch / (cycles * config.macs) if cycles else None,
        "fps": batch * config.clock_mhz * 1e6 / cycles if cycles else None,
        "fps_at_300mhz": batch * REPORT_MHZ * 1e6 / cycles if cycles else None,
    }


def _predicted(artifact: Artifact, bars: Sequence[Bar], memory: DdrSpeed, native: bool) -> Figures:
    """Predicted figures of the whole artifact.

    `array`: clocks in which the array works, waits within a command, or has no command.
    """
    manifest, config = artifact.manifest, artifact.config
    cycles = last_clock(bars)
    played = [command for program in artifact.programs for command in commands(program.program)]
    steps = sum(command_steps("conv", vars(command.f), config).steps for command in played if command.engine == "conv")
    held = busy(bars)["conv"]
    return {
        **_total(manifest, cycles, config),
        **end_to_end(manifest["pieces"], cycles, config.clock_mhz, manifest["batch"], native).figures(),
        "ddr": memory.entry(),
        "ddr_read_bytes": sum(layer["ddr_read_bytes"] for layer in layers_of(artifact)) + sum(fetched_bytes(artifact)),
        "ddr_write_bytes": sum(layer["ddr_write_bytes"] for layer in layers_of(artifact)),
        "program_bytes": sum(fetched_bytes(artifact)),
        "array": {"works": steps, "waits": max(held - steps, 0), "idle": cycles - max(held, steps)},
    }


def _to_boxes(artifact: Artifact, cycles: int) -> Figures | None:
    """What is modelled of a detector whose boxes are decoded on integers; None: it is none, or nobody looked for its heads."""
    manifest = artifact.manifest
    if "detector" not in manifest:
        return None
    run = (manifest["pieces"], cycles, artifact.config.clock_mhz, manifest["batch"])
    return detector_end_to_end(manifest["detector"], *run).figures()


def _measured(manifest: Manifest, run: Mapping[str, Any], config: Config) -> Figures:
    """Measured figures of the whole artifact.

    `array`: clocks in which the array works, then the clocks of each cause of a stall.
    """
    stalls = run.get("stalls") or {}
    known = bool(stalls) and all(clocks is not None for clocks in stalls.values())
    return {
        **_total(manifest, run["cycles"], config),
        "fps_end_to_end": run.get("fps_end_to_end"),
        "ddr_read_bytes": run.get("ddr_read_bytes"),
        "ddr_write_bytes": run.get("ddr_write_bytes"),
        "array": {"works": run["cycles"] - sum(stalls.values()), **stalls} if known else None,
    }


def _of_layer(bars: Sequence[Bar] | None, layer: int) -> dict[str, int] | None:
    """Clocks that each engine works for a layer; idle engines are left out."""
    if bars is None:
        return None
    return {engine: clocks for engine, clocks in busy(bar for bar in bars if bar.layer == layer).items() if clocks}


def _engines(artifact: Artifact, bars: Mapping[str, Sequence[Bar] | None]) -> list[Figures]:
    """One entry for each engine. Its bytes are those that the program moves; the fetch of the program itself is not among them."""
    config = artifact.config
    work = busy(bars["predicted"] or ())
    run = busy(bars["measured"]) if bars["measured"] is not None else None
    seen = {bar.engine for bar in bars["measured"] or ()}
    cycles = {kind: max((bar.end for bar in found or ()), default=0) for kind, found in bars.items()}
    moved, counts = dict.fromkeys(ENGINES, 0), dict.fromkeys(ENGINES, 0)
    for command in (command for program in artifact.programs for command in commands(program.program)):
        counts[command.engine] += 1
        moved[command.engine] += ddr_bytes(command.engine, vars(command.f), config)
    found = []
    for engine in ENGINES:
        predicted = work[engine]
        own = run[engine] if run is not None and (engine in seen or engine in COUNTED) else None
        found.append(
            {
                "engine": engine,
                "commands": counts[engine],
                "macs": sum(layer["macs"] for layer in layers_of(artifact) if layer["engine"] == engine),
                "ddr_read_bytes": 0 if engine == "store" else moved[engine],
                "ddr_write_bytes": moved[engine] if engine == "store" else 0,
                "predicted_busy_cycles": predicted,
                "predicted_busy_share": predicted / cycles["predicted"] if cycles["predicted"] else None,
                "busy_cycles": own,
                "busy_share": own / cycles["measured"] if own is not None and cycles["measured"] else None,
            }
        )
    return found


def _layer(
    entry: LayerEntry,
    fetched: int,
    predicted: int,
    own: Mapping[str, Any],
    busy: Mapping[str, dict[str, int] | None],
    peak: int,
) -> Figures:
    work, array = busy["predicted"] or {}, entry["engine"] == "conv"
    return {
        "name": entry["name"],
        "op": entry["op"],
        "engine": entry["engine"],
        "macs": entry["macs"],
        "predicted_cycles": predicted,
        "predicted_mac_utilization": entry["macs"] / (predicted * peak) if predicted and array else None,
        "predicted_ddr_read_bytes": entry["ddr_read_bytes"] + fetched,
        "predicted_ddr_write_bytes": entry["ddr_write_bytes"],
        "predicted_busy": work,
        "bound": max(work, key=lambda engine: work[engine]) if work else "nothing",
        "cycles": own.get("cycles"),
        "mac_utilization": own.get("mac_utilization") if array else None,
        "ddr_read_bytes": own.get("ddr_read_bytes"),
        "ddr_write_bytes": own.get("ddr_write_bytes"),
        "busy": busy["measured"],
        "stalls": own.get("stalls"),
    }


def _bar(bar: Bar) -> list[Any]:
    return [bar.engine, bar.layer, bar.begin, bar.end]
