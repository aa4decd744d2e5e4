// Unpacks a port's words to a dense tensor [images][channels][rows][columns], as int8 or as floats.
#include <algorithm>
#include <cstring>
#include <vector>

#include "checks.h"
#include "cnna_host.h"
#include "runs.h"
#include "vectors.h"

namespace cnna {

namespace {

constexpr int64_t TILE = 1024;  // columns of a row that are unpacked at a time: sixteen planes of them stay in the first cache

class Unpacker {
  public:
    Unpacker(const cnna_port &port, bool whole)
        : port_(port), pixels_(port.folded[1] * port.folded[2]), whole_(whole),
          // rows that follow each other without a gap are one long row
          rows_(port.row_bytes == port.folded[2] * port.ci ? 1 : port.folded[1]), columns_(pixels_ / rows_) {
        planes_.resize(static_cast<size_t>(std::min(port.ci, port.folded[0]) * (whole ? std::min(TILE, columns_) : columns_)));
    }

    void image(const uint8_t *memory, void *answer) {
        if (pixels_ == 1 && port_.block_bytes == port_.ci) return one_pixel(memory, answer);
        for (int64_t first = 0, block = 0; first < port_.folded[0]; first += port_.ci, ++block) {
            const int64_t channels = std::min(port_.ci, port_.folded[0] - first);
            for (int64_t row = 0; row < rows_; ++row) {
                const uint8_t *words = memory + block * port_.block_bytes + row * port_.row_bytes;
                if (whole_) {
                    tiles(words, channels, static_cast<int8_t *>(answer) + first * pixels_ + row * columns_);
                } else {
                    planes(words, channels, columns_, planes_.data(), columns_);
                    floats(channels, static_cast<float *>(answer) + first * pixels_ + row * columns_);
                }
            }
        }
    }

  private:
    // A single pixel whose channels follow one another: the scores of a classifier.
    void one_pixel(const uint8_t *memory, void *answer) const {
        const auto count = static_cast<size_t>(port_.folded[0]);
        const auto *from = reinterpret_cast<const int8_t *>(memory);
        if (whole_)
            std::memcpy(answer, from, count);
        else
            dequantise(from, port_.scale, static_cast<int>(port_.zero), static_cast<float *>(answer), count);
    }

    void floats(int64_t channels, float *to) const {
        for (int64_t channel = 0; channel < channels; ++channel)
            dequantise(planes_.data() + channel * columns_, port_.scale, static_cast<int>(port_.zero), to + channel * pixels_,
                       static_cast<size_t>(columns_));
    }

    // A row of dense planes. Each plane of a tile is written from end to end, so that its lines are not fetched before.
    void tiles(const uint8_t *words, int64_t channels, int8_t *to) {
        for (int64_t first = 0; first < columns_; first += TILE) {
            const int64_t columns = std::min(TILE, columns_ - first);
            planes(words + first * port_.ci, channels, columns, planes_.data(), columns);
            for (int64_t channel = 0; channel < channels; ++channel)
                std::memcpy(to + channel * pixels_ + first, planes_.data() + channel * columns, static_cast<size_t>(columns));
        }
    }

    // The channels of so many words of a row, each as a plane, `pitch` bytes apart.
    void planes(const uint8_t *words, int64_t channels, int64_t columns, int8_t *to, int64_t pitch) const {
        if (columns == 1) {
            for (int64_t channel = 0; channel < channels; ++channel) to[channel * pitch] = static_cast<int8_t>(words[channel]);
            return;
        }
        int64_t column = 0;
        if (port_.ci >= static_cast<int64_t>(LANES))
            for (; column + static_cast<int64_t>(LANES) <= columns; column += LANES)
                for (int64_t channel = 0; channel + static_cast<int64_t>(LANES) <= port_.ci && channel < channels; channel += LANES)
                    square(words + column * port_.ci + channel, std::min<int64_t>(LANES, channels - channel),
                           to + channel * pitch + column, pitch);
        const int64_t done = port_.ci / static_cast<int64_t>(LANES) * static_cast<int64_t>(LANES);  // channels of each square
        for (int64_t channel = 0; channel < channels; ++channel)
            for (int64_t at = channel < done ? column : 0; at < columns; ++at)
                to[channel * pitch + at] = static_cast<int8_t>(words[at * port_.ci + channel]);
    }

    // 16 pixels of 16 channels, of which so many are wanted.
    void square(const uint8_t *words, int64_t channels, int8_t *to, int64_t pitch) const {
        Bytes16 lines[LANES];
        for (size_t line = 0; line < LANES; ++line) lines[line] = load16(words + static_cast<int64_t>(line) * port_.ci);
        transpose16(lines);
        if (channels == static_cast<int64_t>(LANES)) {  // with a count that is known, they never leave their registers
#pragma GCC unroll 16
            for (size_t channel = 0; channel < LANES; ++channel) store16(to + static_cast<int64_t>(channel) * pitch, lines[channel]);
            return;
        }
        for (int64_t channel = 0; channel < channels; ++channel) store16(to + channel * pitch, lines[channel]);
    }

    const cnna_port port_;
    const int64_t pixels_;
    const bool whole_;
    const int64_t rows_, columns_;
    std::vector<int8_t> planes_;
};

}  // namespace

}  // namespace cnna

int cnna_unpack(const cnna_port *port, const uint8_t *memory, size_t bytes, int64_t images, int64_t type, void *answer, size_t elements) {
    using namespace cnna;
    if (!sound(*port) || (type != CNNA_INT8 && type != CNNA_FLOAT32)) return CNNA_ARGUMENT;
    const int64_t each = port->folded[0] * port->folded[1] * port->folded[2];
    if (!memory || !answer || !fits(*port, images, bytes) || static_cast<size_t>(images) > elements / static_cast<size_t>(each))
        return CNNA_BOUNDS;
    return guarded([=] {
        Unpacker unpacker(*port, type == CNNA_INT8);
        const size_t item = type == CNNA_INT8 ? 1 : sizeof(float);
        for (int64_t image = 0; image < images; ++image)
            unpacker.image(memory + image * port->image_bytes, static_cast<uint8_t *>(answer) + static_cast<size_t>(image * each) * item);
        return static_cast<int>(CNNA_OK);
    });
}
