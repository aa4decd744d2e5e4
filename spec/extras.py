"""What to type to install a group of packages that cnna can do without: the extras of pyproject.toml.

cnna is not on PyPI, so a name alone installs nothing: pip installs from a clone. Every remedy that a user reads comes from here.
"""


def install(*extras: str) -> str:
    """The remedy for missing packages. extras: groups of pyproject.toml."""
    return f"pip install '.[{','.join(extras)}]' in the folder of cnna's clone"
