// The weights by which pixels of a line are made of those of another.
#ifndef CNNA_RESIZE_FILTER_H
#define CNNA_RESIZE_FILTER_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cnna {

constexpr int WEIGHT_BITS = 14;

// For every pixel of the answer: its first pixel of the picture, and the weights from there on. All have `taps` weights, and the
// first pixels rise.
struct Filter {
    size_t taps = 0;
    std::vector<int64_t> first;
    std::vector<int16_t> weights;
};

// filter: CNNA_BILINEAR or CNNA_AREA. No weight is 0 for every pixel, but where too few pixels are there.
Filter filter_of(int64_t filter, int64_t size, int64_t wanted);

}  // namespace cnna

#endif
