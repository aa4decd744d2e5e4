"""The native host library: C++ for what the host does with every byte of a picture, and Python around it.

`host/device`, `host/board` and `host/model` import it; it imports `cnna.spec` alone. Without the library, numpy does the same,
equal to the bit. Begin with `tensors`, then `cnna_host.h`, the door of the C++ (docs/host.md).
"""
