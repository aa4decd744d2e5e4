// The DDR4 of a ZCU102: timings, address bits and limits. docs/speed.md, "The road to DDR", says where they come from.

#pragma once

#include "ddr_channel.h"
#include "ddr_ports.h"

// The PS's: 64 bits, x8 devices of 4 Gb, columns in bits 3-12, groups in 13-14, banks in 15-16. The values at 2133 MT/s are what the
// start code of a ZCU102 writes to DRAMTMG0-9 and RFSHTMG; those at 2400 are of the same ns, rounded as the controller wants it.
constexpr Layout kPsLayout{6, 13, 2, 15, 2, 17};
constexpr Part kPs2133{533333, 33, 64, kPsLayout, Timing{2, 3, 2, 3, 17, 8, 9, 18, 26, 10, 6, 11, 14, 4, 17, 139, 4160}};
constexpr Part kPs2400{600000, 33, 64, kPsLayout, Timing{2, 3, 2, 3, 18, 9, 9, 19, 28, 11, 6, 12, 15, 4, 19, 156, 4672}};
constexpr PortLimits kPsPorts{8, 16, 128, {0, 1, 1, 2}, 1};  // HP0, HP1 and HP2, HP3

// The PL's: 16 bits, one x16 device of 4 Gb at 2,666 MT/s, group and bank in the lowest bits (PG150). One port of 128 bits at a quarter
// of the DDR's clock, behind an interconnect with buffers.
constexpr Layout kPlLayout{4, 4, 1, 5, 2, 14};
constexpr Part kPl2666{666667, 16, 16, kPlLayout, Timing{2, 4, 4, 5, 20, 10, 10, 22, 31, 12, 6, 11, 14, 5, 19, 174, 5200}};
constexpr PortLimits kPlPorts{16, 32, 512, {0, 0, 0, 0}, 2};
