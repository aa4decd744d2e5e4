"""Which of a model's outputs the run loop can complete by itself: scores as they are, as real numbers or int8, or their softmax."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from cnna.host.model.answers import WHOLE, Output
from cnna.host.model.flight import Route
from cnna.spec.cpu_ops import VIEWS, CpuPart


class Tail(NamedTuple):
    """How a tensor comes from an output port of the program.

    port: the port's number. shape: of one sample. softmax: how many values each row has that goes through it; 0: none does.
    kind: the type in which it is handed out.
    """

    port: int
    shape: tuple[int, ...]
    softmax: int = 0
    kind: str = "float32"


def tails(route: Route, outputs: Sequence[Output]) -> list[Tail] | None:
    """For each output port of a model of one program, what becomes of it; the ports in the order of `outputs`.

    None: the CPU has more to do than the run loop can, or a port is needed twice or never.
    """
    parts = route.steps[1:]
    ports = route.programs[0].manifest["outputs"] if route.steps[:1] == [0] else []
    known = {port["name"]: Tail(number, (1, *port["shape"])) for number, port in enumerate(ports)}
    direct = dict(known)
    for part in parts:
        if not isinstance(part, CpuPart) or not part.steps() or not _traced(part, known):
            return None
    found = [known.get(output.name) for output in outputs]
    whole = [tail for tail in found if tail is not None]
    if len(whole) < len(found) or sorted(tail.port for tail in whole) != list(range(len(ports))):
        return None
    batch = route.manifest["batch"]
    sound = all(_answers(output, tail, batch, output.name in direct) for output, tail in zip(outputs, whole, strict=True))
    kinds = ["int8" if output.dtype == "int8" else "float32" for output in outputs]
    return [tail._replace(kind=kind) for tail, kind in zip(whole, kinds, strict=True)] if sound else None


def _traced(part: CpuPart, known: dict[str, Tail]) -> bool:
    """Adds the tensors that a part makes. Whether all of its operators are views and softmax of what is known."""
    for entry, constants in part.steps():
        given, *others = entry["inputs"]
        if given not in known or any(name not in constants for name in others):
            return False
        tail = known[given]
        if entry["op"] in VIEWS:
            empty = np.broadcast_to(np.float32(0), tail.shape)
            made = tail._replace(shape=part.call(entry, [empty, *(constants[name] for name in others)]).shape)
        elif entry["op"] == "Softmax" and not tail.softmax:
            axis = entry["attributes"].get("axis", -1) % len(tail.shape)
            if prod(tail.shape[axis + 1 :]) != 1:  # its values do not follow each other
                return False
            made = tail._replace(softmax=tail.shape[axis])
        else:
            return False
        known[entry["outputs"][0]] = made
    return True


def _answers(output: Output, tail: Tail, batch: int, direct: bool) -> bool:
    """Whether a tensor is an output's answer for all samples, but for its shape. direct: no piece on the CPU gives it a shape."""
    in_raster_order = output.batch_axis == 0 or batch == 1
    shaped = output.shape == tail.shape or (direct and output.batch_axis == 0 and output.elements == prod(tail.shape))
    real = output.dtype not in WHOLE or (output.dtype == "int8" and direct)  # the accelerator's own bytes are a port's as it is
    return output.fixed and real and in_raster_order and shaped
