"""`cnna.explore`, `cnna.tilings` and `cnna.search_choices`: which accelerator suits a network, and how its programs are planned.

`cli` and `api` import it; it imports `compiler.explore` inside functions, and the rest of `jobs`, none of which imports it.
Begin with `explore`, then `sweep`; `confirm` runs what was found on the RTL.
"""
