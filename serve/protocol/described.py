"""What a server says of itself: metadata, configuration, statistics and the index, as dicts that are JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from cnna.serve.engine.board import EngineBoard
from cnna.serve.engine.core import Core
from cnna.serve.engine.served import LOADING, UNAVAILABLE, Served
from cnna.serve.models.signature import Signature, Tensor
from cnna.serve.protocol.tensors import name_of
from cnna.spec.errors import BusyError, DataError, UnknownError
from cnna.spec.names import differences

PLATFORM = "cnna"
EXTENSIONS = ("binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics")
NANO = 1e9


def server(version: str) -> dict[str, Any]:
    """Of the server."""
    return {"name": PLATFORM, "version": version, "extensions": list(EXTENSIONS)}


def signature_of(core: Core, model: str, version: str | None) -> Signature:
    """What a version takes and gives. UnknownError, BusyError: there is none, or it is not ready."""
    served = core.catalogue.model(model).chosen(version, "")
    assert served.version is not None
    return served.version.signature


def check_names(core: Core, model: str, version: str | None, given: Sequence[str]) -> None:
    """DataError: a version has other inputs. It says nothing of a model or version that is not there, or not ready."""
    try:
        wanted = [tensor.name for tensor in signature_of(core, model, version).inputs]
    except (UnknownError, BusyError):
        return
    if wrong := differences(given, wanted):
        raise DataError(f"{model} {wrong}")


def metadata(core: Core, model: str, version: str | None) -> dict[str, Any]:
    """Names, types and shapes; -1 stands for the samples."""
    signature = signature_of(core, model, version)
    versions = core.catalogue.model(model).versions
    return {
        "name": model,
        "versions": [name for name, one in versions.items() if one.state == "READY"],
        "platform": PLATFORM,
        "inputs": [_tensor(one) for one in signature.inputs],
        "outputs": [_tensor(one) for one in signature.outputs],
    }


def config(core: Core, model: str, version: str | None) -> dict[str, Any]:
    """As Triton's tools read it."""
    signature, settings = signature_of(core, model, version), core.catalogue.model(model).settings
    return {
        "name": model,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "max_batch_size": settings.max_request_samples,
        "input": [_configured(one) for one in signature.inputs],
        "output": [_configured(one) for one in signature.outputs],
        "dynamic_batching": {"max_queue_delay_microseconds": settings.max_delay_us},
    }


def index(core: Core, ready: bool = False) -> list[dict[str, str]]:
    """All versions that were asked for, or those that are ready, each with its state and the reason for it."""
    rows = []
    for name, model in core.catalogue.models.items():
        for version, one in model.versions.items():
            rows.append({"name": name, "version": version, "state": one.state, "reason": one.reason})
        if not model.versions or model.reason:
            rows.append({"name": name, "version": "", "state": UNAVAILABLE if model.reason else LOADING, "reason": model.why()})
    return [row for row in rows if not ready or row["state"] == "READY"]


def statistics(core: Core, model: str | None = None, version: str | None = None) -> dict[str, Any]:
    """Of all versions, of one model's or of one. UnknownError: there is none."""
    models = [core.catalogue.model(model)] if model is not None else list(core.catalogue.models.values())
    if version is not None:
        models[0].named(version)
    return {
        "model_stats": [
            _statistics(served) for one in models for name, served in one.versions.items() if version is None or name == version
        ]
    }


def _statistics(served: Served) -> dict[str, Any]:
    stats = served.stats
    done, failed = stats.succeeded, sum(stats.failed.values())
    return {
        "name": served.model,
        "version": served.name,
        "last_inference": int(stats.last * 1e3),
        "inference_count": stats.samples,
        "execution_count": stats.batches,
        "inference_stats": {
            "success": _duration(done, stats.totals.seconds),
            "fail": _duration(failed, stats.failed_seconds),
            "queue": _duration(done, stats.waits.seconds),
            "compute_input": _duration(done, stats.scale_seconds),
            "compute_infer": _duration(done, stats.runs.seconds - stats.decode_seconds),
            "compute_output": _duration(done, stats.decode_seconds),
        },
        "batch_stats": [
            {
                "batch_size": size,
                "compute_input": _duration(count, 0.0),
                "compute_infer": _duration(count, stats.batch_size_seconds[size] - stats.batch_size_decode_seconds[size]),
                "compute_output": _duration(count, stats.batch_size_decode_seconds[size]),
            }
            for size, count in sorted(stats.batch_sizes.items())
        ],
    }


def _duration(count: int, seconds: float) -> dict[str, int]:
    return {"count": count, "ns": int(seconds * NANO)}


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {"name": tensor.name, "datatype": name_of(tensor.dtype), "shape": tensor.served_shape}


def _configured(tensor: Tensor) -> dict[str, Any]:
    return {"name": tensor.name, "data_type": f"TYPE_{name_of(tensor.dtype)}", "dims": tensor.served_shape[1:]}


def why_not_ready(core: Core, model: str, version: str | None) -> str | None:
    """Why a model takes no requests now; None: it does. UnknownError: there is none of that name."""
    if core.starting and model not in core.catalogue.models:
        return "the server is starting"
    try:
        core.catalogue.model(model).chosen(version, "")
    except BusyError as error:
        return str(error)
    return None


def boards(core: Core) -> list[Mapping[str, Any]]:
    """For operators."""
    return [_board(board) for board in core.boards]


def _board(board: EngineBoard) -> Mapping[str, Any]:
    return {
        "name": board.spec.name,
        "kind": board.spec.kind,
        "state": board.state,
        "cause": board.life.cause,
        "failures": board.life.failures,
        "resets": board.life.resets,
        "batches": board.life.batches,
        "outstanding_seconds": round(board.seconds * board.ratio, 6),
        "watts": board.watts,
        "celsius": board.celsius,
        "loaded": board.loaded,
    }
