"""What the host takes for a picture: counts of its work, a model of the processor, and the seconds that both give.

Begin with `end_to_end`; `host_model` has every constant with its source.
"""
