"""Simulates a program on a model of queues, rings, banks and DDR, and predicts when each command begins and ends.

`choose`, `compile` and `report` import it; it imports `cost` and `lower`.
Begin with `predict`, then `event_loop`.
"""
