// The DDR4 of a ZCU102: timings, address bits and limits. docs/speed.md, "The road to DDR", says where they come from.

#pragma once

#include "ddr_channel.h"
#include "ddr_ports.h"

// The PS's: 64 bits, x8 devices of 4 Gb. On boards of revision 1.0 columns are in bits 3-12, groups in 13-14; from revision 1.1 on one
// bit of the group is bit 6, so that accesses that follow each other lie in two groups. Banks are in 15-16. The values at 2133 MT/s are
// what the start code of revision 1.0 writes to DRAMTMG0-9 and RFSHTMG; those at 2400 are of the same ns, rounded as the controller
// wants it.
constexpr Timing kPs2133{2, 3, 2, 3, 17, 8, 9, 18, 26, 10, 6, 11, 14, 4, 17, 139, 4160};
constexpr Timing kPs2400{2, 3, 2, 3, 18, 9, 9, 19, 28, 11, 6, 12, 15, 4, 19, 156, 4672};
constexpr Layout kRevision10{6, 2, {13, 14}, 15, 2, 17};
constexpr Layout kRevision11{6, 2, {6, 14}, 15, 2, 17};
constexpr Part ps_part(bool fast, const Layout& layout) {
    return fast ? Part{600000, 33, 64, layout, kPs2400} : Part{533333, 33, 64, layout, kPs2133};
}
constexpr PortLimits kPsPorts{8, 16, 128, {0, 1, 1, 2}, 1};  // HP0, HP1 and HP2, HP3

// The PL's: 16 bits, one x16 device of 4 Gb at 2,666 MT/s, group and bank in the lowest bits (PG150). One port of 128 bits at a quarter
// of the DDR's clock, behind an interconnect with buffers.
constexpr Layout kPlLayout{4, 1, {4, 0}, 5, 2, 14};
constexpr Part kPl2666{666667, 16, 16, kPlLayout, Timing{2, 4, 4, 5, 20, 10, 10, 22, 31, 12, 6, 11, 14, 5, 19, 174, 5200}};
constexpr PortLimits kPlPorts{16, 32, 512, {0, 0, 0, 0}, 2};
