"""What a user says of a board: `NAME=KIND,option=value,...`, as in `--board left=paced,mhz=300,kill=50`.

kinds: emulator (answers as quickly as this computer computes them), paced (gives them after the predicted clocks),
       cpu (has no accelerator, and runs models of other runtimes)
options: config (which artifacts it runs; needed where a version has several configurations)
         mhz (paced: clocks in a microsecond; without it, those of the configuration)
         runtime (cpu: the one runtime whose models it runs; without it, all but cnna)
         kill, hang, wrong (in every Nth batch the worker dies, stands still, or gives a wrong answer: to try what happens then)
         slow (every batch takes so many times its time)
"""

import re
from dataclasses import asdict, dataclass
from typing import Any

from cnna.serve.runtimes.installed import names
from cnna.serve.runtimes.interface import CNNA
from cnna.spec.errors import UserError

CPU = "cpu"
KINDS = ("emulator", "paced", CPU)
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
WHOLE = {"kill": 1_000_000_000, "hang": 1_000_000_000, "wrong": 1_000_000_000}  # option: the greatest value
NUMBERS = {"mhz": (0.001, 10_000.0), "slow": (1.0, 1000.0)}  # option: the least and the greatest value
OPTIONS = ("config", "mhz", "runtime", "kill", "hang", "wrong", "slow")


@dataclass(frozen=True)
class BoardSpec:
    """One board. kill, hang, wrong: 0 stands for never."""

    name: str
    kind: str = "emulator"
    config: str | None = None
    mhz: float = 0.0
    kill: int = 0
    hang: int = 0
    wrong: int = 0
    slow: float = 1.0
    runtime: str | None = None

    def takes(self, runtime: str) -> bool:
        """Whether it runs models of this runtime."""
        if self.kind != CPU:
            return runtime == CNNA
        return runtime != CNNA and self.runtime in (None, runtime)

    def options(self) -> dict[str, Any]:
        """For the worker, as JSON."""
        return asdict(self)


def board_spec(text: str) -> BoardSpec:
    """Reads NAME=KIND,option=value,... UserError: it is no such thing; the line says what is legal."""
    name, equals, rest = text.partition("=")
    if not equals or not NAME.fullmatch(name):
        raise UserError(f"--board {text}: must be NAME=KIND, such as left=emulator; NAME has letters, digits, `_`, `.` and `-`")
    kind, *words = rest.split(",")
    if kind not in KINDS:
        raise UserError(f"--board {text}: there is no kind {kind!r}; there are {', '.join(KINDS)}")
    values: dict[str, Any] = {}
    pieces: list[str] = []
    for word in words:  # a configuration's name may have commas: zcu102,pix=4
        if word.partition("=")[0] in OPTIONS or not pieces:
            pieces.append(word)
        else:
            pieces[-1] += f",{word}"
    for piece in pieces:
        key, _, value = piece.partition("=")
        if key not in OPTIONS or key in values:
            raise UserError(f"--board {text}: {piece!r} is no option; there are {', '.join(OPTIONS)}, each once")
        values[key] = _value(text, key, value)
    if kind != "paced" and "mhz" in values:
        raise UserError(f"--board {text}: mhz is for boards of the kind paced")
    if (other := "config" if kind == CPU else "runtime") in values:
        raise UserError(f"--board {text}: {other} is for boards {'with accelerators' if kind == CPU else 'of the kind cpu'}")
    return BoardSpec(name, kind, **values)


def board_specs(texts: list[str]) -> list[BoardSpec]:
    """Several boards. UserError: two have the same name."""
    specs = [board_spec(text) for text in texts]
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--board {name}=...: two boards have this name; give each one of its own")
    return specs


def _value(text: str, key: str, value: str) -> Any:
    if key == "config":
        if not value:
            raise UserError(f"--board {text}: config needs a name, such as config=tiny")
        return value
    if key == "runtime":
        if value not in (others := names()[1:]):
            raise UserError(f"--board {text}: there is no runtime {value!r} without an accelerator; there are {', '.join(others)}")
        return value
    if key in NUMBERS:
        least, most = NUMBERS[key]
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not least <= number <= most:
            raise UserError(f"--board {text}: {key}={value} must be a number within {least:g}..{most:g}")
        return number
    if not value.isdecimal() or not 1 <= int(value[:12]) <= WHOLE[key]:
        raise UserError(f"--board {text}: {key}={value} must be an integer within 1..{WHOLE[key]}")
    return int(value)
