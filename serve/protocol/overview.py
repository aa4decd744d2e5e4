"""All that the console shows, as a dict that is JSON: models with their versions, boards, the last minutes, the last failures."""

import time
from typing import Any

from cnna.serve.engine.catalogue import Served, ServedModel
from cnna.serve.engine.core import Core
from cnna.serve.models.settings import Settings
from cnna.serve.models.thresholds import KEYS
from cnna.serve.protocol import described


def overview(core: Core, version: str) -> dict[str, Any]:
    """version: of the server."""
    return {
        "ts": round(time.time(), 3),
        "version": version,
        "ready": core.ready,
        "state": "draining" if core.draining else "starting" if core.starting else "serving",
        "models": [_model(core, name, model) for name, model in core.catalogue.models.items()],
        "boards": described.boards(core),
        "throughput": core.history.series(),
        "troubles": core.history.troubles,
    }


def _model(core: Core, name: str, model: ServedModel) -> dict[str, Any]:
    settings, default = model.settings, model.default
    canary = None if settings.canary is None else {"version": settings.canary.version, "share": settings.canary.share}
    return {
        "name": name,
        "reason": model.why() if default is None else model.reason,
        "default": None if default is None else default.name,
        "canary": canary,
        "unloaded": model.life.unloaded,
        "queue": settings.queue,
        "samples_per_second": core.history.rate(name),
        "versions": [_version(one, settings) for one in model.versions.values()],
    }


def _version(served: Served, settings: Settings) -> dict[str, Any]:
    stats, signature = served.stats, None if served.version is None else served.version.signature
    return {
        "name": served.name,
        "state": served.state,
        "reason": served.reason,
        "waiting": served.pending.samples,
        "open": served.open,
        "samples": stats.samples,
        "batches": stats.batches,
        "retries": stats.retries,
        "failed": dict(stats.failed),
        "wait_seconds": stats.waits.seconds / max(1, stats.succeeded),
        "run_seconds": stats.runs.seconds / max(1, stats.succeeded),
        "picture": signature.inputs[0].name if signature is not None and signature.preprocess else None,
        "detects": signature is not None and signature.detects,
        "thresholds": _thresholds(settings) if signature is not None and signature.detects else None,
        "outputs": [] if signature is None else [tensor.name for tensor in signature.outputs],
    }


def _thresholds(settings: Settings) -> dict[str, Any]:
    """What counts as a detection, if a request says nothing else."""
    return {key: value for key, value in settings.wanted._asdict().items() if key in KEYS}
