"""Memories of the generated Verilog: one short module for each shape, written so that every tool infers block or LUT RAM.

Amaranth gets a `MemoryModules` as its platform and asks it for an instance in place of each `lib.memory.Memory`. Amaranth's own
text would list the initial value of every row, which takes 160,000 lines and a minute at zcu102. Memories here start as zeros; some
rows of those with two writers do not.
"""

from amaranth import ClockSignal, Const, Instance, Value
from amaranth.lib.memory import Memory, ReadPort, WritePort
from amaranth.utils import ceil_log2

from cnna.hw.base.attributes import CASCADE_HEIGHT, ULTRA


class MemoryModules:
    """Collects the shapes that a design uses. Once the design is elaborated, `text` is their Verilog."""

    def __init__(self) -> None:
        self._modules: dict[str, str] = {}

    def get_memory(self, memory: Memory) -> Instance:
        """An instance for this memory. Amaranth calls it."""
        assert all(not port.transparent_for for port in memory.read_ports), "no memory here reads what is just written"
        width, writes, reads = len(Value.cast(memory.write_ports[0].data)), memory.write_ports, memory.read_ports
        if len(writes) == 2:
            return self._two_writers(width, memory, writes, reads)
        (write,) = writes
        assert not any(memory.init), "memories with one writer start as zeros"
        if memory.attrs:
            assert memory.attrs == ULTRA, "no other attribute of a memory is known"
            return self._ultra(width, memory.depth, write, reads)
        if len(reads) in (2, 3) and all(port.domain != "comb" for port in reads):
            return self._two_ports(width, memory.depth, write, reads)
        return self._one_writer(width, memory.depth, write, reads)

    def text(self) -> str:
        """The modules, in the order of their names."""
        return "\n".join(text for _, text in sorted(self._modules.items()))

    def _two_ports(self, width: int, depth: int, write: WritePort, reads: tuple[ReadPort, ...]) -> Instance:
        """True dual port, as `BankRam` uses it: the writer and the last reader share an address, and a write also reads.

        That read returns the word before the write, and nobody uses it. A port B that kept its last word instead would cost a
        register and a multiplexer beside every block RAM.

        With three readers, port A is the first two, which read neighbouring words: their addresses differ in the lowest bit. Block
        RAM has ports of unlike widths; this is UG901's form of them.
        """
        wide, bits = len(reads) == 3, ceil_log2(depth)
        name = f"cnna_ram_{width}x{depth}_{'wide' if wide else 'dual'}"
        about = "port A reads two words, port B reads one, and may write" if wide else "port B reads, and may write"
        ports = "a_en, a_addr, a_data, a_data1" if wide else "a_en, a_addr, a_data"
        addresses = f"[{bits - 2}:0] a_addr;\n  input [{bits - 1}:0] b_addr" if wide else f"[{bits - 1}:0] a_addr, b_addr"
        answers = "a_data, a_data1, b_data" if wide else "a_data, b_data"
        port_a = "a_data <= mem[a_addr];"
        if wide:
            port_a = "begin\n      a_data <= mem[{a_addr, 1'b0}];\n      a_data1 <= mem[{a_addr, 1'b1}];\n    end"
        self._modules[name] = f"""\
// {depth} words of {width} bits, true dual port; {about}.
module {name}(clk, {ports}, b_en, b_write, b_addr, b_word, b_data);
  input clk, a_en, b_en, b_write;
  input {addresses};
  input [{width - 1}:0] b_word;
  output reg [{width - 1}:0] {answers};
  (* ram_style = "block", cascade_height = {CASCADE_HEIGHT} *) reg [{width - 1}:0] mem [0:{depth - 1}];
{_zeros(depth, width)}
  always @(posedge clk)
    if (a_en) {port_a}
  always @(posedge clk)
    if (b_en) begin
      if (b_write) mem[b_addr] <= b_word;
      b_data <= mem[b_addr];
    end
endmodule
"""
        return self._dual(name, write, reads)

    @staticmethod
    def _dual(name: str, write: WritePort, reads: tuple[ReadPort, ...]) -> Instance:
        """An instance of what `_two_ports` or `_ultra` wrote."""
        *first, last = reads
        wide = len(first) == 2
        return Instance(
            name,
            i_clk=ClockSignal(write.domain),
            i_a_en=first[0].en,
            i_a_addr=first[0].addr[1:] if wide else first[0].addr,
            o_a_data=Value.cast(first[0].data),
            **({"o_a_data1": Value.cast(first[1].data)} if wide else {}),
            i_b_en=last.en,
            i_b_write=write.en,
            i_b_addr=write.addr,
            i_b_word=Value.cast(write.data),
            o_b_data=Value.cast(last.data),
        )

    def _ultra(self, width: int, depth: int, write: WritePort, reads: tuple[ReadPort, ...]) -> Instance:
        """True dual port in UltraRAM, for `BankRam`: like block RAM's, but a write keeps port B's last word.

        UltraRAM has no other mode (UG573, "UltraRAM Resources"): a port reads or writes in a clock. It starts as zeros and takes no
        initial value, so the text has none.
        """
        assert len(reads) == 2, "both ports of an UltraRAM are equally wide"
        name, bits = f"cnna_ram_{width}x{depth}_ultra", ceil_log2(depth)
        self._modules[name] = f"""\
// {depth} words of {width} bits in UltraRAM, true dual port; port B reads or writes.
module {name}(clk, a_en, a_addr, a_data, b_en, b_write, b_addr, b_word, b_data);
  input clk, a_en, b_en, b_write;
  input [{bits - 1}:0] a_addr, b_addr;
  input [{width - 1}:0] b_word;
  output reg [{width - 1}:0] a_data, b_data;
  (* ram_style = "{ULTRA["ram_style"]}" *) reg [{width - 1}:0] mem [0:{depth - 1}];
  always @(posedge clk)
    if (a_en) a_data <= mem[a_addr];
  always @(posedge clk)
    if (b_en) begin
      if (b_write) mem[b_addr] <= b_word;
      else b_data <= mem[b_addr];
    end
endmodule
"""
        return self._dual(name, write, reads)

    def _two_writers(self, width: int, memory: Memory, writes: tuple[WritePort, ...], reads: tuple[ReadPort, ...]) -> Instance:
        """True dual port: each writer shares its address with the reader of the same number. A write also reads, as above.

        Two `always` that write, one for each port, are UG901's form of such a memory.
        """
        bits, rows = ceil_log2(memory.depth), {row: value for row, value in enumerate(memory.init) if value}
        name = f"cnna_ram_{width}x{memory.depth}_writers"
        begun = "".join(f"\n    mem[{row}] = {width}'h{value:x};" for row, value in rows.items())
        text = f"""\
// {memory.depth} words of {width} bits, true dual port; both ports read, and may write.
module {name}(clk, a_write, a_addr, a_word, a_data, b_write, b_addr, b_word, b_data);
  input clk, a_write, b_write;
  input [{bits - 1}:0] a_addr, b_addr;
  input [{width - 1}:0] a_word, b_word;
  output reg [{width - 1}:0] a_data, b_data;
  (* ram_style = "block", cascade_height = {CASCADE_HEIGHT} *) reg [{width - 1}:0] mem [0:{memory.depth - 1}];
  integer i;
  initial begin
    for (i = 0; i < {memory.depth}; i = i + 1) mem[i] = {width}'d0;{begun}
  end
  always @(posedge clk) begin
    if (a_write) mem[a_addr] <= a_word;
    a_data <= mem[a_addr];
  end
  always @(posedge clk) begin
    if (b_write) mem[b_addr] <= b_word;
    b_data <= mem[b_addr];
  end
endmodule
"""
        assert self._modules.setdefault(name, text) == text, f"two memories of {name} begin with different words"
        ports: dict[str, Value] = {}
        for letter, write, read in zip("ab", writes, reads, strict=True):
            ports |= {f"i_{letter}_write": write.en, f"i_{letter}_addr": read.addr, f"o_{letter}_data": Value.cast(read.data)}
            ports[f"i_{letter}_word"] = Value.cast(write.data)
        return Instance(name, i_clk=ClockSignal(writes[0].domain), **ports)

    def _one_writer(self, width: int, depth: int, write: WritePort, reads: tuple[ReadPort, ...]) -> Instance:
        """One writer and any number of readers, each with a register behind it ("r") or without ("c")."""
        kinds = "".join("c" if port.domain == "comb" else "r" for port in reads)
        name, bits = f"cnna_ram_{width}x{depth}_{kinds}", max(1, ceil_log2(depth))
        ports = {
            "i_clk": ClockSignal(write.domain),
            "i_w_en": write.en,
            "i_w_addr": _address(write, bits),
            "i_w_data": Value.cast(write.data),
        }
        lines = [
            f"// {depth} words of {width} bits, one writer, {len(kinds)} reader{'s' * (len(kinds) > 1)}.",
            f"module {name}(clk, w_en, w_addr, w_data{''.join(f', {p}{n}_{s}' for n, p in _named(kinds) for s in _members(p))});",
            "  input clk, w_en;",
            f"  input [{bits - 1}:0] w_addr;",
            f"  input [{width - 1}:0] w_data;",
            f"  {_cascade(kinds)}reg [{width - 1}:0] mem [0:{depth - 1}];",
            _zeros(depth, width),
            "  always @(posedge clk)",
            "    if (w_en) mem[w_addr] <= w_data;",
        ]
        for (number, kind), port in zip(_named(kinds), reads, strict=True):
            reader = f"{kind}{number}"
            ports |= {f"i_{reader}_addr": _address(port, bits), f"o_{reader}_data": Value.cast(port.data)}
            lines.append(f"  input [{bits - 1}:0] {reader}_addr;")
            if kind == "c":
                lines += [f"  output [{width - 1}:0] {reader}_data;", f"  assign {reader}_data = mem[{reader}_addr];"]
                continue
            ports[f"i_{reader}_en"] = port.en
            lines += [
                f"  input {reader}_en;",
                f"  output reg [{width - 1}:0] {reader}_data;",
                "  always @(posedge clk)",
                f"    if ({reader}_en) {reader}_data <= mem[{reader}_addr];",
            ]
        self._modules[name] = "\n".join([*lines, "endmodule", ""])
        return Instance(name, **ports)


def _named(kinds: str) -> list[tuple[int, str]]:
    return list(enumerate(kinds))


def _cascade(kinds: str) -> str:
    """The attribute for what may become block RAM; only LUT RAM has readers without a register."""
    return "" if "c" in kinds else f"(* cascade_height = {CASCADE_HEIGHT} *) "


def _members(kind: str) -> tuple[str, ...]:
    return ("addr", "data") if kind == "c" else ("en", "addr", "data")


def _address(port: ReadPort | WritePort, bits: int) -> Value:
    """The address; that of a memory of one row has no bits, which Verilog cannot express, so it becomes one bit."""
    return port.addr if len(port.addr) else Const(0, bits)


def _zeros(depth: int, width: int) -> str:
    """An `initial` for the simulator; on the chip block RAM starts as zeros anyway."""
    return f"  integer i;\n  initial for (i = 0; i < {depth}; i = i + 1) mem[i] = {width}'d0;"
