"""Runs artifacts on a device. Imports numpy alone; pynq and onnxruntime inside functions, where they are present."""
