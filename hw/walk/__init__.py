"""Walks over output pixels: which feature words an engine reads and writes, several pixels a clock.

`array`, `vector` and `memory` import it; it imports `hw.base`.
Begin with `walk` (the command and its set-up), then `walker` (the module that runs it), `fetch` (reads) and `scatter` (writes).
"""
