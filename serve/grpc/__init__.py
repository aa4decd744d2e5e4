"""The gRPC front: the protocol over grpc.aio (extra `serve`).

The command line imports it. `open_inference.proto` is the interface, and `make pages` compiles it. Begin with `service`.
"""
