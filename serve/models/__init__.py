"""What is served: a repository's folders, the settings of a model, what its versions take and give, its golden answers.

The engine imports it. It never runs anything. Begin with `repository`.
"""
