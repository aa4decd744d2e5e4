// What follows a classifier's scores: softmax, the greatest value, and the k greatest.
//
// `cnna.spec.scores` has the same in numpy, equal to the bit. So the exponential is a polynomial of float32 operations that no
// compiler may fuse, and the sum is one of whole numbers, which does not depend on the order.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "checks.h"
#include "cnna_host.h"
#include "vectors.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace cnna {

namespace {

constexpr float LEAST = -87.0f;  // below it the answer is 0, so that no number is subnormal
constexpr float LOG2_E = 1.44269504f, LN2_HIGH = 0.693359375f, LN2_LOW = -2.12194440e-4f;
constexpr float ROUNDER = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to a whole number
constexpr float SERIES[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};  // of exp at 0
constexpr size_t LANES4 = LANES / sizeof(float);
constexpr size_t FEW = 32;  // of a top-k
constexpr float SUM_UNIT = 1073741824.0f;  // 2^30: the sum counts in units of 2^-30

// exp(x), 0 for x below LEAST: 2^k times a polynomial of what is left.
Floats4 exponential(Floats4 x) {
    const Whole4 counts = x >= LEAST;
    x = reinterpret_cast<Floats4>((reinterpret_cast<Whole4>(x) & counts) | (reinterpret_cast<Whole4>(Floats4{} + LEAST) & ~counts));
    const Floats4 power = (x * LOG2_E + ROUNDER) - ROUNDER;
    const Floats4 rest = (x - power * LN2_HIGH) - power * LN2_LOW;
    Floats4 value = Floats4{} + SERIES[0];
    for (size_t term = 1; term < sizeof SERIES / sizeof *SERIES; ++term) value = value * rest + SERIES[term];
    const Whole4 scaled = reinterpret_cast<Whole4>(value) + (__builtin_convertvector(power, Whole4) << 23);
    return reinterpret_cast<Floats4>(scaled & counts);
}

// Four values, or so many as are left; the other lanes stay as they are.
void load4(const float *from, size_t left, Floats4 &to) {
    if (left < LANES4)
        std::memcpy(&to, from, left * sizeof(float));
    else
        std::memcpy(&to, from, LANES);
}

// In whole units of 2^-30, rounded half to even.
#if defined(__aarch64__)
int64_t summed(const float *x, size_t count) {
    int64x2_t sum = vdupq_n_s64(0);
    size_t i = 0;
    for (; i + 4 <= count; i += 4) sum = vpadalq_s32(sum, vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i), SUM_UNIT)));
    int64_t whole = vaddvq_s64(sum);
    for (; i < count; ++i) whole += vcvtns_s32_f32(x[i] * SUM_UNIT);
    return whole;
}
#else
int64_t summed(const float *x, size_t count) {
    int64_t whole = 0;
    for (size_t i = 0; i < count; ++i) whole += std::lrintf(x[i] * SUM_UNIT);
    return whole;
}
#endif

// A NaN makes every answer of its row NaN, as it does in numpy. Its loops have no branch, so that they become vectors.
void softmax(const float *x, size_t count, float *answer) {
    Floats4 greatest = Floats4{} + x[0];
    Whole4 unknowns = {};
    for (size_t i = 0; i < count; i += LANES4) {
        Floats4 four = greatest;
        load4(x + i, count - i, four);
        unknowns |= four != four;
        greatest = four > greatest ? four : greatest;
    }
    float most = greatest[0];
    int unknown = unknowns[0];
    for (size_t lane = 1; lane < LANES4; ++lane) {
        most = greatest[lane] > most ? greatest[lane] : most;
        unknown |= unknowns[lane];
    }
    if (unknown || std::isinf(most)) {
        std::fill_n(answer, count, NAN);
        return;
    }
    size_t i = 0;
    Floats4 four;
    for (; i + LANES4 <= count; i += LANES4) {
        std::memcpy(&four, x + i, LANES);
        four = exponential(four - most);
        std::memcpy(answer + i, &four, LANES);
    }
    four = Floats4{} + most;
    load4(x + i, count - i, four);
    four = exponential(four - most);
    std::memcpy(answer + i, &four, (count - i) * sizeof(float));
    const float whole = static_cast<float>(summed(answer, count)) / SUM_UNIT;
    for (i = 0; i < count; ++i) answer[i] = answer[i] / whole;
}

// Whether value a at place i stands before value b at place j.
bool before(float a, int64_t i, float b, int64_t j) {
    const bool first = a != a, second = b != b;
    if (first || second) return first == second ? i < j : second;
    return a != b ? a > b : i < j;
}

// Whether none of 16 values is greater than `least`, and none of them is NaN.
bool none_of(const float *x, float least) {
    Whole4 none = ~Whole4{};
    for (size_t i = 0; i < LANES; i += LANES4) {
        Floats4 four;
        std::memcpy(&four, x + i, LANES);
        none &= four <= least;
    }
    int64_t halves[2];
    std::memcpy(halves, &none, sizeof halves);
    return (halves[0] & halves[1]) == -1;
}

// A few values are kept in order while the row is read, of which most groups of 16 have none; many are sorted.
void top_few(const float *x, size_t count, size_t k, float *values, int64_t *places) {
    size_t kept = 0, i = 0;
    auto take = [&] {
        const auto place = static_cast<int64_t>(i);
        if (kept == k && !before(x[i], place, values[k - 1], places[k - 1])) return;
        size_t at = kept < k ? kept++ : k - 1;
        for (; at > 0 && before(x[i], place, values[at - 1], places[at - 1]); --at) values[at] = values[at - 1], places[at] = places[at - 1];
        values[at] = x[i], places[at] = place;
    };
    for (; i < k; ++i) take();
    while (i < count) {
        const size_t end = std::min(count, i + LANES);
        if (end == i + LANES && none_of(x + i, values[k - 1])) i = end;
        for (; i < end; ++i)
            if (!(x[i] <= values[k - 1])) take();  // greater, or NaN
    }
}

void top_many(const float *x, size_t count, size_t k, float *values, int64_t *places) {
    std::vector<int64_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(k), order.end(),
                      [x](int64_t i, int64_t j) { return before(x[i], i, x[j], j); });
    for (size_t at = 0; at < k; ++at) places[at] = order[at], values[at] = x[order[at]];
}

bool sound_rows(const void *x, size_t rows, size_t count, const void *answer) {
    return x && answer && count > 0 && count <= static_cast<size_t>(MOST) && rows <= static_cast<size_t>(MOST);
}

}  // namespace

}  // namespace cnna

int cnna_softmax(const float *x, size_t rows, size_t count, float *answer) {
    if (!cnna::sound_rows(x, rows, count, answer)) return CNNA_ARGUMENT;
    for (size_t row = 0; row < rows; ++row) cnna::softmax(x + row * count, count, answer + row * count);
    return CNNA_OK;
}

int cnna_argmax(const float *x, size_t rows, size_t count, int64_t *answer) {
    if (!cnna::sound_rows(x, rows, count, answer)) return CNNA_ARGUMENT;
    for (size_t row = 0; row < rows; ++row) {
        const float *values = x + row * count;
        size_t best = 0;
        for (size_t i = 1; i < count && values[best] == values[best]; ++i)
            if (values[i] > values[best] || values[i] != values[i]) best = i;
        answer[row] = static_cast<int64_t>(best);
    }
    return CNNA_OK;
}

int cnna_top_k(const float *x, size_t rows, size_t count, size_t k, float *values, int64_t *places) {
    if (k > count) return CNNA_ARGUMENT;
    if (!k) return CNNA_OK;
    if (!cnna::sound_rows(x, rows, count, values) || !places) return CNNA_ARGUMENT;
    return cnna::guarded([=] {
        for (size_t row = 0; row < rows; ++row)
            (k <= cnna::FEW ? cnna::top_few : cnna::top_many)(x + row * count, count, k, values + row * k, places + row * k);
        return static_cast<int>(CNNA_OK);
    });
}
