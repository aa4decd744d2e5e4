// Packs a tensor for a port: converts each of its rows once, and composes the words of a folded picture from these rows.
//
// A folded pixel is `span` rows of `span` pixels, one behind the other, cut into words of `ci` channels. A word is composed from
// loads of 16 bytes that are placed so that each byte comes to lie in its lane, and from masks.
#include <algorithm>
#include <cstring>
#include <vector>

#include "checks.h"
#include "cnna_host.h"
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

class Packer {
  public:
    Packer(const cnna_port &port, const cnna_tensor &tensor, const int8_t *table)
        : port_(port), channels_(tensor.size[1]), height_(tensor.size[2]), width_(tensor.size[3]),
          zero_(static_cast<int8_t>(port.zero)), rows_(tensor, table, port.scale, zero_), unit_(unit_of(port.ci)) {
        for (int64_t first = 0; first < blocks(port) * port.ci; first += unit_) units_.push_back(parts(first));
        // A row of pixels, with all that a fold reads to its left and right, and 16 bytes more for loads that begin early.
        left_ = std::max<int64_t>(0, port.before[1]) * channels_ + LANES;
        const int64_t last = (port.folded[2] - 1) * port.step[1] + port.span[1] - port.before[1];
        const size_t bytes = static_cast<size_t>(left_ + std::max(last, width_) * channels_) + 2 * LANES;
        outside_.assign(bytes, zero_);
        kept_.assign(static_cast<size_t>(port.span[0]), outside_);
        holds_.assign(kept_.size(), -1);
    }

    // Returns false if a float is NaN.
    bool image(int64_t number, uint8_t *memory) {
        std::fill(holds_.begin(), holds_.end(), -1);
        image_ = number;
        if (!in_order(port_)) std::memset(memory, zero_, static_cast<size_t>(port_.image_bytes));
        std::vector<const int8_t *> rows(kept_.size());
        for (int64_t row = 0; row < port_.folded[1]; ++row) {
            for (size_t within = 0; within < rows.size(); ++within)
                rows[within] = row_of(row * port_.step[0] - port_.before[0] + static_cast<int64_t>(within));
            for (int64_t block = 0; block < blocks(port_); ++block) words(rows, block, row, memory);
        }
        if (in_order(port_)) fill_gaps(memory);
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
            const Parts &parts = units_[static_cast<size_t>(block * units + within)];
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
#pragma GCC unroll 4
            for (size_t pixel = 0; pixel < pixels; ++pixel, offset += step, at += word) {
                const Bytes16 unit = made(offset);
                std::memcpy(at, &unit, UNIT);
            }
        };
        if (parts.empty()) return each([=](int64_t) { return zero; });
        const int8_t *from = rows[parts[0].row] + parts[0].offset;
        const Bytes16 mask = parts[0].mask;
#if defined(__aarch64__)
        if (UNIT == LANES && DENSE && pairs(rows, parts, to)) return;
#endif
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
    // Two pixels at once, where a load of 16 bytes holds what both take from a row: permutations of two loads make each word. Returns false where it does not.
    bool pairs(const std::vector<const int8_t *> &rows, const Parts &parts, uint8_t *to) const {
        const int64_t step = port_.step[1] * channels_, pixels = port_.folded[2];
        if (parts.size() > 2 || pixels % 2) return false;
        uint8_t from[2][2][LANES];  // of each pixel and each row: the lanes of the load that come to each lane, or none
        std::memset(from, UINT8_MAX, sizeof from);
        const uint8_t *begin[2] = {};
        Bytes16 rest = all16(zero_);
        for (size_t number = 0; number < parts.size(); ++number) {
            const Part &part = parts[number];
            if (step + static_cast<int64_t>(part.count) > static_cast<int64_t>(LANES)) return false;
            begin[number] = reinterpret_cast<const uint8_t *>(rows[part.row] + part.offset) + part.lane;
            rest &= ~part.mask;
            for (size_t i = 0; i < part.count; ++i)
                for (size_t pixel = 0; pixel < 2; ++pixel)
                    from[pixel][number][part.lane + i] = static_cast<uint8_t>(i + pixel * static_cast<size_t>(step));
        }
        if (parts.size() == 1) begin[1] = begin[0];  // no lane is taken from it
        const uint8x16_t zero = reinterpret_cast<uint8x16_t>(rest);
        const uint8x16_t left = vld1q_u8(from[0][0]), below_left = vld1q_u8(from[0][1]);
        const uint8x16_t right = vld1q_u8(from[1][0]), below_right = vld1q_u8(from[1][1]);
        const auto count = static_cast<size_t>(pixels / 2);
        int64_t offset = 0;
#pragma GCC unroll 4
        for (size_t pair = 0; pair < count; ++pair, offset += 2 * step, to += 2 * LANES) {
            const uint8x16_t upper = vld1q_u8(begin[0] + offset), lower = vld1q_u8(begin[1] + offset);
            vst1q_u8(to, vorrq_u8(vqtbx1q_u8(vqtbl1q_u8(upper, left), lower, below_left), zero));
            vst1q_u8(to + LANES, vorrq_u8(vqtbx1q_u8(vqtbl1q_u8(upper, right), lower, below_right), zero));
        }
        return true;
    }
#endif

    // The bytes behind rows, blocks and the image, which no word covers.
    void fill_gaps(uint8_t *memory) const {
        const int64_t row_used = port_.folded[2] * port_.ci, rows = port_.folded[1];
        auto fill = [&](int64_t from, int64_t until) {
            if (until > from) std::memset(memory + from, zero_, static_cast<size_t>(until - from));
        };
        for (int64_t block = 0; block < blocks(port_); ++block) {
            const int64_t begin = block * port_.block_bytes;
            if (port_.row_bytes > row_used)
                for (int64_t row = 0; row < rows; ++row) fill(begin + row * port_.row_bytes + row_used, begin + (row + 1) * port_.row_bytes);
            fill(begin + rows * port_.row_bytes, begin + port_.block_bytes);
        }
        fill(blocks(port_) * port_.block_bytes, port_.image_bytes);
    }

    const cnna_port port_;
    const int64_t channels_, height_, width_;
    const int8_t zero_;
    TensorRows rows_;
    const int64_t unit_;
    std::vector<Parts> units_;
    int64_t left_ = 0, image_ = 0;
    std::vector<int8_t> outside_;
    std::vector<std::vector<int8_t>> kept_;
    std::vector<int64_t> holds_;
    bool known_ = true;
};

bool sound_tensor(const cnna_tensor &tensor, const int8_t *table) {
    for (int64_t size : tensor.size)
        if (!within(size, 1, MOST_SIZE)) return false;
    return tensor.data && within(tensor.type, CNNA_UINT8, CNNA_FLOAT32) && (tensor.type != CNNA_UINT8 || table);
}

}  // namespace

}  // namespace cnna

int cnna_pack(const cnna_port *port, const cnna_tensor *tensor, const int8_t *table, int64_t images, uint8_t *memory, size_t bytes) {
    using namespace cnna;
    if (!sound(*port) || !sound_tensor(*tensor, table)) return CNNA_ARGUMENT;
    if (!memory || !fits(*port, images, bytes) || images < tensor->size[0]) return CNNA_BOUNDS;
    if (port->folded[0] < port->span[0] * port->span[1] * tensor->size[1]) return CNNA_ARGUMENT;
    return guarded([=] {
        Packer packer(*port, *tensor, table);
        const auto image_bytes = static_cast<size_t>(port->image_bytes);
        for (int64_t image = 0; image < images; ++image) {
            uint8_t *to = memory + static_cast<size_t>(image) * image_bytes;
            // the last image is converted again, since memory that is not cached is slow to read
            if (!packer.image(std::min(image, tensor->size[0] - 1), to)) return static_cast<int>(CNNA_NAN);
        }
        return static_cast<int>(CNNA_OK);
    });
}
