// Which sources this library was built from; build.py defines CNNA_SOURCES.
#include "cnna_host.h"

const char *cnna_host_sources(void) { return CNNA_SOURCES; }
