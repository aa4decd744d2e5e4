"""`cnna.search_choices`: choices of plans that make a model's programs quicker than those that the compiler compares by itself."""

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from cnna.jobs.explore.sweep import placements
from cnna.jobs.given import GivenModel, Progress, Shapes, Warn, Warnings, name_of, quiet, with_tools
from cnna.jobs.options.configurations import GivenConfig, config_of
from cnna.jobs.options.ddr import Ddr
from cnna.jobs.result import ASIDE, Result
from cnna.spec.boards import ddr_of
from cnna.spec.errors import UserError, about_model
from cnna.spec.files import check_outputs, write_text

if TYPE_CHECKING:
    from cnna.compiler.compile import Choices

TRIES = 60


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundChoices(Result):
    """What was found: predicted clocks of a batch before and after, and other plans that were tried. choices: what to choose."""

    config: str
    batch: int
    before: int
    after: int
    tries: int
    output: Path | None
    choices: "Choices" = field(metadata=ASIDE)
    notes: tuple[str, ...] = field(default=(), metadata=ASIDE)

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the file that `cnna compile --choices` takes. UserError: it cannot be written."""
        write_text(Path(path), self.choices.text())
        return Path(path)

    def __str__(self) -> str:
        saved = f"{1 - self.after / self.before:.2%} fewer" if self.after < self.before else "so the compiler's own plan stays"
        return f"{self.config}, batch {self.batch}: {self.before:,} clocks, {self.after:,} after {self.tries} other plans, {saved}"


@with_tools
def search_choices(
    model: GivenModel,
    config: GivenConfig = "zcu102",
    *,
    batch: int = 1,
    tries: int = TRIES,
    ddr: Ddr | None = None,
    shapes: Shapes | None = None,
    output: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> FoundChoices:
    """Searches for choices of the plan that are quicker, by prediction, than those of the compiler.

    tries: other plans that are predicted. output: where to write them for `compile`. A float model is quantised with random
    numbers; its choices suit the model that you quantise with your own data. UserError, ModelError: as of `explore`.
    """
    warnings, chosen, speed = Warnings(warn), config_of(config), ddr or Ddr()
    if batch < 1 or tries < 1:
        raise UserError(f"--batch {batch}, --tries {tries}: both must be at least 1")
    if speed.named() is not None:
        raise UserError("choices are predicted with the plain road to DDR; give bytes_per_cycle or latency")
    if output is not None:
        check_outputs({"output": Path(output)}, ())
    from cnna.compiler.explore.choices import search

    with about_model(name_of(model)):
        pieces = placements(model, shapes, warnings).pieces(chosen)
        found = search(pieces, chosen, batch, tries, progress or quiet, speed.predicted(ddr_of(chosen)))
    made = FoundChoices(
        config=chosen.name,
        batch=batch,
        before=found.before,
        after=found.after,
        tries=found.tries,
        output=None if output is None else Path(output),
        choices=found.choices,
        notes=warnings.lines,
    )
    if output is not None:
        made.save(output)
    return made
