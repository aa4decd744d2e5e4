"""verilog."""
