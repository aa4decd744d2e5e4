"""The virtual ZCU102: the block design as data, what is made from it, and the server that the stock `pynq` package talks to."""
