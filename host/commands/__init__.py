"""The commands of `cnna`, one a module: `configure(parser)` adds its options, `run(args)` answers an `Outcome`."""
