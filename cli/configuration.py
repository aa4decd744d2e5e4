"""`--config`: a preset by its name, or one with parameters changed, as `zcu102,pix=4,bank_words=4096`."""

from dataclasses import replace
from typing import Any

from cnna.spec.config import Config, ConfigError, as_dict, preset
from cnna.spec.errors import UserError

HELP = "tiny or zcu102, or one with parameters changed: zcu102,pix=4,bank_words=4096"


def configuration(text: str) -> Config:
    """The configuration of that text, named after what it changes. UserError: there is no such one, with what is legal."""
    name, *changes = text.split(",")
    try:
        base = preset(name)
        legal = {key: value for key, value in as_dict(base).items() if key != "name"}
        values: dict[str, Any] = {}
        for change in changes:
            key, _, value = change.partition("=")
            if key not in legal or key in values or not value.isdecimal():
                raise UserError(f"--config {text}: {change!r} is no change; one is PARAMETER=NUMBER, of {', '.join(legal)}")
            values[key] = int(value)
        if not values:
            return base
        return replace(base, name="-".join([name, *(f"{key}{value}" for key, value in values.items())]), **values)
    except ConfigError as error:
        raise UserError(f"--config: {error}") from None
