// Rows of a tensor as int8 pixels: see tensor_rows.h.
#include "tensor_rows.h"

#include <cstdint>
#include <cstring>

#include "runs.h"

namespace cnna {

namespace {

constexpr size_t LINE = 64;  // bytes that come from DDR together; where they are fewer, some are not asked for

size_t item_bytes(int64_t type) { return type == CNNA_FLOAT32 ? sizeof(float) : 1; }

// Whether every element lies where its type may be read.
bool aligned(const cnna_tensor &tensor, size_t item) {
    uintptr_t all = reinterpret_cast<uintptr_t>(tensor.data);
    for (int64_t stride : tensor.stride) all |= static_cast<uintptr_t>(stride);
    return all % item == 0;
}

}  // namespace

TensorRows::TensorRows(const cnna_tensor &tensor, const int8_t *table, float scale, int zero)
    : tensor_(tensor), table_(table), scale_(scale), zero_(zero), item_(item_bytes(tensor.type)),
      channels_(static_cast<size_t>(tensor.size[1])), columns_(static_cast<size_t>(tensor.size[3])) {
    const auto item = static_cast<int64_t>(item_);
    const int64_t pixel = item * tensor.size[1];
    const bool together = tensor.stride[1] == item || tensor.size[1] == 1;
    const bool row = tensor.stride[3] == pixel || tensor.size[3] == 1;
    const bool plane = tensor.stride[3] == item || tensor.size[3] == 1;
    layout_ = !aligned(tensor, item_) ? Layout::SCATTERED : together && row ? Layout::PIXELS : plane ? Layout::PLANES : Layout::SCATTERED;
    planes_.resize(channels_ * columns_);
    if (layout_ == Layout::SCATTERED) gathered_.resize(columns_ * item_);
    compare_tables();
}

void TensorRows::take(const void *data) {
    tensor_.data = data;
    compare_tables();
}

// Channels that have one table are looked up together; others need room to be taken apart. Most calls come with the same few tables:
// at the second of them it pays to look whether these are lines.
void TensorRows::compare_tables() {
    const bool few = table_ && channels_ <= COLOURS;
    if (few && seen_.size() == channels_ * TABLE && !std::memcmp(seen_.data(), table_, seen_.size())) {
        if (!again_ && tensor_.type == CNNA_UINT8) find_steps();
        again_ = true;
        return;
    }
    seen_.clear();  // until all is done below: where memory runs out, the next call begins again
    again_ = false;
    one_table_ = true;
    for (size_t channel = 1; table_ && channel < channels_; ++channel)
        one_table_ = one_table_ && !std::memcmp(table_, table_ + channel * TABLE, TABLE);
    steps_.clear();
    const bool apart = layout_ == Layout::PIXELS && tensor_.type == CNNA_UINT8 && !one_table_ && channels_ != COLOURS;
    apart_.resize(apart ? channels_ * columns_ : 0);
    if (few) seen_.assign(table_, table_ + channels_ * TABLE);
}

void TensorRows::find_steps() {
    const bool pixels = layout_ == Layout::PIXELS;
    steps_.resize(pixels ? 1 : channels_);
    bool all = !pixels || steps_[0].find(table_, one_table_ ? 1 : channels_);
    for (size_t channel = 0; !pixels && all && channel < channels_; ++channel) all = steps_[channel].find(table_ + channel * TABLE, 1);
    if (!all) steps_.clear();
}

bool TensorRows::read(int64_t image, int64_t row, int8_t *pixels) {
    if (row + 1 < tensor_.size[2]) fetch(image, row + 1);
    if (layout_ == Layout::PIXELS) return read_pixels(at(image, 0, row), pixels);
    bool known = true;
    for (size_t channel = 0; channel < channels_; ++channel) {
        const auto number = static_cast<int64_t>(channel);
        const uint8_t *from = layout_ == Layout::PLANES ? at(image, number, row) : gathered(image, number, row);
        known = convert(from, channel, planes_.data() + channel * columns_, columns_) && known;
    }
    interleave(planes_.data(), columns_, channels_, pixels, columns_);
    return known;
}

// A row whose channels lie together. Tables that differ need the channels one by one.
bool TensorRows::read_pixels(const uint8_t *from, int8_t *pixels) {
    if (tensor_.type == CNNA_UINT8 && !one_table_ && channels_ == COLOURS && steps_.empty()) {
        look_up_colours(from, table_, pixels, columns_);
        return true;
    }
    if (apart_.empty() || !steps_.empty()) return convert(from, 0, pixels, channels_ * columns_);
    deinterleave(from, channels_, apart_.data(), columns_, columns_);
    for (size_t channel = 0; channel < channels_; ++channel)
        look_up(apart_.data() + channel * columns_, table_ + channel * TABLE, planes_.data() + channel * columns_, columns_);
    interleave(planes_.data(), columns_, channels_, pixels, columns_);
    return true;
}

// Asks for a row that is read next. Pictures come from DDR, and a core that executes in order would wait for each of their lines.
void TensorRows::fetch(int64_t image, int64_t row) const {
    if (layout_ == Layout::SCATTERED) return;
    const size_t planes = layout_ == Layout::PIXELS ? 1 : channels_, bytes = channels_ / planes * columns_ * item_;
    for (size_t plane = 0; plane < planes; ++plane) {
        const uint8_t *from = at(image, static_cast<int64_t>(plane), row);
#pragma GCC unroll 8
        for (size_t line = 0; line < (bytes + LINE - 1) / LINE; ++line) __builtin_prefetch(from + line * LINE);
    }
}

const uint8_t *TensorRows::at(int64_t image, int64_t channel, int64_t row) const {
    const int64_t *stride = tensor_.stride;
    return static_cast<const uint8_t *>(tensor_.data) + image * stride[0] + channel * stride[1] + row * stride[2];
}

const uint8_t *TensorRows::gathered(int64_t image, int64_t channel, int64_t row) {
    const uint8_t *from = at(image, channel, row);
    for (size_t column = 0; column < columns_; ++column, from += tensor_.stride[3])
        std::memcpy(gathered_.data() + column * item_, from, item_);
    return gathered_.data();
}

bool TensorRows::convert(const uint8_t *from, size_t channel, int8_t *to, size_t count) const {
    switch (tensor_.type) {
    case CNNA_UINT8:
        if (steps_.empty())
            look_up(from, table_ + channel * TABLE, to, count);
        else
            steps_[channel].apply(from, to, count);
        return true;
    case CNNA_INT8: std::memcpy(to, from, count); return true;
    default: return !quantise(reinterpret_cast<const float *>(from), scale_, zero_, to, count);
    }
}

}  // namespace cnna
