"""Configurations for tests only: small ones whose sizes meet every edge that presets do not meet."""

from dataclasses import replace

from cnna.spec.config import Config

LITTLE = Config("little", pix=2, ci=4, co=8, ports=1, regions=1, bank_words=256, ring_words=64, vector_ring_words=256)
ODD = Config("odd", pix=4, ci=8, co=24, ports=3, regions=3, bank_words=512, ring_words=200, vector_ring_words=264)
CODED = replace(ODD, name="odd-codebook1", codebook=True)  # its simulator serves many tests, with and without codes
