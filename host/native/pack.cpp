// Packs a tensor for a port: converts each of its rows once, and composes the words of a folded picture from these rows.
//
// A folded pixel is `span` rows of `span` pixels, one behind the other, cut into words of `ci` channels. A word is composed from
// loads of 16 bytes that are placed so that each byte comes to lie in its lane, and from masks.
#include "pack.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "checks.h"
#include "tensor_rows.h"
#include "vectors.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace cnna {

namespace {

// Bytes that a unit, which is a word or a part of one, takes from one row of the fold: `count` bytes into its lanes from `lane` on.
// A load at `offset` behind a pixel's first byte brings each to its lane.
struct Part {
    size_t row;
    int64_t offset;
    size_t lane, count;
    Bytes16 mask;
};

using Parts = std::vector<Part>;

constexpr size_t TOGETHER = 8;  // units that are composed before any of them is written: each waits for its loads, several clocks

// Keeps the compiler from writing pairs of units in another order: a processor does not fetch a line that is written from end to end at
// once, but one whose middle is still missing when the next line begins.
inline void in_order_of_addresses(size_t unit) {
    if (unit % 2) std::atomic_signal_fence(std::memory_order_acq_rel);
}

#if defined(__aarch64__)
// How the words of two neighbouring pixels come from one load of each of two rows. rows: of the fold. offset: of a row's load behind
// the first pixel's first byte. lanes: for each pixel and row, the byte of the load that comes to each lane, or none. rest: what no row gives.
struct Pair {
    bool works = false, full = false;
    size_t rows[2] = {};
    int64_t offset[2] = {};
    uint8_t lanes[2][2][LANES] = {};
    Bytes16 rest{};
};
#endif

}  // namespace

class Packer {
  public:
    Packer(const cnna_port &port, const cnna_tensor &tensor, const int8_t *table)
        : port_(port), tensor_(tensor), table_(table), channels_(tensor.size[1]), height_(tensor.size[2]), width_(tensor.size[3]),
          zero_(static_cast<int8_t>(port.zero)), rows_(tensor, table, port.scale, zero_), unit_(unit_of(port.ci)) {
        for (int64_t first = 0; first < blocks(port) * port.ci; first += unit_) units_.push_back(parts(first));
#if defined(__aarch64__)
        for (const Parts &parts : units_) pairs_.push_back(pair_of(parts));
#endif
        // A row of pixels, with all that a fold reads to its left and right, and 16 bytes more for loads that begin early.
        left_ = std::max<int64_t>(0, port.before[1]) * channels_ + LANES;
        const int64_t last = (port.folded[2] - 1) * port.step[1] + port.span[1] - port.before[1];
        const size_t bytes = static_cast<size_t>(left_ + std::max(last, width_) * channels_) + 2 * LANES;
        outside_.assign(bytes, zero_);
        kept_.assign(static_cast<size_t>(port.span[0]), outside_);
        holds_.assign(kept_.size(), -1);
        found_.resize(kept_.size());
    }

    // Whether it serves for a tensor too, by `take`: one of the same form.
    bool serves(const cnna_tensor &tensor, const int8_t *table) const {
        cnna_tensor form = tensor;
        form.data = tensor_.data;
        const uintptr_t moved = reinterpret_cast<uintptr_t>(tensor.data) - reinterpret_cast<uintptr_t>(tensor_.data);
        return moved % sizeof(float) == 0 && table == table_ && !std::memcmp(&form, &tensor_, sizeof form);
    }

    void take(const void *data) {
        tensor_.data = data;
        rows_.take(data);
        known_ = true;
    }

    // Packs rows of the folded picture, from `first` until `end`, with what lies behind them. Returns false if a float is NaN.
    bool image(int64_t number, int64_t first, int64_t end, uint8_t *memory) {
        std::fill(holds_.begin(), holds_.end(), -1);
        image_ = number;
        if (!in_order(port_)) std::memset(memory, zero_, static_cast<size_t>(port_.image_bytes));
        auto &rows = found_;
        for (int64_t row = first; row < end; ++row) {
            for (size_t within = 0; within < rows.size(); ++within)
                rows[within] = row_of(row * port_.step[0] - port_.before[0] + static_cast<int64_t>(within));
            for (int64_t block = 0; block < blocks(port_); ++block) words(rows, block, row, memory);
        }
        if (in_order(port_)) fill_gaps(memory, first, end);
        return known_;
    }

  private:
    static int64_t unit_of(int64_t ci) {
        for (int64_t unit : {16, 8, 4, 2})
            if (ci % unit == 0) return unit;
        return 1;
    }

    // Where the bytes of the unit that begins at channel `first` of a folded pixel come from.
    Parts parts(int64_t first) const {
        const int64_t row_bytes = port_.span[1] * channels_;
        Parts found;
        for (int64_t lane = 0; lane < unit_; ++lane) {
            const int64_t at = first + lane, row = at / row_bytes;
            if (row >= port_.span[0] || at >= port_.folded[0]) break;
            const int64_t offset = at % row_bytes - lane;
            if (found.empty() || found.back().row != static_cast<size_t>(row))
                found.push_back(Part{static_cast<size_t>(row), offset, static_cast<size_t>(lane), 0, Bytes16{}});
            found.back().mask[static_cast<size_t>(lane)] = 0xFF;
            ++found.back().count;
        }
        return found;
    }

    // Row y of the image, converted once. Beyond the image it is the zero point.
    const int8_t *row_of(int64_t y) {
        const int64_t begin = left_ - port_.before[1] * channels_;
        if (y < 0 || y >= height_) return outside_.data() + begin;
        const auto place = static_cast<size_t>(y) % kept_.size();
        if (holds_[place] != y) {
            known_ = rows_.read(image_, y, kept_[place].data() + left_) && known_;
            holds_[place] = y;
        }
        return kept_[place].data() + begin;
    }

    void words(const std::vector<const int8_t *> &rows, int64_t block, int64_t row, uint8_t *memory) const {
        uint8_t *to = memory + block * port_.block_bytes + row * port_.row_bytes;
        const int64_t units = port_.ci / unit_;
        for (int64_t within = 0; within < units; ++within, to += unit_) {
            const auto number = static_cast<size_t>(block * units + within);
            const Parts &parts = units_[number];
#if defined(__aarch64__)
            if (pairs_[number].works) {
                const auto pitch = static_cast<size_t>(port_.ci);
                pairs_[number].full ? compose_pairs<true>(rows, pairs_[number], to, pitch) : compose_pairs<false>(rows, pairs_[number], to, pitch);
                continue;
            }
#endif
            switch (unit_) {
            case 16: units == 1 ? compose<16, true>(rows, parts, to) : compose<16>(rows, parts, to); break;
            case 8: units == 1 ? compose<8, true>(rows, parts, to) : compose<8>(rows, parts, to); break;
            case 4: units == 1 ? compose<4, true>(rows, parts, to) : compose<4>(rows, parts, to); break;
            case 2: compose<2>(rows, parts, to); break;
            default: compose<1>(rows, parts, to);
            }
        }
    }

    // One unit of every pixel of a row, DENSE where it is the whole word. Most take all lanes from one row, or from two.
    template <size_t UNIT, bool DENSE = false>
    void compose(const std::vector<const int8_t *> &rows, const Parts &parts, uint8_t *to) const {
        const Bytes16 zero = all16(zero_);
        const size_t word = DENSE ? UNIT : static_cast<size_t>(port_.ci);
        const int64_t step = port_.step[1] * channels_;
        const auto pixels = static_cast<size_t>(port_.folded[2]);
        auto each = [=](auto made) {
            uint8_t *at = to;
            int64_t offset = 0;
            size_t pixel = 0;
            for (; pixel + TOGETHER <= pixels; pixel += TOGETHER) {
                Bytes16 units[TOGETHER];
#pragma GCC unroll 8
                for (size_t i = 0; i < TOGETHER; ++i, offset += step) units[i] = made(offset);
#pragma GCC unroll 8
                for (size_t i = 0; i < TOGETHER; ++i, at += word) {
                    UNIT == LANES ? store16(at, units[i]) : static_cast<void>(std::memcpy(at, &units[i], UNIT));
                    in_order_of_addresses(i);
                }
            }
            for (; pixel < pixels; ++pixel, offset += step, at += word) {
                const Bytes16 unit = made(offset);
                std::memcpy(at, &unit, UNIT);
            }
        };
        if (parts.empty()) return each([=](int64_t) { return zero; });
        const int8_t *from = rows[parts[0].row] + parts[0].offset;
        const Bytes16 mask = parts[0].mask;
        if (parts.size() == 1 && parts[0].count == LANES) return each([=](int64_t offset) { return load16(from + offset); });
        if (parts.size() == 1) return each([=](int64_t offset) { return select16(mask, load16(from + offset), zero); });
        const int8_t *next = rows[parts[1].row] + parts[1].offset;
        const Bytes16 other = parts[1].mask;
        if (parts.size() == 2)
            return each([=](int64_t offset) {
                return select16(mask, load16(from + offset), select16(other, load16(next + offset), zero));
            });
        each([&](int64_t offset) {
            Bytes16 unit = zero;
            for (const Part &part : parts) unit = select16(part.mask, load16(rows[part.row] + part.offset + offset), unit);
            return unit;
        });
    }

#if defined(__aarch64__)
    // The pair of a unit that two rows give, where a load of 16 bytes holds what both pixels take from a row. Where one row gives all, a
    // load and a mask for each pixel are quicker.
    Pair pair_of(const Parts &parts) const {
        const int64_t step = port_.step[1] * channels_;
        Pair made;
        if (unit_ != static_cast<int64_t>(LANES) || parts.size() != 2 || port_.folded[2] % 2) return made;
        std::memset(made.lanes, UINT8_MAX, sizeof made.lanes);
        made.rest = all16(zero_);
        made.full = true;
        for (size_t number = 0; number < parts.size(); ++number) {
            const Part &part = parts[number];
            if (step + static_cast<int64_t>(part.count) > static_cast<int64_t>(LANES)) return made;
            made.rows[number] = part.row, made.offset[number] = part.offset + static_cast<int64_t>(part.lane);
            made.rest &= ~part.mask;
            for (size_t i = 0; i < part.count; ++i)
                for (size_t pixel = 0; pixel < 2; ++pixel)
                    made.lanes[pixel][number][part.lane + i] = static_cast<uint8_t>(i + pixel * static_cast<size_t>(step));
        }
        for (size_t lane = 0; lane < LANES; ++lane) made.full = made.full && !made.rest[lane];
        made.works = true;
        return made;
    }

    // FULL: rows give every lane.
    template <bool FULL>
    void compose_pairs(const std::vector<const int8_t *> &rows, const Pair &pair, uint8_t *to, size_t pitch) const {
        const int64_t step = 2 * port_.step[1] * channels_;
        const auto *upper = reinterpret_cast<const uint8_t *>(rows[pair.rows[0]] + pair.offset[0]);
        const auto *lower = reinterpret_cast<const uint8_t *>(rows[pair.rows[1]] + pair.offset[1]);
        uint8x16_t lanes[2][2];
        for (size_t pixel = 0; pixel < 2; ++pixel)
            for (size_t row = 0; row < 2; ++row) lanes[pixel][row] = vld1q_u8(pair.lanes[pixel][row]);
        const auto rest = reinterpret_cast<uint8x16_t>(pair.rest);
        const auto word = [&](uint8x16_t above, uint8x16_t below, size_t pixel) {  // a table of both registers would have them copied together
            const uint8x16_t found = vqtbx1q_u8(vqtbl1q_u8(above, lanes[pixel][0]), below, lanes[pixel][1]);
            return FULL ? found : vorrq_u8(found, rest);
        };
        constexpr size_t PAIRS = TOGETHER / 2;
        size_t left_over = static_cast<size_t>(port_.folded[2] / 2);
        for (; left_over >= PAIRS; left_over -= PAIRS) {
            uint8x16_t words[TOGETHER];
#pragma GCC unroll 8
            for (size_t i = 0; i < PAIRS; ++i, upper += step, lower += step) {
                const uint8x16_t above = vld1q_u8(upper), below = vld1q_u8(lower);
                words[2 * i] = word(above, below, 0), words[2 * i + 1] = word(above, below, 1);
            }
#pragma GCC unroll 8
            for (size_t i = 0; i < TOGETHER; ++i, to += pitch) {
                vst1q_u8(to, words[i]);
                in_order_of_addresses(i);
            }
        }
        for (; left_over; --left_over, upper += step, lower += step, to += 2 * pitch) {
            const uint8x16_t above = vld1q_u8(upper), below = vld1q_u8(lower);
            vst1q_u8(to, word(above, below, 0)), vst1q_u8(to + pitch, word(above, below, 1));
        }
    }
#endif

    // The bytes behind these rows, and behind the last row of each block and of the image, which no word covers.
    void fill_gaps(uint8_t *memory, int64_t first, int64_t end) const {
        const int64_t row_used = port_.folded[2] * port_.ci;
        auto fill = [&](int64_t from, int64_t until) {
            if (until > from) std::memset(memory + from, zero_, static_cast<size_t>(until - from));
        };
        for (int64_t block = 0; block < blocks(port_); ++block) {
            const int64_t begin = block * port_.block_bytes;
            if (port_.row_bytes > row_used)
                for (int64_t row = first; row < end; ++row) fill(begin + row * port_.row_bytes + row_used, begin + (row + 1) * port_.row_bytes);
            if (end == port_.folded[1]) fill(begin + end * port_.row_bytes, begin + port_.block_bytes);
        }
        if (end == port_.folded[1]) fill(blocks(port_) * port_.block_bytes, port_.image_bytes);
    }

    const cnna_port port_;
    cnna_tensor tensor_;
    const int8_t *const table_;
    const int64_t channels_, height_, width_;
    const int8_t zero_;
    TensorRows rows_;
    const int64_t unit_;
    std::vector<Parts> units_;
#if defined(__aarch64__)
    std::vector<Pair> pairs_;  // of each unit
#endif
    int64_t left_ = 0, image_ = 0;
    std::vector<int8_t> outside_;
    std::vector<std::vector<int8_t>> kept_;
    std::vector<int64_t> holds_;
    std::vector<const int8_t *> found_;  // the rows of a fold
    bool known_ = true;
};

namespace {

bool sound_tensor(const cnna_tensor &tensor, const int8_t *table) {
    for (int64_t size : tensor.size)
        if (!within(size, 1, MOST_SIZE)) return false;
    return tensor.data && within(tensor.type, CNNA_UINT8, CNNA_FLOAT32) && (tensor.type != CNNA_UINT8 || table);
}

// Calls `each` with the ranges of bytes that belong to rows of an image, from `first` until `end`.
void ranges(const cnna_port &port, int64_t first, int64_t end, const uint8_t *memory, Written each, const void *context) {
    const bool last = end == port.folded[1];
    auto say = [&](int64_t from, int64_t until) { each(context, memory + from, static_cast<size_t>(until - from)); };
    if (first == 0 && last) return say(0, port.image_bytes);
    for (int64_t block = 0; block < blocks(port); ++block) {
        const int64_t begin = block * port.block_bytes;
        say(begin + first * port.row_bytes, last ? begin + port.block_bytes : begin + end * port.row_bytes);
    }
    const int64_t behind = blocks(port) * port.block_bytes;
    if (last && behind < port.image_bytes) say(behind, port.image_bytes);
}

}  // namespace

int packable(const cnna_port &port, const cnna_tensor &tensor, const int8_t *table, int64_t images, const uint8_t *memory, size_t bytes) {
    if (!sound(port) || !sound_tensor(tensor, table)) return CNNA_ARGUMENT;
    if (!memory || !fits(port, images, bytes) || images < tensor.size[0]) return CNNA_BOUNDS;
    return port.folded[0] < port.span[0] * port.span[1] * tensor.size[1] ? CNNA_ARGUMENT : CNNA_OK;
}

// Rows that do not lie in order are packed with their image, since each of them may lie anywhere in it.
Bands::Bands(const cnna_port &port, int64_t images, const uint8_t *memory, size_t line, size_t wanted) {
    const auto bytes = static_cast<int64_t>(line);
    const bool whole = !in_order(port);
    const bool even = reinterpret_cast<uintptr_t>(memory) % line == 0 && port.image_bytes % bytes == 0;
    apart = even && (whole || port.block_bytes % bytes == 0);
    int64_t step = whole ? port.folded[1] : bytes / std::gcd(bytes, port.row_bytes);
    if (images > 1 && port.folded[1] % step) apart = false;  // a band may end in any row of the second image
    if (!apart && !whole) step = 1;
    const int64_t all = images * port.folded[1], most = std::max<int64_t>(1, static_cast<int64_t>(wanted));
    rows = ((all + most - 1) / most + step - 1) / step * step;
    count = static_cast<size_t>((all + rows - 1) / rows);
}

BandPacker::BandPacker() = default;
BandPacker::~BandPacker() = default;
BandPacker::BandPacker(BandPacker &&) noexcept = default;

int BandPacker::pack(
    const cnna_port &port, const cnna_tensor &tensor, const int8_t *table, int64_t images, uint8_t *memory, const Bands &bands, size_t band,
    Written each, const void *context) {
    return guarded([&] {
        if (kept_ && kept_->serves(tensor, table))
            kept_->take(tensor.data);
        else
            kept_ = std::make_unique<Packer>(port, tensor, table);
        const int64_t height = port.folded[1], begin = static_cast<int64_t>(band) * bands.rows;
        const int64_t end = std::min(images * height, begin + bands.rows);
        for (int64_t row = begin; row < end;) {
            const int64_t image = row / height, first = row % height, until = std::min(height, first + end - row);
            uint8_t *to = memory + image * port.image_bytes;
            // the last image is converted again, since memory that is not cached is slow to read
            if (!kept_->image(std::min(image, tensor.size[0] - 1), first, until, to)) return static_cast<int>(CNNA_NAN);
            if (each) ranges(port, first, until, to, each, context);
            row += until - first;
        }
        return static_cast<int>(CNNA_OK);
    });
}

}  // namespace cnna

int cnna_pack(const cnna_port *port, const cnna_tensor *tensor, const int8_t *table, int64_t images, uint8_t *memory, size_t bytes) {
    const int code = cnna::packable(*port, *tensor, table, images, memory, bytes);
    if (code != CNNA_OK) return code;
    return cnna::BandPacker().pack(*port, *tensor, table, images, memory, cnna::Bands(*port, images, memory, 1, 1), 0);
}

struct cnna_packer {
    const cnna_port port;
    cnna::BandPacker packer{};
};

int cnna_packer_open(const cnna_port *port, cnna_packer **made) {
    if (!cnna::sound(*port)) return CNNA_ARGUMENT;
    return cnna::guarded([=] {
        *made = new cnna_packer{*port};
        return static_cast<int>(CNNA_OK);
    });
}

int cnna_packer_pack(cnna_packer *packer, const cnna_tensor *tensor, const int8_t *table, int64_t images, uint8_t *memory, size_t bytes) {
    const int code = cnna::packable(packer->port, *tensor, table, images, memory, bytes);
    if (code != CNNA_OK) return code;
    return packer->packer.pack(packer->port, *tensor, table, images, memory, cnna::Bands(packer->port, images, memory, 1, 1), 0);
}

void cnna_packer_close(cnna_packer *packer) { delete packer; }
