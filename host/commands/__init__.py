"""The commands of `cnna`, one a module: `configure(parser)` adds its options, `run(args)` answers an `Outcome`.

`OUTPUTS` names the options that are files to write; the command line has checked those, against the other files too, before `run`.
"""
