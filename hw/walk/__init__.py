"""walk."""
