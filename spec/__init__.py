"""What the accelerator, the compiler, the simulation and the host agree on.

Configuration, register map, numerics, commands, artifact, errors and the constants of the machine: each has its one home here.
Every room may import this package. It imports none of them, and of other packages only numpy, so that it works on a board.
Rooms inside: `program` (commands), `samples` (bytes of inputs), `host_time` (what the host takes), `checks` (of artifacts).
Begin with `regmap` (the programming interface) and `config` (the sizes of an accelerator).
"""
