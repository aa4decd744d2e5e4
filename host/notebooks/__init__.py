"""Notebooks for a board, real or virtual: `pynq get-notebooks cnna` copies them to where Jupyter looks. No code of the package."""
