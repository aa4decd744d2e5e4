"""The register map's two descriptions against the map."""

import re
from pathlib import Path

from cnna.hw.verilog import describe
from cnna.spec.config import preset
from cnna.spec.identity import capability_words
from cnna.spec.regmap import REGISTERS


def test_the_committed_table_is_generated(root: Path):
    """docs/registers.md would describe another map than the one that is built."""
    assert (root / "docs" / "registers.md").read_text() == describe.markdown()


def test_the_table_has_every_field():
    """A reader would not find a register or field."""
    table = describe.markdown()
    for register in REGISTERS.values():
        assert f"| {register.offset:#05x} | {register.name} |" in table
    rows = table[table.index("## general") :]
    assert rows.count("\n| ") - rows.count("\n| offset") == sum(len(register.fields) for register in REGISTERS.values())


def test_systemrdl_has_every_register_and_the_capability():
    """Another tool's model of the registers would have an offset, position or reset that the hardware does not have."""
    config = preset("zcu102")
    text, words = describe.systemrdl(config), capability_words(config)
    blocks = re.findall(r"  reg \{(.*?)\n  \} (\w+) @ (0x[0-9a-f]+);", text, re.S)
    assert {name: int(where, 16) for _, name, where in blocks} == {name: r.offset for name, r in REGISTERS.items()}
    for body, name, _ in blocks:
        register, word = REGISTERS[name], 0
        fields = re.findall(r"\} \\?(\w+)\[(\d+):(\d+)\] = (\d+)'h([0-9a-f]+);", body)
        assert [field for field, *_ in fields] == [field.name for field in register.fields]
        for (_, high, low, bits, reset), field in zip(fields, register.fields, strict=True):
            assert int(high) - int(low) + 1 == int(bits) == field.bits
            word |= int(reset, 16) << int(low)
        expected = words.get(name, sum(f.reset << int(low) for f, (_, _, low, _, _) in zip(register.fields, fields, strict=True)))
        assert word == expected, name
