"""What a detector's heads are, and their decode in numpy: from int8 head tensors to candidates.

The compiler finds heads and the host decodes them (docs/detectors.md). Begin with `heads`.
"""
