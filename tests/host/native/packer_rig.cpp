// A packer that is kept, against one made for each picture (test_loop_rig.py builds and calls it).
//
//     packer_rig PICTURES SEED
//
// Tables and pictures keep their addresses, while values, pitches, types and numbers of channels change, or stay for a while. Memory runs
// out at random in the packer that is kept, which then packs again. Ends with 0 and a line if both have given the same bytes.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#include "cnna_host.h"

namespace {

constexpr int64_t MOST_CHANNELS = 4, ROWS = 3, COLUMNS = 37, GAP = 5;
constexpr size_t TABLE = 256;

uint32_t starving = 0;  // this allocation from now on fails; 0: none

[[noreturn]] void fail(const char *what, int number) {
    std::fprintf(stderr, "picture %d: %s\n", number, what);
    std::exit(1);
}

}  // namespace

__attribute__((noinline)) void *operator new(size_t bytes) {
    if (starving && --starving == 0) throw std::bad_alloc();
    if (void *made = std::malloc(bytes)) return made;
    throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void *memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace {

cnna_port port_of(int64_t channels) {
    cnna_port made{};
    made.ci = 16;
    made.folded[0] = 4 * channels, made.folded[1] = ROWS - 1, made.folded[2] = COLUMNS - 1;
    made.step[0] = made.step[1] = 1, made.span[0] = made.span[1] = 2;
    made.row_bytes = made.folded[2] * made.ci;
    made.block_bytes = made.image_bytes = made.folded[1] * made.row_bytes;
    made.zero = -3, made.scale = 0.5f;
    return made;
}

// Straight lines as scaled pictures have them, one for all channels or one for each; at times with one value that is off.
void draw_tables(std::mt19937 &random, int8_t *tables, int64_t channels) {
    std::uniform_real_distribution<double> slopes(0.85, 1.1), offsets(-20, 20);
    const bool one = random() % 3 == 0;
    double slope = 0, offset = 0;
    for (int64_t channel = 0; channel < channels; ++channel) {
        if (!channel || !one) slope = slopes(random), offset = offsets(random);
        for (size_t x = 0; x < TABLE; ++x)
            tables[static_cast<size_t>(channel) * TABLE + x] =
                static_cast<int8_t>(std::clamp(std::nearbyint((static_cast<double>(x) - 128) * slope + offset), -128.0, 127.0));
    }
    if (random() % 3 == 0) ++tables[random() % (static_cast<size_t>(channels) * TABLE)];
}

// Pictures of some channels, whose packer is kept.
void played(std::mt19937 &random, int64_t channels, int pictures) {
    const cnna_port port = port_of(channels);
    const auto bytes = static_cast<size_t>(port.image_bytes);
    std::vector<uint8_t> picture(static_cast<size_t>(MOST_CHANNELS * ROWS * (COLUMNS + GAP))), kept(bytes), fresh(bytes);
    std::vector<int8_t> tables(static_cast<size_t>(channels) * TABLE);
    cnna_packer *packer = nullptr;
    if (cnna_packer_open(&port, &packer) != CNNA_OK) fail("it does not open", 0);
    cnna_tensor tensor{picture.data(), CNNA_UINT8, {1, channels, ROWS, COLUMNS}, {}};
    for (int number = 0; number < pictures; ++number) {
        if (number == 0 || random() % 3 == 0) draw_tables(random, tables.data(), channels);
        if (number == 0 || random() % 5 == 0) {
            const int64_t pitch = COLUMNS + static_cast<int64_t>(random() % GAP);
            const bool last = random() % 2;
            const int64_t strides[2][4] = {{0, ROWS * pitch, pitch, 1}, {0, 1, pitch * channels, channels}};
            std::copy(strides[last], strides[last] + 4, tensor.stride);
        }
        for (uint8_t &value : picture) value = static_cast<uint8_t>(random());
        int code = CNNA_MEMORY;
        for (uint32_t first = random() % 4; code == CNNA_MEMORY; ++first) {  // allocation number `first` fails, then the next one
            starving = random() % 2 ? first : 0;
            code = cnna_packer_pack(packer, &tensor, tables.data(), 1, kept.data(), bytes);
        }
        starving = 0;
        if (code != CNNA_OK || cnna_pack(&port, &tensor, tables.data(), 1, fresh.data(), bytes) != CNNA_OK) fail("it is refused", number);
        if (kept != fresh) fail("other bytes than those of a packer of its own", number);
    }
    cnna_packer_close(packer);
}

}  // namespace

int main(int count, char **arguments) {
    if (count < 3) fail("usage: packer_rig PICTURES SEED", 0);
    std::mt19937 random(static_cast<uint32_t>(std::atoi(arguments[2])));
    for (int64_t channels = 1; channels <= MOST_CHANNELS; ++channels) played(random, channels, std::atoi(arguments[1]));
    std::printf("all pictures alike\n");
    return 0;
}
