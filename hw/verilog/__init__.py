"""From Amaranth to Verilog that every tool accepts, and the register map as documents.

`sim/rtl` imports it; it imports every other room of `hw`.
Begin with `writer`.
"""
