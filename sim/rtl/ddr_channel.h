// A DDR4 channel, and the controller's choice of commands for it. A tick is two clocks of the DDR (2 tCK), as the controller counts.
//
// A tick has room for one column command (a read or write of one access, a burst of 8) and one row command (activate or precharge).
// Rows stay open. Of the accesses of the current direction, the oldest whose row is open goes first. Reads are preferred; writes go when
// there are no reads, or when they have waited for `kStarved` ticks, at least `kRun` of them at a time. Refreshes are not postponed.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

struct Timing {  // in ticks; JEDEC's names without their t
    uint64_t ccd_s, ccd_l, rrd_s, rrd_l, faw, rcd, rp, ras, rc;
    uint64_t read_latency;  // from a read command to its last beat
    uint64_t read_to_write, write_to_read_s, write_to_read_l, read_to_precharge, write_to_precharge;
    uint64_t rfc, refi;
};

struct Layout {  // of an address; an access has 2 ** access_bits bytes
    unsigned access_bits;
    unsigned group_bits, group_at[2];  // how many bits name the bank group, and where each is
    unsigned bank_low, bank_bits, row_low;
};

struct Part {
    uint64_t tick_khz;
    size_t reads, writes;  // accesses that the controller chooses from
    Layout layout;
    Timing timing;
};

class Channel {
  public:
    explicit Channel(const Part& part) : part_(part), banks_(size_t{1} << (part.layout.group_bits + part.layout.bank_bits)) {
        groups_.resize(size_t{1} << part.layout.group_bits);
        rest();
    }

    bool room(bool write) const { return write ? writes_.size() < part_.writes : reads_.size() < part_.reads; }
    bool empty() const { return reads_.empty() && writes_.empty() && done_.empty(); }

    // tag: what `take_done` answers when a read's data is there.
    void add(bool write, uint64_t address, uint64_t tag) {
        const Layout& at = part_.layout;
        size_t group = 0;
        for (unsigned i = 0; i < at.group_bits; ++i) group |= (address >> at.group_at[i] & 1) << i;
        size_t bank = (address >> at.bank_low & ((1u << at.bank_bits) - 1)) << at.group_bits | group;
        if (write && writes_.empty()) write_served_ = now_;
        (write ? writes_ : reads_).push_back(Access{address >> at.row_low, bank, group, now_, tag});
    }

    bool take_done(uint64_t& tag) {
        if (done_.empty() || done_.front().first > now_) return false;
        tag = done_.front().second;
        done_.pop_front();
        return true;
    }

    void tick() {
        ++now_;
        if (now_ >= refresh_at_ && refresh()) return;
        if (reads_.empty() && writes_.empty()) return;
        choose_direction();
        std::vector<Access>& store = writing_ ? writes_ : reads_;
        if (store.empty()) return;
        if (refreshing()) return;  // no command until the rows may close
        open_rows(store);
        move_data(store);
    }

    // Nothing has been under way for the time of a refresh: it has been done, and counting starts anew.
    void rest() {
        std::fill(banks_.begin(), banks_.end(), Bank());
        std::fill(groups_.begin(), groups_.end(), Group());
        now_ = kLongAgo;
        activated_ = {};
        last_activate_ = last_read_ = last_write_ = write_served_ = 0;
        writing_ = false;
        refresh_at_ = now_ + part_.timing.refi;
    }

    uint64_t rest_ticks() const { return part_.timing.rfc; }

    // Ticks of a read from the command that opens its row to its last beat.
    uint64_t idle_ticks() const { return part_.timing.rcd + part_.timing.read_latency; }

  private:
    static constexpr uint64_t kStarved = 64, kRun = 8, kAged = 256;
    static constexpr uint64_t kLongAgo = 1 << 20;  // the first tick: no earlier command matters

    struct Access {
        uint64_t row;
        size_t bank, group;
        uint64_t since, tag;
    };
    struct Bank {
        bool open = false;
        uint64_t row = 0, activate_at = 0, column_at = 0, precharge_at = 0, activated = 0;
    };
    struct Group {
        uint64_t activated = 0, read = 0, wrote = 0;  // ticks of the last commands
    };

    bool refreshing() const { return now_ >= refresh_at_; }

    // Closes all rows and refreshes, as soon as it may. Returns whether it did.
    bool refresh() {
        const Timing& t = part_.timing;
        for (const Bank& bank : banks_) {
            if (bank.open && now_ < bank.precharge_at) return false;
        }
        for (Bank& bank : banks_) {
            bank.activate_at = now_ + (bank.open ? t.rp : 0) + t.rfc;
            bank.open = false;
        }
        refresh_at_ += t.refi;
        return true;
    }

    void choose_direction() {
        if (writing_) {
            if (writes_.empty() || (run_ >= kRun && !reads_.empty())) writing_ = false;
        } else if (!writes_.empty() && (reads_.empty() || now_ - write_served_ >= kStarved)) {
            writing_ = true;
            run_ = 0;
        }
    }

    // Activates a row that an access needs, or closes one that is in its way. A row that is still in use stays open meanwhile, unless
    // another access of the bank has waited for long and the row had its time.
    void open_rows(const std::vector<Access>& store) {
        const Timing& t = part_.timing;
        uint32_t used = 0, seen = 0;  // banks whose open row an access needs; banks with an older access that needs another row
        for (const Access& access : store) {
            const Bank& bank = banks_[access.bank];
            if (bank.open && bank.row == access.row) used |= 1u << access.bank;
        }
        for (const Access& access : store) {
            Bank& bank = banks_[access.bank];
            uint32_t mask = 1u << access.bank;
            if (seen & mask || (bank.open && bank.row == access.row)) continue;
            seen |= mask;
            bool overdue = now_ - access.since > kAged && now_ - bank.activated > kAged;
            if (bank.open && now_ >= bank.precharge_at && (overdue || !(used & mask))) {
                bank.open = false;
                bank.activate_at = std::max(now_ + t.rp, bank.activated + t.rc);
                return;
            }
            if (!bank.open && may_activate(bank, groups_[access.group])) {
                activate(bank, groups_[access.group], access.row);
                return;
            }
        }
    }

    bool may_activate(const Bank& bank, const Group& group) const {
        const Timing& t = part_.timing;
        return now_ >= bank.activate_at && now_ >= last_activate_ + t.rrd_s && now_ >= group.activated + t.rrd_l &&
               now_ >= activated_[oldest_activate_] + t.faw;
    }

    void activate(Bank& bank, Group& group, uint64_t row) {
        const Timing& t = part_.timing;
        bank.open = true;
        bank.row = row;
        bank.activated = group.activated = last_activate_ = now_;
        bank.column_at = now_ + t.rcd;
        bank.precharge_at = now_ + t.ras;
        activated_[oldest_activate_] = now_;
        oldest_activate_ = (oldest_activate_ + 1) % 4;
    }

    void move_data(std::vector<Access>& store) {
        for (size_t i = 0; i < store.size(); ++i) {
            const Access& access = store[i];
            Bank& bank = banks_[access.bank];
            if (bank.open && bank.row == access.row && now_ >= bank.column_at && bus_is_free(groups_[access.group])) {
                column(bank, groups_[access.group], access.tag);
                store.erase(store.begin() + static_cast<std::ptrdiff_t>(i));
                return;
            }
        }
    }

    bool bus_is_free(const Group& group) const {
        const Timing& t = part_.timing;
        if (writing_) return now_ >= last_write_ + t.ccd_s && now_ >= group.wrote + t.ccd_l && now_ >= last_read_ + t.read_to_write;
        return now_ >= last_read_ + t.ccd_s && now_ >= group.read + t.ccd_l && now_ >= last_write_ + t.write_to_read_s &&
               now_ >= group.wrote + t.write_to_read_l;
    }

    void column(Bank& bank, Group& group, uint64_t tag) {
        const Timing& t = part_.timing;
        bank.precharge_at = std::max(bank.precharge_at, now_ + (writing_ ? t.write_to_precharge : t.read_to_precharge));
        if (writing_) {
            last_write_ = group.wrote = write_served_ = now_;
            ++run_;
        } else {
            last_read_ = group.read = now_;
            done_.emplace_back(now_ + t.read_latency, tag);
        }
    }

    const Part part_;
    std::vector<Bank> banks_;
    std::vector<Group> groups_;
    std::vector<Access> reads_, writes_;               // oldest first
    std::deque<std::pair<uint64_t, uint64_t>> done_;   // reads: when their data is there, and their tags
    uint64_t now_ = 0, refresh_at_ = 0, run_ = 0;
    std::array<uint64_t, 4> activated_{};  // ticks of the last four activates
    size_t oldest_activate_ = 0;
    uint64_t last_activate_ = 0, last_read_ = 0, last_write_ = 0, write_served_ = 0;
    bool writing_ = false;
};
