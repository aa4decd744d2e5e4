"""A detector's heads, found in what a job has compiled: they go into its artifact, and their figures into its result."""

from typing import TYPE_CHECKING, Any

from cnna.jobs.given import Warn
from cnna.spec.artifact import Artifact
from cnna.spec.detection.heads import in_words
from cnna.spec.errors import UserError
from cnna.spec.host_time.detector_time import gain

if TYPE_CHECKING:
    from cnna.compiler.heads.find import Missed
    from cnna.compiler.placements import Outline
    from cnna.spec.detection.heads import Heads

WANTED = ("auto", "yolov3", "yolov5")  # what a caller may ask for: the last two for models that give raw maps
TABLES = ("tables", "grids", "rows")  # what only the decode reads


def check_wanted(detector: str | None) -> None:
    """UserError: no such detector can be asked for."""
    if detector is not None and detector not in WANTED:
        raise UserError(f"--detector {detector}: must be one of {', '.join(WANTED)}")


def detector_of(artifact: Artifact) -> str | None:
    """The detector that a .cnna is, as `with_heads` takes it; None: it is none."""
    entry = artifact.manifest.get("detector")
    return None if entry is None else entry["family"].lower()


def with_heads(artifact: Artifact, wanted: str | None, warn: Warn) -> Artifact:
    """The artifact with the heads that were found. A warning says why there are none.

    wanted: one of WANTED; the family that a .cnna has; None: nobody asks.
    """
    if wanted is None:
        return artifact
    from cnna.compiler.heads.find import Missed, with_detector

    artifact, found = with_detector(artifact, wanted)
    if isinstance(found, Missed):
        warn(f"{found}; its outputs stay as they are")
    return artifact


def heads_in(outline: "Outline", wanted: str | None = None) -> "Heads | Missed":
    """The heads of a model of which no program is planned. wanted: one of WANTED; None: nobody asks, as "auto"."""
    from cnna.compiler.heads.find import AUTO, find

    return find(*outline, wanted or AUTO)


def detector_figures(artifact: Artifact) -> dict[str, Any] | None:
    """What is known of a detector's heads, without their tables; None: there are none, or nobody asked."""
    entry = artifact.manifest.get("detector")
    return None if entry is None else {key: value for key, value in entry.items() if key not in TABLES}


def detector_lines(artifact: Artifact) -> list[str]:
    """A line that says which heads were found, and what decoding them on integers brings; none if none were."""
    entry = artifact.manifest.get("detector")
    if entry is None:
        return []
    manifest = artifact.manifest
    quicker = gain(entry, manifest["pieces"], artifact.predicted_clocks(), artifact.config.clock_mhz, manifest["batch"])
    return [f"detector {in_words(entry)}; with cnna.Detector, which decodes it on integers: {quicker}, natively, at the slow end"]
