"""Registers, program and state: what the host writes, how a program is played, what stops the accelerator.

`top` imports it; it imports `axi`, `dma` and `units`.
Begin with `regfile`, then `sequencer` and `control`.
"""
