"""What a user says of a board: `NAME=KIND,option=value,...`, as in `--board left=paced,mhz=300,kill=50`.

kinds: emulator (answers as quickly as this computer computes them), paced (gives them after the predicted clocks),
       rtl (runs them on the generated Verilog under Verilator), pynq:ADDRESS (a board behind PYNQ.remote; pynq alone is this one),
       cpu (has no accelerator, and runs models of other runtimes)
options: config (which artifacts it runs; needed where a version has several configurations)
         overlay (pynq: the .bit file), turn_seconds (pynq: how long a batch may wait for others who have the board)
         mhz (paced: clocks in a microsecond; without it, those of the configuration)
         runtime (cpu: the one runtime whose models it runs; without it, all but cnna)
         kill, hang, wrong (in every Nth batch the worker dies, stands still, or gives a wrong answer: to try what happens then)
         slow (every batch takes so many times its time)
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cnna.serve.runtimes.installed import names
from cnna.serve.runtimes.interface import CNNA
from cnna.spec.errors import UserError

CPU = "cpu"
KINDS = ("emulator", "paced", "rtl", "pynq", CPU)
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
TEXTS = {"config": "a name, such as config=tiny", "overlay": "a .bit file, such as overlay=cnna.bit"}
WHOLE = {"kill": 1_000_000_000, "hang": 1_000_000_000, "wrong": 1_000_000_000}  # option: the greatest value
# By option: the least and the greatest value.
NUMBERS = {"mhz": (0.001, 10_000.0), "slow": (1.0, 1000.0), "turn_seconds": (0.0, 3600.0)}
OPTIONS = ("config", "overlay", "turn_seconds", "mhz", "runtime", "kill", "hang", "wrong", "slow")
ONE_KIND = {"mhz": "paced", "overlay": "pynq", "turn_seconds": "pynq", "runtime": CPU}  # options that only boards of one kind have


@dataclass(frozen=True)
class BoardSpec:
    """One board. address: empty for the computer itself. kill, hang, wrong: 0 stands for never."""

    name: str
    kind: str = "emulator"
    config: str | None = None
    address: str = ""
    overlay: str = ""
    turn_seconds: float = 20.0  # longer than it takes to pass over a dead holder, which is 9 s
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
    where = f"--board {text}"
    name, equals, rest = text.partition("=")
    if not equals or not NAME.fullmatch(name):
        raise UserError(f"{where}: must be NAME=KIND, such as left=emulator; NAME has letters, digits, `_`, `.` and `-`")
    first, *words = rest.split(",")
    kind, colon, address = first.partition(":")
    pieces: list[str] = []
    for word in words:  # a configuration's name may have commas: zcu102,pix=4
        if word.partition("=")[0] in OPTIONS or not pieces:
            pieces.append(word)
        else:
            pieces[-1] += f",{word}"
    values: dict[str, str] = {}
    for piece in pieces:
        key, _, value = piece.partition("=")
        if key in values:
            raise UserError(f"{where}: {piece!r} is no option; there are {', '.join(OPTIONS)}, each once")
        values[key] = value
    return checked(where, name, kind, address if colon else None, values)


def checked(where: str, name: str, kind: str, address: str | None, values: Mapping[str, str]) -> BoardSpec:
    """A board of these options. UserError: they are not legal; `where` begins the line."""
    if kind not in KINDS:
        raise UserError(f"{where}: there is no kind {kind!r}; there are {', '.join(KINDS)}")
    if address is not None and (kind != "pynq" or not ADDRESS.fullmatch(address)):
        raise UserError(f"{where}: {kind}:{address}: only pynq has an address, such as pynq:192.168.2.99")
    if unknown := [key for key in values if key not in OPTIONS]:
        said = f"{unknown[0]}={values[unknown[0]]}"
        raise UserError(f"{where}: {said!r} is no option; there are {', '.join(OPTIONS)}, each once")
    for key, only in ONE_KIND.items():
        if key in values and kind != only:
            raise UserError(f"{where}: {key} is for boards of the kind {only}")
    if kind == CPU and "config" in values:
        raise UserError(f"{where}: config is for boards with accelerators")
    if kind == "pynq" and "overlay" not in values:
        raise UserError(f"{where}: a board of the kind pynq needs {TEXTS['overlay']}")
    return BoardSpec(name, kind, address=address or "", **{key: _value(where, key, value) for key, value in values.items()})


def board_specs(texts: list[str]) -> list[BoardSpec]:
    """Several boards. UserError: two have the same name."""
    specs = [board_spec(text) for text in texts]
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--board {name}=...: two boards have this name; give each one of its own")
    return specs


def _value(where: str, key: str, value: str) -> Any:
    if key in TEXTS:
        if not value:
            raise UserError(f"{where}: {key} needs {TEXTS[key]}")
        return value
    if key == "runtime":
        if value not in (others := names()[1:]):
            raise UserError(f"{where}: there is no runtime {value!r} without an accelerator; there are {', '.join(others)}")
        return value
    if key in NUMBERS:
        least, most = NUMBERS[key]
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not least <= number <= most:
            raise UserError(f"{where}: {key}={value} must be a number within {least:g}..{most:g}")
        return number
    if not value.isdecimal() or not 1 <= int(value[:12]) <= WHOLE[key]:
        raise UserError(f"{where}: {key}={value} must be an integer within 1..{WHOLE[key]}")
    return int(value)
