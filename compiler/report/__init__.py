"""`cnna report`: what an artifact is predicted to cost and did cost, as text, HTML, picture and trace.

`noise_page` shows what quantisation costs. The command line and `explore` import it; it imports `predict` and `cost`.
Begin with `report`.
"""
