"""Files of `selftest_network`: its artifact for each preset, and the answers. No code; `tools/selftest_network.py` writes them."""
