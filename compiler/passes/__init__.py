"""Graph rewrites, one a file; `pipeline` orders them."""
