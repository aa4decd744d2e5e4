"""Plays a Tcl script or XDC file in Python's Tcl interpreter, and records which Vivado commands it calls."""

from collections.abc import Mapping
from pathlib import Path

import pytest

VIVADO = {  # commands of Vivado that the project's scripts may use, as UG835 and UG903 have them
    "add_files assign_bd_address close_project connect_bd_intf_net connect_bd_net create_bd_cell create_clock create_project"
    " current_core current_fileset current_project get_bd_addr_segs get_bd_addr_spaces get_bd_cells get_bd_intf_pins get_bd_pins"
    " get_nets get_pins get_ports get_property ipx::check_integrity ipx::create_xgui_files ipx::current_core ipx::package_project"
    " ipx::save_core ipx::update_checksums set_property update_compile_order update_ip_catalog"
}


def play(script: Path, given: Mapping[str, str] | None = None) -> list[list[str]]:
    """The words of every Vivado command that a script calls, in order. given: variables that are set before, by name.

    A query such as get_bd_pins answers its last argument. An AssertionError names a command that is none of Vivado's.
    """
    tkinter = pytest.importorskip("tkinter")  # Debian: python3-tk
    known = {name for names in VIVADO for name in names.split()}
    calls: list[list[str]] = []

    def called(*words: object) -> str:
        texts = [str(word) for word in words]
        if texts[0] not in known:
            return f"UNKNOWN {texts[0]}"
        calls.append(texts)
        return texts[-1] if len(texts) > 1 else ""

    tcl = tkinter.Tcl()
    strange: list[str] = []

    def unknown(*words: object) -> str:
        answer = called(*words)
        if answer.startswith("UNKNOWN"):
            strange.append(str(words[0]))
        return answer

    tcl.createcommand("unknown", unknown)
    for name, value in (given or {}).items():
        tcl.setvar(name, value)
    tcl.call("source", str(script))
    assert not strange, f"{script.name}: no commands of Vivado: {strange}"
    return calls


def of(calls: list[list[str]], name: str) -> list[list[str]]:
    """The arguments of all calls of one command."""
    return [words for called, *words in calls if called == name]
