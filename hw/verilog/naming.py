"""Gives ports, instances and nets of a netlist the names that the source gives them.

Amaranth calls a port after the net behind it: after a signal of the parent, or `port$CELL$BIT` where the net has no name. It also
cuts a port where another cell drives it, and counts through a module's names where two are alike. So equal components have unlike
texts. Here names depend on a component alone:

- A port is a whole member of the component's signature, and has the member's name. Clocks and resets come first.
- An instance has the name that its parent's `m.submodules` has for it.
- In a module, a member of an instance inside it is called `INSTANCE__MEMBER`; every other signal has its own name.
- Of several signals with one name, the second gets `_2`. A name that is a keyword of Verilog gets `_`.
"""

import re
from collections.abc import Iterable, Iterator

from amaranth import Signal, Value
from amaranth.hdl import Fragment, _ir, _nir
from amaranth.hdl._ast import SignalDict
from amaranth.lib import wiring
from amaranth.lib.wiring import In

INPUT, OUTPUT = _nir.ModuleNetFlow.Input, _nir.ModuleNetFlow.Output
Port = tuple[_nir.Value, _nir.ModuleNetFlow]
Member = tuple[Signal, str, bool]  # its name, and whether it is an input
_NUMBERED = re.compile(r"\$\d+$")  # what Amaranth puts behind a name that it has given before
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "accept_on alias always always_comb always_ff always_latch and assert assign assume automatic before begin bind bins "
        "binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle checker class clocking cmos config const "
        "constraint context continue cover covergroup coverpoint cross deassign default defparam design disable dist do edge "
        "else end endcase endchecker endclass endclocking endconfig endfunction endgenerate endgroup endinterface endmodule "
        "endpackage endprimitive endprogram endproperty endsequence endspecify endtable endtask enum event eventually expect "
        "export extends extern final first_match for force foreach forever fork forkjoin function generate genvar global highz0 "
        "highz1 if iff ifnone ignore_bins illegal_bins implements implies import incdir include initial inout input inside "
        "instance int integer interconnect interface intersect join join_any join_none large let liblist library local "
        "localparam logic longint macromodule matches medium modport module nand negedge nettype new nexttime nmos nor "
        "noshowcancelled not notif0 notif1 null or output package packed parameter pmos posedge primitive priority program "
        "property protected pull0 pull1 pulldown pullup pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase "
        "randsequence rcmos real realtime ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 "
        "s_always s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal showcancelled signed small "
        "soft solve specify specparam static string strong strong0 strong1 struct super supply0 supply1 sync_accept_on "
        "sync_reject_on table tagged task this throughout time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand "
        "trior trireg type typedef union unique unique0 unsigned until until_with untyped use uwire var vectored virtual void "
        "wait wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor ",
    )
)


class Namespace:
    """The names of one module: each is given once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def unique(self, wanted: str, avoid: Iterable[str] = ()) -> str:
        """The name as Verilog can have it, with a number behind it if it is taken, or to be avoided."""
        plain = _legal(_NUMBERED.sub("", wanted))
        name, number, others = plain, 1, frozenset(avoid)
        while name in self._taken or name in others:
            number += 1
            name = f"{plain}_{number}"
        self._taken.add(name)
        return name


def _legal(name: str) -> str:
    """The name as Verilog can have it without an escape."""
    plain = re.sub(r"\W", "_", name.lstrip("$"))
    return f"{plain}_" if plain in _KEYWORDS else plain


def component(fragment: Fragment) -> wiring.Component | None:
    """The component that has become this fragment; None: it was a bare module."""
    return next((origin for origin in fragment.origins or () if isinstance(origin, wiring.Component)), None)


def members(block: wiring.Component, between: str = "__") -> Iterator[Member]:
    """(signal, name, whether it is an input) of each port. A `ready` that is always 1 is a constant and left out."""
    for path, member, value in block.signature.flatten(block):
        signal = Value.cast(value)
        if isinstance(signal, Signal):
            yield signal, _legal(between.join(map(str, path))), member.flow == In


class Naming:
    """Names a design's netlist. `fragments` and `instances` are by the number of the module."""

    def __init__(self, design: _ir.Design, netlist: _nir.Netlist) -> None:
        self._netlist = netlist
        by_name = {info.name: fragment for fragment, info in design.fragments.items()}
        self.fragments: list[Fragment] = [by_name[tuple(module.name)] for module in netlist.modules]
        self.instances: list[str] = [_NUMBERED.sub("", module.name[-1]) for module in netlist.modules]
        self._owners = SignalDict()  # signal: number of the module, name of the member
        self._members: list[list[Member]] = [[] for _ in netlist.modules]
        for number, fragment in enumerate(self.fragments):
            if (block := component(fragment)) and number:
                self._members[number] = list(members(block))
                for signal, name, _ in self._members[number]:
                    self._owners.setdefault(signal, (number, name))
        for name, signal, _ in design.ports:
            self._owners[signal] = (0, name)

    def apply(self) -> None:
        """Renames all modules' ports, instances and signals, from the top down."""
        for number, module in enumerate(self._netlist.modules):
            if number:
                module.ports = self._ports(number)
            names = Namespace(module.ports)
            for inner in module.submodules:  # an instance called like a signal inside it would hide that, says Verilator
                inside = (signal.name for signal in self._netlist.modules[inner].signal_names)
                self.instances[inner] = names.unique(self.instances[inner], avoid=inside)
            for cell in module.cells:
                if isinstance(instance := self._netlist.cells[cell], _nir.Instance):
                    instance.name = names.unique(instance.name)
            module.signal_names = self._signal_names(number, names)

    def _ports(self, number: int) -> dict[str, Port]:
        """The module's ports by name: members that are whole, then whatever else crosses the border."""
        module = self._netlist.modules[number]
        left = {net: flow for net, flow in module.net_flow.items() if flow is not _nir.ModuleNetFlow.Internal}
        own, names = self._members[number], Namespace()
        mine = SignalDict((signal, None) for signal, _, _ in own)
        found: dict[str, Port] = {}

        def take(signal: Signal, name: str, flow: _nir.ModuleNetFlow) -> None:
            value = self._netlist.signals.get(signal, ())
            if not any(left.get(net) is flow for net in value):
                return
            parts = [value] if all(net.is_const or module.net_flow.get(net) is flow for net in value) else _runs(value, left, flow)
            for part in parts:
                found[names.unique(name)] = (part, flow)
                for net in part:
                    left.pop(net, None)

        for signal, name, is_input in own:
            take(signal, name, INPUT if is_input else OUTPUT)
        wired = dict(found)
        found.clear()
        for signal, name, _ in [*own, *((signal, signal.name, True) for signal in module.signal_names if signal not in mine)]:
            for flow in (INPUT, OUTPUT):
                take(signal, name, flow)
        assert not left, f"{'.'.join(module.name)}: {len(left)} nets at the border have no name"
        return found | wired

    def _signal_names(self, number: int, names: Namespace) -> SignalDict:
        """The name of every signal in a module. One that is a port has the port's."""
        module = self._netlist.modules[number]
        ports = {value: name for name, (value, _) in reversed(module.ports.items())}
        found, used = SignalDict(), set()
        rest = []
        own = [signal for signal, _, _ in self._members[number] if signal in module.signal_names]
        for signal in [*own, *module.signal_names]:
            name = ports.get(self._netlist.signals[signal])
            if name and name not in used and len(signal):
                used.add(name)
                found[signal] = name
            else:
                rest.append(signal)
        for signal in rest:
            if signal not in found:
                found[signal] = names.unique(self._name(signal, number))
        return found

    def _name(self, signal: Signal, number: int) -> str:
        owner, name = self._owners.get(signal, (-1, signal.name))
        if owner == number or owner < 0:
            return str(name)
        return f"{self.instances[owner]}__{name}" if self._netlist.modules[owner].parent == number else signal.name


def _runs(value: _nir.Value, left: dict[_nir.Net, _nir.ModuleNetFlow], flow: _nir.ModuleNetFlow) -> list[_nir.Value]:
    """The parts of a value that have this flow."""
    runs: list[list[_nir.Net]] = [[]]
    for net in value:
        if left.get(net) is flow and net not in runs[-1]:
            runs[-1].append(net)
        elif runs[-1]:
            runs.append([])
    return [_nir.Value(run) for run in runs if run]
