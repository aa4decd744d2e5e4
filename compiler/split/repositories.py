"""The repositories of both sides of a cut: a pipeline with a remote model at the edge, and a model of onnxruntime in the cloud."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from cnna.compiler.split.cuts import Cut, Cuts
from cnna.compiler.split.halves import Halves
from cnna.spec.files import make_folder, write_bytes, write_text


def write(root: Path, address: str, name: str, cuts: Cuts, cut: Cut, halves: Halves) -> None:
    """DIR/edge.onnx, and the repositories DIR/edge and DIR/cloud. They may have other models; if writing fails, DIR is removed."""
    cloud, here, pipeline = f"{name}-cloud", root / "edge", root / "edge" / name
    try:
        for folder in (pipeline, here / cloud / "1", root / "cloud" / cloud / "1"):
            make_folder(folder)
        write_bytes(root / "edge.onnx", halves.edge.SerializeToString())
        write_bytes(root / "cloud" / cloud / "1" / "model.onnx", halves.cloud.SerializeToString())
        write_text(root / "cloud" / cloud / "model.yaml", "runtime: onnxruntime\n")
        remote = {"address": address, "model": cloud}
        write_text(here / cloud / "model.yaml", f"runtime: remote\nremote: {json.dumps(remote)}\n")
        if halves.pack is not None:
            write_bytes(pipeline / "pack.onnx", halves.pack.SerializeToString())
        write_text(pipeline / "pipeline.yaml", _pipeline(name, cuts, cut, halves))
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise


def _pipeline(name: str, cuts: Cuts, cut: Cut, halves: Halves) -> str:
    """Its steps: the edge's half, the pack, and the cloud's. JSON is YAML too, and quotes every name."""
    inputs, sizes = [one.name for one in cuts.model.graph.input], {}
    for one in cuts.model.graph.input:
        shape = [size.dim_value or -1 for size in one.type.tensor_type.shape.dim]
        kind = np.dtype(helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type)).name
        sizes[one.name] = {"type": kind, "shape": [-1, *shape[1:]]}
    given = [one.name for one in halves.edge.graph.input]
    packed = {one.name for one in halves.pack.graph.output} if halves.pack is not None else set()
    steps: dict[str, Any] = {"edge": {"model": f"{name}-edge", "inputs": {one: one for one in given}}}
    if halves.pack is not None:
        steps["pack"] = {"onnx": "pack.onnx", "inputs": {one.name: f"edge.{one.name}" for one in halves.pack.graph.input}}
    sources = {}
    for crossing in cut.crossings:
        step = "pack" if crossing.name in packed else "edge"
        sources[crossing.name] = crossing.name if crossing.name in inputs else f"{step}.{crossing.name}"
    steps["cloud"] = {"model": f"{name}-cloud", "inputs": sources}
    outputs = {one.name: f"cloud.{one.name}" for one in cuts.model.graph.output}
    lines = [f"# Written by cnna split: cut behind {cut.node}.", "inputs:", *_entries(sizes), "steps:", *_entries(steps)]
    return "\n".join([*lines, "outputs:", *_entries(outputs)]) + "\n"


def _entries(table: dict[str, Any]) -> list[str]:
    return [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in table.items()]
