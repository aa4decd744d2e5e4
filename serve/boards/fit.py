"""Which artifacts of a version a board runs."""

from cnna.serve.boards.board_spec import CPU, BoardSpec
from cnna.serve.models.version import Compiled, Version
from cnna.spec.errors import RunError


def fit(spec: BoardSpec, config: str | None, version: Version) -> tuple[Compiled, ...]:
    """The artifacts that it runs. config: that of the board's own accelerator, if it is known and the board names none.

    RunError: it runs none; the line says why.
    """
    there = {name: many for name, many in version.compiled.items() if spec.takes(many[0].runtime)}
    if spec.kind == CPU and there:
        return tuple(one for many in there.values() for one in many)
    if not there:
        raise RunError(f"board {spec.name}: runs no models of the runtime {', '.join(version.runtimes())}")
    if spec.config is None and len(there) == 1:
        return next(iter(there.values()))  # whether it fits, the board says itself
    config = spec.config or config
    if config is None:
        raise RunError(f"board {spec.name}: there are {', '.join(there)}: say --board {spec.name}=...,config=")
    if config not in there:
        raise RunError(f"board {spec.name}: has {config}, but the version was compiled for {', '.join(there)}")
    return there[config]
