"""The virtual ZCU102: the block design as data, what is made from it, and the server that the stock `pynq` package talks to.

The command line imports it; it imports `emulator`, `rtl` and `hw.axi`.
Begin with `board`, then `design` and `services`.
"""
