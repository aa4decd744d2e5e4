"""The tests, a package of its own: pynq installs one of the same name, which would else be found by `python -m tests.agreement`."""
