// The weights of a filter: see resize_filter.h.
#include "resize_filter.h"

#include <algorithm>
#include <cmath>

#include "cnna_host.h"

namespace cnna {

namespace {

double height(int64_t filter, double distance) {
    const double from = std::fabs(distance);
    if (filter == CNNA_AREA) return distance > -0.5 && distance <= 0.5 ? 1.0 : 0.0;
    return from < 1.0 ? 1.0 - from : 0.0;
}

Filter whole_filter(int64_t filter, int64_t size, int64_t wanted) {
    const double scale = static_cast<double>(size) / static_cast<double>(wanted), wide = std::max(scale, 1.0);
    const double support = (filter == CNNA_AREA ? 0.5 : 1.0) * wide;
    Filter made;
    made.taps = static_cast<size_t>(std::min<int64_t>(size, static_cast<int64_t>(std::ceil(support)) * 2 + 1));
    made.weights.assign(made.taps * static_cast<size_t>(wanted), 0);
    std::vector<double> heights(made.taps);
    for (int64_t at = 0; at < wanted; ++at) {
        const double center = (static_cast<double>(at) + 0.5) * scale;
        const auto low = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
        const auto high = std::min<int64_t>(size, static_cast<int64_t>(center + support + 0.5));
        const int64_t first = std::min(low, size - static_cast<int64_t>(made.taps));
        double sum = 0;
        for (size_t tap = 0; tap < made.taps; ++tap) {
            const int64_t pixel = first + static_cast<int64_t>(tap);
            heights[tap] = pixel < low || pixel >= high ? 0 : height(filter, (static_cast<double>(pixel) + 0.5 - center) / wide);
            sum += heights[tap];
        }
        int16_t *weights = made.weights.data() + static_cast<size_t>(at) * made.taps;
        double until = 0;
        int given = 0;  // of the weight that all have together: rounded here, so that no rest is left over for one of them
        for (size_t tap = 0; tap < made.taps; ++tap) {
            until += heights[tap];
            const int rounded = static_cast<int>(std::floor(until / sum * (1 << WEIGHT_BITS) + 0.5));
            weights[tap] = static_cast<int16_t>(rounded - given);
            given = rounded;
        }
        made.first.push_back(first);
    }
    return made;
}

// The same filter without weights that are 0 for every pixel.
Filter trimmed(const Filter &whole, int64_t size) {
    const size_t wanted = whole.first.size();
    const auto weights = [&](size_t at) { return whole.weights.data() + at * whole.taps; };
    Filter made;
    made.first.resize(wanted);
    int64_t next = size;
    for (size_t at = wanted; at-- > 0;) {
        const int16_t *from = weights(at);
        size_t begin = 0, end = whole.taps;
        while (!from[begin]) ++begin;
        while (!from[end - 1]) --end;
        made.first[at] = next = std::min(next, whole.first[at] + static_cast<int64_t>(begin));
        made.taps = std::max(made.taps, static_cast<size_t>(whole.first[at] + static_cast<int64_t>(end) - next));
    }
    made.weights.assign(made.taps * wanted, 0);
    for (size_t at = 0; at < wanted; ++at) {
        int64_t &first = made.first[at];
        first = std::min(first, size - static_cast<int64_t>(made.taps));
        for (size_t tap = 0; tap < whole.taps; ++tap)
            if (const int16_t weight = weights(at)[tap]) made.weights[at * made.taps + static_cast<size_t>(whole.first[at] - first) + tap] = weight;
    }
    return made;
}

}  // namespace

Filter filter_of(int64_t filter, int64_t size, int64_t wanted) { return trimmed(whole_filter(filter, size, wanted), size); }

}  // namespace cnna
