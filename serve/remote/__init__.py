"""The runtime `remote`: a model of another server of the Open Inference Protocol, over gRPC (extra `serve`).

A worker opens it by its entry point; nothing imports it. Begin with `remote_model`.
"""
