// Rows of a tensor as int8 pixels: whatever type and strides the tensor has, a row becomes [columns][channels] of int8.
#ifndef CNNA_TENSOR_ROWS_H
#define CNNA_TENSOR_ROWS_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cnna_host.h"
#include "steps.h"

namespace cnna {

class TensorRows {
  public:
    TensorRows(const cnna_tensor &tensor, const int8_t *table, float scale, int zero);

    // Reads another tensor of the same form. The table may have changed.
    void take(const void *data);

    // Writes columns * channels bytes. Returns false if a float of the row is NaN.
    bool read(int64_t image, int64_t row, int8_t *pixels);

  private:
    enum class Layout { PIXELS, PLANES, SCATTERED };

    void fetch(int64_t image, int64_t row) const;
    const uint8_t *at(int64_t image, int64_t channel, int64_t row) const;
    bool convert(const uint8_t *from, size_t channel, int8_t *to, size_t count) const;
    const uint8_t *gathered(int64_t image, int64_t channel, int64_t row);
    bool read_pixels(const uint8_t *from, int8_t *pixels);

    void compare_tables();
    void find_steps();

    cnna_tensor tensor_;
    const int8_t *table_;
    const float scale_;
    const int zero_;
    const size_t item_, channels_, columns_;
    bool one_table_ = true, again_ = false;  // again: the tables came a second time
    Layout layout_;
    std::vector<uint8_t> gathered_, apart_;
    std::vector<int8_t> planes_;
    std::vector<int8_t> seen_;   // the tables that were compared last, where they are few
    std::vector<Steps> steps_;   // in the place of tables: of all channels of a pixel, or of each plane; empty: tables are looked up
};

}  // namespace cnna

#endif
