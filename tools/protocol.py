"""Compiles serve/grpc/open_inference.proto to the Python module beside it, and to its types. `make pages` runs it.

.venv/bin/python tools/protocol.py
"""

import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

FOLDER = Path(__file__).resolve().parent.parent / "serve" / "grpc"
PROTO, MADE = "open_inference.proto", ("open_inference_pb2.py", "open_inference_pb2.pyi")


def compiled() -> dict[str, str]:
    """The files by name."""
    with tempfile.TemporaryDirectory() as folder:
        include = str(files("grpc_tools") / "_proto")
        code = protoc.main(["protoc", f"-I{FOLDER}", f"-I{include}", f"--python_out={folder}", f"--pyi_out={folder}", PROTO])
        if code:
            raise RuntimeError(f"protoc ended with code {code}")
        return {name: (Path(folder) / name).read_text() for name in MADE}


def main() -> int:
    """Writes them."""
    for name, text in compiled().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
