"""`cnna report`: what an artifact is predicted to cost and did cost, as text, HTML, picture and trace.

`noise_page` shows what quantisation costs. `jobs`, the command line and `evaluate` import it, and `explain` and `explore`
its pages; it imports `predict` and `cost`.
Begin with `report`.
"""
