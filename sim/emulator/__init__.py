"""The emulator: executes register programs on a memory image, without a clock.

`check`, `rtl` and `board` import it; it imports `cnna.spec` alone, so it runs beside numpy on any machine.
Begin with `emulator`, then `engines`.
"""
