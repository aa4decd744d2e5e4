"""The accelerator in Amaranth, and the declarations that all other parts read: `config`, `regmap`."""
