// The road to DDR: decides when commands and beats are taken, and when answers are there. The slave in `ddr_slave.h` asks it, and moves
// the data itself, so that no road can change a bit.

#pragma once

#include <cstdint>

constexpr int kPorts = 4;
constexpr unsigned kBeat = 16;  // bytes

struct Settings {
    int64_t bytes_per_clock = 48, latency = 120, write_latency = 120;
    int64_t outstanding = 64;  // bursts that a port takes before it answers the first; the plain road's
    int64_t road = 0;          // a number of `spec.ddr.ROADS`: 0 plain, 1 the PS's DDR4 of a ZCU102 (3: revision 1.1), 2 the PL's
    int64_t mts = 2400;        // million transfers a second of the PS's DDR4
    int64_t clock_mhz = 300;   // of the accelerator
    int64_t ports = kPorts;    // that the accelerator has, from port 0 on; the plain road's
};

// One clock of the slave: `begin_clock`, then for each port what it took (`read_taken`, `write_taken`, `beat_taken` or `beat_missed`),
// then what it gives and promises. Questions change nothing, except `spend`.
class Road {
  public:
    virtual ~Road() = default;

    // idle: nothing is under way on any port.
    virtual void begin_clock(uint64_t now, bool idle) = 0;
    virtual int first_port() const { return 0; }  // the port that is served first in this clock

    virtual void read_taken(int port, uint64_t address, unsigned beats) = 0;
    virtual void write_taken(int port, uint64_t address, unsigned beats) = 0;
    virtual void beat_taken(int port) = 0;
    virtual void beat_missed(int) {}         // a beat was promised a place, and did not come
    virtual void beat_written(int, bool) {}  // the memory has a beat whose burst is known; whether it is the burst's last
    virtual void beat_given(int port, bool last) = 0;
    virtual void response_given(int port) = 0;

    virtual bool read_ready(int port) const = 0;      // the next beat of the oldest read can be given
    virtual bool response_ready(int port) const = 0;  // the oldest write can be answered
    virtual bool room_for_read(int port) const = 0;
    virtual bool room_for_write(int port) const = 0;
    virtual bool room_for_beat(int port) const = 0;
    virtual bool spend(int) { return true; }  // takes bandwidth for a beat, if there is enough

    virtual void reset_port(int port) = 0;
};
