"""The accelerator in Amaranth, a folder for each kind of module; `top` alone stands here and connects them.

It imports `cnna.spec` and nothing else of the project. `sim/rtl` generates Verilog from it through `hw.verilog`.
Begin with `top`, with docs/engines.md beside it.
"""
