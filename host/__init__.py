"""Runs artifacts on a device: `cnna.InferenceSession` is what users take (docs/python.md).

Imports numpy alone; pynq, onnxruntime and the simulation are imported inside functions, where they are present. Every room may be
read by itself. Begin with `model/session.py`, then `device/accelerator.py`, the driver.
"""
