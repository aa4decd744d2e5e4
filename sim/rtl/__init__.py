"""Runs the generated Verilog under Verilator: the build, the simulator's process, and the models of DDR and streams.

`check`, `testbench` and `board` import it; it imports `emulator` and, to generate Verilog, `hw.verilog`.
Begin with `cosim`, then `build` and `ddr.cpp`.
"""
