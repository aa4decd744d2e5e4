"""Simulates a program on a model of queues, rings, banks and DDR, and predicts when each command begins and ends.

`choose`, `compile` and `report` import it; it imports `cost` and `lower`.
Begin with `predict`, then `event_loop`. `machine_code` says in which form the modules run.
"""

from cnna.compiler.predict import machine_code

if machine_code.usable():
    __path__.insert(0, str(machine_code.FOLDER))
