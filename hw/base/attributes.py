"""Synthesis attributes: what must not be optimised away or merged, said in the Verilog itself, so that every flow obeys.

The one place that states them. A signal gets one as `Signal(attrs=COPY)`; `kept_attributes.py` puts them where tools look for them.

*Registers that are equal* (`COPY`): a control bit that drives much has a copy in each of the modules it drives, or its net would
have thousands of loads. Tools merge such registers once they see through the borders of modules, which Vivado does with
`-flatten_hierarchy rebuilt` (UG901, "Using Synthesis Settings"), unless
- Vivado finds DONT_TOUCH, which does what KEEP does and holds in place and route too, so `opt_design` leaves the copies apart
  as well (UG901 and UG912, "DONT_TOUCH"; UG904, "Equivalent Driver Merging"). It is not supported on a module's port.
- Quartus finds `dont_merge` (Quartus Prime Pro, Design Recommendations and Compiler guides, "Disable Register Merging/Don't Merge
  Register"); `preserve` would also stop retiming.
- Yosys finds `keep` on the cell: `opt_merge` does not look at wires. A flip-flop inherits it from its `always`.

*Nets that are equal* (`NET`): an enable that each module makes for itself. Vivado as above; Quartus keeps a net by `keep`. Yosys
merges what makes them, whatever the nets say, but leaves the border of a module alone that has KEEP_HIERARCHY, as Vivado does
(UG901, "KEEP_HIERARCHY"). Amaranth's modules take no attributes, so the net brings it.

*Chains* (`CHAIN`, on a chain's last register): Vivado and Yosys put registers in a row into a shift register LUT, whose output is
slow, where a chain ends in front of DSPs or of many copies. SRL_STYLE "srl_reg" leaves the last register one, and belongs on
that one (UG901, "SRL_STYLE"); all of them as registers would cost 19,000 flip-flops more at `zcu102`.

*Pairs* (`PAIR`, on the second register of a delay of two clocks): tools leave fewer than three in a row as registers, unless
SRL_STYLE asks for a shift register LUT (UG901). That is a LUT for two flip-flops, where a value leads to a register or few LUTs.

*Block RAMs* (`CASCADE_HEIGHT`): a memory deeper than one block may become a cascade of blocks, one behind the other in a clock.
1 forbids that (UG901 and UG912, "CASCADE_HEIGHT"): the blocks stand side by side, each with some bits of a word.

*UltraRAM* (`ULTRA`, on a memory): RAM_STYLE "ultra" asks for it (UG901, "RAM_STYLE"); no tool takes it unasked for a memory that
suits block RAM. Banks deeper than its 4,096 words become cascades of two, for which it has wires of its own.
"""

KEEP = {"keep": "true"}  # a net between LUTs: it is one of a kind, so that nothing could be merged with it
COPY = {"keep": "true", "dont_touch": "true", "dont_merge": "true"}
NET = {"keep": "true", "dont_touch": "true", "keep_hierarchy": "yes"}
CHAIN = {"srl_style": "srl_reg"}
PAIR = {"srl_style": "srl"}
CASCADE_HEIGHT = 1
ULTRA = {"ram_style": "ultra"}
