"""A version of a model, as its files are: what clients see of it, and what can answer for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cnna.serve.models.golden import Golden
from cnna.serve.models.labels import Labels
from cnna.serve.models.signature import Signature
from cnna.serve.runtimes.interface import CNNA, Place


@dataclass(frozen=True)
class Compiled:
    """One artifact of a version: the file, and what it costs. seconds: predicted for a whole batch, pieces on the CPU included.

    Of another runtime than `cnna`: the version's folder, and the runtime's name as the configuration. place: what the runtime is
    told. bounded: it ends by a deadline by itself. tolerance: how far its golden answers may be from the version's, by output;
    None: as golden answers say.
    """

    path: Path
    config: str
    batch: int
    clocks: int
    seconds: float
    runtime: str = CNNA
    place: Place | None = None
    bounded: bool = False
    tolerance: Mapping[str, float] | None = None


@dataclass(frozen=True, eq=False)
class Version:
    """A version whose files are sound. compiled: by configuration, in ascending order of the batch.

    runtime: model.yaml's. Others in `compiled` stand in for it. labels: names of the classes of outputs that have some.
    """

    model: str
    name: str
    signature: Signature
    compiled: dict[str, tuple[Compiled, ...]]
    golden: Golden | None
    runtime: str = CNNA
    labels: Labels = field(default_factory=dict)

    def runtimes(self) -> list[str]:
        """Those that can answer for it, its own first."""
        return list(dict.fromkeys([self.runtime, *(many[0].runtime for many in self.compiled.values())]))

    def whole_samples(self) -> int:
        """The most samples that all of them take in one batch."""
        return min(max(one.batch for one in many) for many in self.compiled.values())
