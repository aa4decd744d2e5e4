// The plain road: all ports share so many bytes a clock, reads and writes together, and answers come after fixed latencies.

#pragma once

#include <deque>

#include "ddr_road.h"

class PlainRoad : public Road {
  public:
    explicit PlainRoad(const Settings& settings) : settings_(settings) {}

    void begin_clock(uint64_t now, bool idle) override {
        now_ = now;
        credit_ += settings_.bytes_per_clock;
        if (credit_ > settings_.bytes_per_clock + kBeat - 1) credit_ = settings_.bytes_per_clock + kBeat - 1;
        // The turn begins anew when all is idle, so that a program's clocks do not depend on when it starts. Ports that the accelerator
        // lacks have none: it would fall to the next one, and port 0 of two would get three beats in four.
        if (idle) first_ = 0;
        else if (credit_ >= kBeat) first_ = (first_ + 1) % static_cast<int>(settings_.ports);
    }
    int first_port() const override { return first_; }

    void read_taken(int port, uint64_t, unsigned) override {
        ports_[port].reads.push_back(now_ + static_cast<uint64_t>(settings_.latency) - 1);
    }
    void write_taken(int port, uint64_t, unsigned) override { ++ports_[port].writes; }
    void beat_taken(int port) override { ++ports_[port].beats; }
    void beat_missed(int) override { credit_ += kBeat; }
    void beat_written(int port, bool last) override {
        --ports_[port].beats;
        if (last) ports_[port].responses.push_back(now_ + static_cast<uint64_t>(settings_.write_latency));
    }
    void beat_given(int port, bool last) override {
        if (last) ports_[port].reads.pop_front();
    }
    void response_given(int port) override {
        ports_[port].responses.pop_front();
        --ports_[port].writes;
    }

    bool read_ready(int port) const override { return !ports_[port].reads.empty() && ports_[port].reads.front() <= now_; }
    bool response_ready(int port) const override { return !ports_[port].responses.empty() && ports_[port].responses.front() <= now_; }
    bool room_for_read(int port) const override { return static_cast<int64_t>(ports_[port].reads.size()) < settings_.outstanding; }
    bool room_for_write(int port) const override { return ports_[port].writes < settings_.outstanding; }
    bool room_for_beat(int port) const override { return ports_[port].beats < kBeatsHeld; }
    bool spend(int) override {
        if (credit_ < kBeat) return false;
        credit_ -= kBeat;
        return true;
    }

    void reset_port(int port) override { ports_[port] = Port(); }

  private:
    static constexpr int kBeatsHeld = 64;

    struct Port {
        std::deque<uint64_t> reads, responses;  // clocks from which bursts may be answered
        int64_t writes = 0;                     // bursts without an answer
        int beats = 0;                          // written before their burst's address came
    };

    const Settings& settings_;
    Port ports_[kPorts];
    uint64_t now_ = 0;
    int64_t credit_ = 0;
    int first_ = 0;
};
