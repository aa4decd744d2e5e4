"""What a batch takes on a simulated accelerator: as predicted, as modelled with its host, and as the RTL counts."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from cnna.evaluate.speed.live import Port, random_samples, sizes_of
from cnna.evaluate.speed.matrix import MODELLED, RTL
from cnna.evaluate.speed.simulated import Service
from cnna.host.model.session import InferenceSession
from cnna.spec.artifact import Artifact
from cnna.spec.errors import DataError
from cnna.spec.host_time.end_to_end import end_to_end


class Timed(NamedTuple):
    """clocks: of a batch, of all programs together. service: what they mean in time."""

    clocks: int
    service: Service


def timed(artifact: Artifact, device: str, options: Mapping[str, Any], native: bool) -> Timed:
    """What a batch takes. options: of the simulated RTL. native: whether the host has its native library.

    DataError: nothing of the model is on the accelerator, or what the host does is not known.
    """
    name, batch, mhz = artifact.manifest["name"], int(artifact.manifest["batch"]), artifact.config.clock_mhz
    if not artifact.programs:
        raise DataError(f"{name}: nothing of it runs on the accelerator, so there are no clocks; measure it on onnxruntime")
    clocks = _counted(artifact, options) if device == RTL else artifact.predicted_clocks()
    if device != MODELLED:
        taken = round(clocks * 1e3 / mhz)
        return Timed(clocks, Service(taken, taken, batch))
    found = end_to_end(artifact.manifest["pieces"], clocks, mhz, batch, native)
    rate, latency = found.fps(), found.latency()
    if rate is None or latency is None:
        raise DataError(f"{name}: the file does not say what the CPU takes; compile it again")
    return Timed(clocks, Service(round(batch * 1e9 / rate.slow), round(latency.slow * 1e9), batch))


def _counted(artifact: Artifact, options: Mapping[str, Any]) -> int:
    """The clocks of one batch on the simulated RTL. They do not depend on the samples."""
    ports = [Port(entry["name"], sizes_of(entry["shape"]), entry["dtype"]) for entry in artifact.manifest["model_inputs"]]
    with InferenceSession(artifact, RTL, **options) as session:
        session.run(None, {port.name: random_samples(port, int(artifact.manifest["batch"])) for port in ports})
        return int(session.last["cycles"] or 0)
