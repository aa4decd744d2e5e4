"""What a model is called: by the name of its graph or, where an exporter gives that name to all graphs, by its file."""

from pathlib import Path

ALL_ALIKE = ("", "main_graph", "torch_jit", "torch-jit-export", "main", "graph", "model", "tf2onnx")
ALTERED = ("torch_jit_", "main_graph_")  # beginnings of names that torch and tools make of these


def called(name: str, file: str | Path) -> str:
    """The graph's name, if it says anything; or else the file's, without its ending."""
    alike = name in ALL_ALIKE or name.startswith(ALTERED)
    return (Path(file).stem or name or "model") if alike else name
