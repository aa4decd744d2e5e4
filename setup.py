"""The long description: README.md with absolute links, because PyPI shows it alone. All else is in pyproject.toml."""

import re
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
SOURCE = re.search(r'^Source = "(.*)"', (HERE / "pyproject.toml").read_text(), re.M)
assert SOURCE
PAGES, FILES = f"{SOURCE[1]}/blob/main/", f"{SOURCE[1]}/raw/main/"  # a picture is shown from its raw file

text = (HERE / "README.md").read_text()
text = re.sub(r"(!\[[^]]*\]\()(?!\w+:|#)", rf"\g<1>{FILES}", text)
text = re.sub(r"((?<!!)\[[^]!]*\]\()(?!\w+:|#)", rf"\g<1>{PAGES}", text)
setup(long_description=text, long_description_content_type="text/markdown")
