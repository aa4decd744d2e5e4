"""`cnna.rtl`: the Verilog of the accelerator, or of one module, with a description of its registers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from cnna.jobs.given import Progress, quiet, with_tools
from cnna.jobs.options.configurations import GivenConfig, config_of
from cnna.jobs.result import ASIDE, Result
from cnna.spec.config import Config, ConfigError
from cnna.spec.errors import UserError
from cnna.spec.files import check_folder, make_folder, write_bytes

TOP = "top"  # what the whole accelerator is called
Say = Callable[[str], object]  # takes what is being done


@dataclass(frozen=True, eq=False, kw_only=True)
class Generated(Result):
    """What was generated. module: "top", or the one that was named. files: where they were written, else their names.

    contents: the files by name, the Verilog first.
    """

    config: str
    module: str
    files: Sequence[str]
    contents: Mapping[str, bytes] = field(metadata=ASIDE)

    @property
    def verilog(self) -> str:
        """The Verilog."""
        return next(iter(self.contents.values())).decode()

    def save(self, folder: str | PathLike[str]) -> list[Path]:
        """Writes the files into a folder, which is made if it is not there. UserError: they cannot be written."""
        made = Path(folder)
        make_folder(made)
        for name, content in self.contents.items():
            write_bytes(made / name, content)
        return [made / name for name in self.contents]

    def __str__(self) -> str:
        return "\n".join(self.files)


@with_tools
def rtl(
    config: GivenConfig = "tiny",
    module: str | None = None,
    *,
    output: str | PathLike[str] | None = None,
    cache: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Generated:
    """Generates the Verilog. The whole accelerator takes a minute or more the first time; then it is in the cache.

    module: only this one. output: a folder for the files. cache: where Verilog is kept; None: the user's folder. UserError: there
    is no such configuration or module, or files cannot be written. RunError: generating failed.
    """
    tell, chosen = progress or quiet, config_of(config)
    if output is not None:
        check_folder(Path(output))
    try:
        contents = generated(chosen, module, None if cache is None else Path(cache), lambda what: tell(0, 0, what))
    except ConfigError as error:
        raise UserError(f"--module: {error}") from None
    places = [*contents] if output is None else [str(Path(output) / name) for name in contents]
    found = Generated(config=chosen.name, module=module or TOP, files=places, contents=contents)
    if output is not None:
        found.save(output)
    return found


def generated(config: Config, module: str | None, cache: Path | None, say: Say) -> dict[str, bytes]:
    """The files of `hw.verilog.writer.write` by name, the Verilog first. Ctrl-C ends it at once. ConfigError: no such module.

    The Verilog of the whole accelerator comes from the cache folder, where the simulators' sources are, or goes there.
    """
    from cnna.sim.rtl.generate import write
    from cnna.sim.rtl.sources import generating, kept
    from cnna.spec.files import default_cache

    with TemporaryDirectory() as part:

        def tick(left: float | None) -> None:
            say(generating(config, left))

        text = None if module else kept(config, cache or default_cache(), tick)
        return {path.name: path.read_bytes() for path in write(config, Path(part), module, tick, text)}
