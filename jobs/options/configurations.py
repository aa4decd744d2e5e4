"""Which configuration is meant: a preset with parameters changed, as text; a file that holds one; or a `Config` itself."""

import json
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

from cnna.spec.artifact import stored_model
from cnna.spec.checks.archive import is_archive
from cnna.spec.config import OPTIONS, PRESETS, Config, ConfigError, as_dict, preset
from cnna.spec.errors import UserError
from cnna.spec.files import read_bytes

GivenConfig: TypeAlias = str | PathLike[str] | Config
LONGEST_NUMBER = 20  # digits of a parameter or size: Python refuses numbers of some thousands
DESCRIPTION = ".json"  # the ending of a file with the parameters of a configuration, as `as_dict` has them
ARTIFACT = ".cnna"


def configuration(text: str) -> Config:
    """The configuration that the text describes, named after what it changes. UserError: there is none; says what is legal."""
    name, *changes = text.split(",")
    try:
        base = preset(name)
        legal = {
            key: value
            for key, value in {**as_dict(base), **{name: int(getattr(base, name)) for name in OPTIONS}}.items()
            if key != "name"
        }
        values: dict[str, Any] = {}
        for change in changes:
            key, _, value = change.partition("=")
            if key in values:
                raise UserError(f"--config {text}: {key} is given twice")
            if key not in legal or not (value.isdecimal() and value.isascii() and len(value) <= LONGEST_NUMBER):
                raise UserError(f"--config {text}: {change!r} is no change; one is PARAMETER=NUMBER, of {', '.join(legal)}")
            values[key] = int(value)
        changed = {key: value for key, value in values.items() if value != legal[key]}
        if not changed:
            return base
        return replace(base, name="-".join([name, *(f"{key}{value}" for key, value in changed.items())]), **changed)
    except ConfigError as error:
        raise UserError(f"--config: {error}") from None


def config_of(given: GivenConfig) -> Config:
    """The configuration that a caller names: a `Config`; text as of `configuration`; a .cnna, whose own it is; or a .json.

    UserError: as of `configuration`, or the file cannot be read. ArtifactError: the .cnna does not say for what it was compiled.
    """
    if isinstance(given, Config):
        return given
    path = Path(given)
    if is_archive(path):
        return stored_model(path).config
    if isinstance(given, str) and path.suffix.lower() not in (DESCRIPTION, ARTIFACT):
        return configuration(given)
    return _described(path)


def _described(path: Path) -> Config:
    """The configuration in a file of JSON. UserError: it holds none."""
    try:
        return Config(**json.loads(read_bytes(path)))
    except (ValueError, TypeError, RecursionError, ConfigError) as error:
        legal = f"JSON with name and the parameters of a configuration, such as those of {', '.join(PRESETS)}"
        raise UserError(f"{fspath(path)}: no configuration ({' '.join(str(error).split())}); one is a .cnna, or {legal}") from None
