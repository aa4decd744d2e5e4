"""Measures how quick models are under the load of MLPerf's LoadGen: `cnna bench` (docs/benchmarks.md; extra `bench`).

`jobs` stands on it. Begin with `benchmark`, which runs a matrix of rows. `load` starts LoadGen in a process of its own, which is
`load_process`; where the device is simulated, `simulated` says when answers come and `virtual_clock.c` what time it is.
"""
