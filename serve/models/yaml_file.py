"""Reads the YAML files of a server: model.yaml, pipeline.yaml, boards.yaml. Whatever is wrong with one is one line."""

from pathlib import Path
from typing import Any

from cnna.spec.errors import ToolError, UserError
from cnna.spec.extras import install
from cnna.spec.files import read_bytes

# What PyYAML raises for values that are none of their tag: 2020-99-99, `!!int a`, `!!bool a`, `!!timestamp a`, `!!map [a]`
WRONG = (ValueError, KeyError, AttributeError, TypeError, RecursionError)


def read_yaml(path: Path, without: str) -> Any:
    """What a file says. UserError: it is no YAML, or says something twice. without: what to do where PyYAML is missing."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise ToolError(f"{path}: needs PyYAML: {install('serve')}, or {without}") from None

    class Loader(yaml.SafeLoader):
        """Refuses a key that comes twice, of which PyYAML would take the last."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value]
            if again := next((key for place, (key, _) in enumerate(node.value) if key.value in keys[:place]), None):
                raise UserError(f"{path}: line {again.start_mark.line + 1}: the key {again.value!r} comes twice")
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(read_bytes(path).decode(), Loader)
    except (yaml.YAMLError, *WRONG) as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
