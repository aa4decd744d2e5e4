"""Which UIO device the accelerator's interrupt has, in trees of files as Linux shows them."""

import os
from pathlib import Path

import pytest

from cnna.host.board.interrupt import POLLED, Places, interrupt_of

BASE = 0xA000_0000
HEAD = "           CPU0       CPU1       CPU2       CPU3\n"
TIMER = "  3:    1091       905       977       874     GICv2  30 Level     arch_timer\n"
IPI = "IPI0:       0          0          0          0       Rescheduling interrupts\n"
FABRIC = " 45:          0          0          0          0     GICv2 121 Level     fabric\n"


class Tree:
    """The folders that Linux would show, with UIO devices that a test adds."""

    def __init__(self, folder: Path) -> None:
        self.places = Places(folder / "uio", folder / "interrupts", folder / "dev")
        for made in (self.places.classes, self.places.devices):
            made.mkdir()
        self.interrupts(FABRIC)

    def interrupts(self, *rows: str) -> None:
        self.places.interrupts.write_text(HEAD + TIMER + "".join(rows) + IPI)

    def add(self, device: str, name: str, address: str | None = None) -> Path:
        entry = self.places.classes / device
        entry.mkdir()
        (entry / "name").write_text(f"{name}\n")
        if address:
            (entry / "maps" / "map0").mkdir(parents=True)
            (entry / "maps" / "map0" / "addr").write_text(f"{address}\n")
        (self.places.devices / device).write_bytes(b"")
        return self.places.devices / device


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A tree without UIO devices."""
    return Tree(tmp_path)


def test_the_device_of_the_line_is_found_among_others(tree: Tree) -> None:
    """The loop would wait for the interrupt of another core: every run would take as long as a look at its progress."""
    tree.add("uio0", "axi-pmon", "0x00000000ffa00000")
    wanted = tree.add("uio10", "fabric", "0x0000000080000000")
    tree.add("uio4", "dma", f"{BASE:#x}")
    found = interrupt_of(BASE, places=tree.places)
    assert found.path == wanted
    assert str(found) == f"by interrupt, through {wanted}"
    file = found.open()
    assert os.get_inheritable(file) is False
    os.close(file)


def test_a_device_at_the_registers_will_do(tree: Tree) -> None:
    """A device tree overlay may name it as it likes; a kernel may write /proc/interrupts in another way."""
    tree.interrupts()
    tree.add("uio0", "axi-pmon", "0x00000000ffa00000")
    wanted = tree.add("uio1", "accelerator", "0x00000000a0000000")
    assert interrupt_of(BASE, places=tree.places).path == wanted


def test_devices_of_one_name_are_told_apart_by_their_registers(tree: Tree) -> None:
    """Linux calls a device as its node is called, without the address: two accelerators would share one interrupt."""
    tree.interrupts()
    wanted = tree.add("uio0", "accelerator", f"{BASE:#x}")
    tree.add("uio1", "accelerator", "0xb0000000")
    assert interrupt_of(BASE, places=tree.places).path == wanted


def test_a_line_may_have_several_names(tree: Tree) -> None:
    """A driver that shares the line would hide the device."""
    wanted = tree.add("uio0", "fabric")
    tree.interrupts(FABRIC.replace("fabric", "fabric, other driver"))
    assert interrupt_of(BASE, places=tree.places).path == wanted


def test_without_a_device_it_is_polled(tree: Tree) -> None:
    """It is no error: most images have none."""
    tree.add("uio0", "axi-pmon", "0xffa00000")
    found = interrupt_of(BASE, places=tree.places)
    assert found.path is None
    assert found.open() == -1
    assert str(found) == "by polling: Linux has no UIO device for interrupt 121 (docs/board.md)"


def test_trees_that_nobody_expects_are_polled(tree: Tree, tmp_path: Path) -> None:
    """A kernel without UIO, a device without windows or with odd text in them would end in a traceback."""
    assert interrupt_of(BASE, places=Places(tmp_path / "none", tmp_path / "none", tmp_path)).path is None
    (tree.places.classes / "uio0").mkdir()
    (tree.places.classes / "uio1").mkdir()
    (tree.places.classes / "uio1" / "name").write_bytes(b"\xff\xfe")
    tree.add("uio2", "odd", "where?")
    tree.places.interrupts.write_bytes(b"\xff 121 Level odd")
    assert interrupt_of(BASE, places=tree.places).path is None


def test_a_device_that_this_user_may_not_read_is_named(tree: Tree) -> None:
    """A user who is not root would not learn why waiting costs more."""
    path = tree.add("uio0", "fabric")
    path.unlink()
    found = interrupt_of(BASE, places=tree.places)
    assert str(found) == f"by polling: {path} is not there, or this user may not read and write it"
    assert found.open() == -1


def test_a_device_that_goes_leaves_polling(tree: Tree) -> None:
    """An overlay may be removed between two models."""
    path = tree.add("uio0", "fabric")
    found = interrupt_of(BASE, places=tree.places)
    path.unlink()
    assert found.open() == -1


def test_an_interrupt_controller_between_is_named(tree: Tree) -> None:
    """Its own registers hold the interrupt back: the loop would wait for one that never comes."""
    tree.add("uio0", "fabric")
    found = interrupt_of(BASE, "axi_intc_0", tree.places)
    assert found.path is None
    assert "axi_intc_0, an AXI interrupt controller, is between" in str(found)


def test_registers_of_another_machine_are_polled() -> None:
    """PYNQ.remote has no interrupts."""
    assert POLLED.open() == -1
    assert "not those of this machine" in str(POLLED)
