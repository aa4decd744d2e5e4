"""Names that pynq and block designs go by: the IPs that drivers bind to, and the mark of a virtual board's image."""

from cnna.spec.regmap import VERSION

VENDOR, LIBRARY, NAME = "cnna", "ip", "cnna"
VLNV = f"{VENDOR}:{LIBRARY}:{NAME}:{VERSION[0]}.{VERSION[1]}"  # a new register map is a new version of the IP
DMA_VLNV = "xilinx.com:ip:axi_dma:7.1"  # the only one that pynq has a driver for
VIRTUAL = "Version=virtual"  # in the header of a virtual board's .bit, where Vivado has its own version
