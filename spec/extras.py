"""What to type to install a group of packages that cnna can do without: the extras of pyproject.toml.

cnna is not on PyPI, so a name alone installs nothing: pip installs from a clone. Every remedy that a user reads comes from here.
It imports no package, since even numpy may be missing.
"""

from cnna.spec.errors import ToolError

OWN = ("cli", "host", "jobs", "spec")  # rooms that need numpy alone


def install(*extras: str) -> str:
    """The remedy for missing packages. extras: groups of pyproject.toml."""
    return f"pip install '.[{','.join(extras)}]' in the folder of cnna's clone"


def missing_tool(missing: ImportError) -> Exception:
    """An error that says how to install a missing package of the tools; a fault of our own stays as it is."""
    package, _, inside = (missing.name or "").partition(".")
    if not package or (package == "cnna" and inside.startswith(OWN)):
        return missing
    return ToolError(f"the package {package} is missing: {install('tools')} (cnna doctor lists what is there)")
