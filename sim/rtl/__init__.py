"""Runs the generated Verilog under Verilator: the build, the simulator's process, and the models of DDR and streams.

`check`, `testbench`, `board`, `jobs` and the command line import it; it imports `emulator` and, to generate Verilog, `hw.verilog`.
Begin with `cosim`, then `build` and `ddr.cpp`.
"""
