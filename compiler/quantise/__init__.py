"""quantise."""
