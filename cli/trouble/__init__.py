"""What helps when something goes wrong: `cnna doctor`, the text that it writes for a report, and the last error, kept for it.

Part of `cli`: `doctor` is the command. `main` keeps each error by `last_error`. Begin with `doctor`.
"""
