"""What the accelerator is called as an IP: the name by which pynq binds its driver, and by which block designs hold it."""

from cnna.hw.regmap import VERSION

VENDOR, LIBRARY, NAME = "cnna", "ip", "cnna"
VLNV = f"{VENDOR}:{LIBRARY}:{NAME}:{VERSION[0]}.{VERSION[1]}"  # a new register map is a new version of the IP
