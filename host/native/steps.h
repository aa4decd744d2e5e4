// A table of uint8 as arithmetic: most inputs are scaled pictures, whose tables are straight lines with rounding. A multiplication is
// quicker than a table of 256 bytes in 16 registers.
//
// y = clamp(x - 128 + d), where d is how far the line is from x - 128: few steps, so that 16 bits hold it with 8 to 11 bits behind the point.
// A line counts only if all 256 values are those of the table.
#ifndef CNNA_STEPS_H
#define CNNA_STEPS_H

#include <cstddef>
#include <cstdint>

#include "runs.h"
#include "vectors.h"

namespace cnna {

// d = (x - 128) * slope + bias, with slope / 2^(15 + shift) and bias / 2^(8 + shift).
struct Step {
    int16_t slope = 0, bias = 0;
};

// The value of a line.
int8_t value_of(uint8_t x, Step step, int shift);

// Lines in the place of tables [channels][TABLE], for elements whose channels take turns.
class Steps {
  public:
    static constexpr size_t PERIOD = COLOURS * LANES;  // elements, in whole vectors and whole pixels

    // Whether every table is a line. channels: 1 or COLOURS; else none is.
    bool find(const int8_t *tables, size_t channels);

    // to[i] = the table's value of from[i]; the first element is of channel 0.
    void apply(const uint8_t *from, int8_t *to, size_t count) const;

  private:
    int16_t slopes_[PERIOD], biases_[PERIOD];
    int shift_ = 0;
};

}  // namespace cnna

#endif
