"""What IPs are called by which pynq binds drivers, and which block designs hold: the accelerator, and variant `pl`'s DMA."""

from cnna.hw.regmap import VERSION

VENDOR, LIBRARY, NAME = "cnna", "ip", "cnna"
VLNV = f"{VENDOR}:{LIBRARY}:{NAME}:{VERSION[0]}.{VERSION[1]}"  # a new register map is a new version of the IP
DMA_VLNV = "xilinx.com:ip:axi_dma:7.1"  # the only one that pynq has a driver for
