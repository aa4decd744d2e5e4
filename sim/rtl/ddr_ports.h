// The road of a ZCU102: the accelerator's ports with their FIFOs (AFI, UG1085 chapter 35), the controller's ports, and a DDR4 channel.
//
// A read leaves its port's queue when the data FIFO has room for all of its beats; a beat's room is free again when the accelerator has
// taken it. A write leaves when all of its beats are in the FIFO, and a beat's room is free again when the controller has the access.
// The controller cuts bursts into accesses, takes one in a tick from its ports in turn, and answers each port in order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "ddr_channel.h"
#include "ddr_road.h"

struct PortLimits {
    size_t queued, issued;    // commands of a port and direction: waiting, and under way
    unsigned fifo_beats;      // of a port and direction
    int controller_port[kPorts];
    unsigned ticks_per_beat;  // of a port of the controller
};

class BoardRoad : public Road {
  public:
    BoardRoad(const Settings& settings, const Part& part, const PortLimits& limits)
        : settings_(settings), part_(part), limits_(limits), channel_(part) {}

    void begin_clock(uint64_t now, bool idle) override {
        now_ = now;
        if (!idle || !channel_.empty()) idle_since_ = now_;
        if ((now_ - idle_since_) * part_.tick_khz >= channel_.rest_ticks() * clock_khz()) rest();
        for (phase_ += part_.tick_khz; phase_ >= clock_khz(); phase_ -= clock_khz()) tick();
        for (int port = 0; port < kPorts; ++port) {
            issue_read(ports_[port]);
            issue_write(ports_[port]);
        }
    }

    void read_taken(int port, uint64_t address, unsigned beats) override { queue(ports_[port].reads.waiting, address, beats); }
    void write_taken(int port, uint64_t address, unsigned beats) override { queue(ports_[port].writes.waiting, address, beats); }
    void beat_taken(int port) override {
        ++ports_[port].writes.held;
        ++ports_[port].writes.unissued;
        ports_[port].writes.last_beat = now_;
    }
    void beat_given(int port, bool) override {
        ports_[port].reads.fifo.pop_front();
        --ports_[port].reads.held;
    }
    void response_given(int port) override { ports_[port].writes.responses.pop_front(); }

    bool read_ready(int port) const override { return due(ports_[port].reads.fifo); }
    bool response_ready(int port) const override { return due(ports_[port].writes.responses); }
    bool room_for_read(int port) const override { return ports_[port].reads.waiting.size() < limits_.queued; }
    bool room_for_write(int port) const override { return ports_[port].writes.waiting.size() < limits_.queued; }
    bool room_for_beat(int port) const override { return ports_[port].writes.held < limits_.fifo_beats; }

    // Also drops what the controller has of the port: a reset of the accelerator resets its ports.
    void reset_port(int port) override {
        ports_[port].dropped = ports_[port].asked_before + ports_[port].reads.asked.size();
        uint64_t dropped = ports_[port].dropped;
        ports_[port] = Port();
        ports_[port].dropped = ports_[port].asked_before = dropped;
    }

  private:
    static constexpr unsigned kBurst = 16;       // beats of a burst inside
    static constexpr uint64_t kWriteTicks = 2;   // from a write's last access at the controller to its response there

    struct Command {
        uint64_t address;
        unsigned beats;
        bool last;    // no other part of the accelerator's burst follows
        uint64_t at;  // clock from which the controller can have it
    };
    struct Asked {  // a read access
        unsigned beats;
        bool done, last;
    };
    struct Reads {
        std::deque<Command> waiting, arriving;
        std::deque<Asked> asked;    // accesses that the controller has, oldest first
        std::deque<uint64_t> fifo;  // clocks from which beats can be given
        unsigned held = 0;          // beats that have room in the FIFO
        size_t issued = 0;
    };
    struct Writes {
        std::deque<Command> waiting, arriving;
        std::deque<uint64_t> responses;
        unsigned held = 0, unissued = 0;  // beats in the FIFO: all, and those whose burst has not left
        size_t issued = 0;
        uint64_t last_beat = 0;
    };
    struct Port {
        Reads reads;
        Writes writes;
        uint64_t asked_before = 0, dropped = 0;  // number of the oldest access in `asked`; the first that is not of an earlier life
    };
    struct Lane {  // a port of the controller: one direction's data path
        int turn = 0;           // the HP port whose burst is under way, or that comes first
        uint64_t free_at = 0;   // tick
    };

    uint64_t clock_khz() const { return static_cast<uint64_t>(settings_.clock_mhz) * 1000; }
    unsigned access_beats() const { return (1u << part_.layout.access_bits) / kBeat; }
    bool due(const std::deque<uint64_t>& clocks) const { return !clocks.empty() && clocks.front() <= now_; }

    // Clocks of an idle read or write that the ways there and back take: what is left of the latency without the channel.
    uint64_t ways(int64_t latency, uint64_t ticks) const {
        uint64_t own = (ticks * clock_khz() + part_.tick_khz - 1) / part_.tick_khz;
        return static_cast<uint64_t>(latency) > own ? static_cast<uint64_t>(latency) - own : 0;
    }
    uint64_t read_ways() const { return ways(settings_.latency, channel_.idle_ticks() + 3); }
    uint64_t write_ways() const {
        return ways(settings_.write_latency, kWriteTicks + (kBurst - access_beats()) * limits_.ticks_per_beat);
    }

    static void queue(std::deque<Command>& commands, uint64_t address, unsigned beats) {
        for (; beats > kBurst; beats -= kBurst, address += kBurst * kBeat) commands.push_back(Command{address, kBurst, false, 0});
        commands.push_back(Command{address, beats, true, 0});
    }

    void issue_read(Port& port) {
        Reads& reads = port.reads;
        if (reads.waiting.empty() || reads.issued >= limits_.issued) return;
        Command& next = reads.waiting.front();
        if (reads.held + next.beats > limits_.fifo_beats) return;
        reads.held += next.beats;
        ++reads.issued;
        next.at = now_ + read_ways() / 2;
        reads.arriving.push_back(next);
        reads.waiting.pop_front();
    }

    void issue_write(Port& port) {
        Writes& writes = port.writes;
        if (writes.waiting.empty() || writes.issued >= limits_.issued) return;
        Command& next = writes.waiting.front();
        if (writes.unissued < next.beats) return;
        writes.unissued -= next.beats;
        ++writes.issued;
        next.at = now_ + write_ways() / 2;
        writes.arriving.push_back(next);
        writes.waiting.pop_front();
    }

    // One tick: the channel's, then at most one access for it, then a beat of each of the controller's ports.
    void tick() {
        ++ticks_;
        channel_.tick();
        for (uint64_t tag; channel_.take_done(tag);) {
            Port& port = ports_[tag % kPorts];
            uint64_t number = tag / kPorts;
            if (number >= port.dropped) port.reads.asked[number - port.asked_before].done = true;
        }
        for (int turn = 0; turn < 2 * kLanes; ++turn) {  // reads and writes of each of the controller's ports
            int choice = (first_choice_ + turn) % (2 * kLanes);
            if (choice % 2 ? send_write(choice / 2) : send_read(choice / 2)) {
                first_choice_ = choice + 1;
                break;
            }
        }
        for (int lane = 0; lane < kLanes; ++lane) answer(lane);
    }

    // The HP port of a lane whose turn it is, of those for which `ready` is true; -1: none.
    template <typename Ready>
    int next_port(int lane, int turn, Ready ready) const {
        for (int step = 0; step < kPorts; ++step) {
            int port = (turn + step) % kPorts;
            if (limits_.controller_port[port] == lane && ready(ports_[port])) return port;
        }
        return -1;
    }

    bool send_read(int lane) {
        if (!channel_.room(false)) return false;
        auto ready = [this](const Port& port) { return !port.reads.arriving.empty() && port.reads.arriving.front().at <= now_; };
        int index = next_port(lane, read_[lane].turn, ready);
        if (index < 0) return false;
        Port& port = ports_[index];
        Command& command = port.reads.arriving.front();
        unsigned beats = to_boundary(command);
        uint64_t number = port.asked_before + port.reads.asked.size();
        channel_.add(false, command.address, number * kPorts + static_cast<uint64_t>(index));
        port.reads.asked.push_back(Asked{beats, false, beats == command.beats});
        read_[lane].turn = advance(port.reads.arriving, beats) ? index + 1 : index;
        return true;
    }

    bool send_write(int lane) {
        Lane& path = write_[lane];
        if (ticks_ < path.free_at || !channel_.room(true)) return false;
        auto ready = [this](const Port& port) { return !port.writes.arriving.empty() && port.writes.arriving.front().at <= now_; };
        int index = next_port(lane, path.turn, ready);
        if (index < 0) return false;
        Writes& writes = ports_[index].writes;
        Command& command = writes.arriving.front();
        unsigned beats = to_boundary(command);
        bool last = command.last;
        channel_.add(true, command.address, 0);
        writes.held -= beats;
        path.free_at = ticks_ + beats * limits_.ticks_per_beat;
        bool ends = advance(writes.arriving, beats);
        path.turn = ends ? index + 1 : index;
        if (ends) {
            --writes.issued;
            if (last) writes.responses.push_back(now_ + write_ways() - write_ways() / 2);
        }
        return true;
    }

    unsigned to_boundary(const Command& command) const {
        unsigned size = access_beats() * kBeat;
        unsigned beats = static_cast<unsigned>((size - command.address % size) / kBeat);
        return beats < command.beats ? beats : command.beats;
    }

    // Returns whether that was the burst's last access.
    static bool advance(std::deque<Command>& arriving, unsigned beats) {
        Command& command = arriving.front();
        command.address += uint64_t{beats} * kBeat;
        command.beats -= beats;
        if (command.beats) return false;
        arriving.pop_front();
        return true;
    }

    // A beat of the oldest access of one of the lane's HP ports goes back to its FIFO.
    void answer(int lane) {
        Lane& path = answer_[lane];
        if (ticks_ < path.free_at) return;
        auto ready = [](const Port& port) { return !port.reads.asked.empty() && port.reads.asked.front().done; };
        int index = next_port(lane, path.turn, ready);
        if (index < 0) return;
        Port& port = ports_[index];
        Asked& access = port.reads.asked.front();
        port.reads.fifo.push_back(now_ + read_ways() - read_ways() / 2);
        path.free_at = ticks_ + limits_.ticks_per_beat;
        path.turn = index;
        if (--access.beats) return;
        path.turn = index + 1;
        if (access.last) --port.reads.issued;
        port.reads.asked.pop_front();
        ++port.asked_before;
    }

    void rest() {
        channel_.rest();
        phase_ = ticks_ = 0;
        first_choice_ = 0;
        for (int lane = 0; lane < kLanes; ++lane) read_[lane] = write_[lane] = answer_[lane] = Lane();
    }

    static constexpr int kLanes = 3;

    const Settings& settings_;
    const Part part_;
    const PortLimits limits_;
    Channel channel_;
    Port ports_[kPorts];
    Lane read_[kLanes], write_[kLanes], answer_[kLanes];
    uint64_t now_ = 0, idle_since_ = 0, phase_ = 0, ticks_ = 0;
    int first_choice_ = 0;
};
