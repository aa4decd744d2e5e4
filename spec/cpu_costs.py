"""How fast the host's CPU is assumed to be: constants for the four Cortex-A53 of a ZCU102 at 1.2 GHz, with Python and onnxruntime.

They are estimates from the data sheet's peak and common efficiencies; no board has confirmed them. The compiler uses them to choose
the quicker of two placements, and to predict the seconds of a piece on the CPU. It measures nothing while it compiles, so equal
input gives equal artifacts.
"""

MACS_A_SECOND = 4e9  # in float32: 4 cores x 1.2 GHz x 2 multiply-accumulates a clock of their 64-bit NEON, at 40 %
ELEMENT_SECONDS = 2.5e-9  # to read or write a float32 in an operator: 1.6 GB/s
NODE_SECONDS = 20e-6  # to call one operator
PIECE_SECONDS = 200e-6  # to call onnxruntime for one piece
PACK_SECONDS = 5e-9  # to round or unpack one element that goes to or comes from the accelerator
START_SECONDS = 150e-6  # to set the accelerator's registers, start it and take its interrupt
