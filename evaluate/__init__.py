"""Measures models on a user's data: `cnna eval`. Several models answer the same samples, side by side.

The command line stands on it. Begin with `evaluate`: it reads data (`datasets`), runs models (`runners`), keeps what they have
answered (`journal`), and has it judged (`tasks`). `page` and `text` show the result. `speed` is about how quick models are.
"""
