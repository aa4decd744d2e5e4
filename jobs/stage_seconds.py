"""Where the seconds of a run on this computer go, for `run`."""

import time


class StageSeconds:
    """This computer's seconds from picture to answer, by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()

    def ends(self, stage: str, *inside: str) -> None:
        """A stage ends, and the next one begins. inside: stages that were a part of it."""
        now = time.perf_counter()
        self.seconds[stage] = now - self._began - sum(self.seconds.get(name, 0.0) for name in inside)
        self._began = now

    def adds(self, stage: str, began: float) -> None:
        """A part of a stage, which began then."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - began
