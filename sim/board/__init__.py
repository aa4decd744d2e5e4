"""The virtual board: the block design as data, the files made from it, and the server to which the stock `pynq` package connects.

The command line imports it; it imports `emulator`, `rtl` and `hw.axi`.
Begin with `board`, then `design` and `services`.
"""
