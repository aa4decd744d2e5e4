// Calls the native library with drawn numbers, sound and unsound ones, and arrays that are exactly as long as is said.
//
//     door_fuzz CALLS SEED
//
// Under the address and undefined sanitizers. A call must answer with a code of cnna_host.h; an access beyond an array, or a number
// that overflows, ends the program. A tensor's strides are sound, since nobody says where its memory ends.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "cnna_host.h"

namespace {

std::mt19937_64 drawn;

int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(drawn); }

// Mostly small and sound; now and then what a wrong cast or a hostile file makes of a number.
int64_t any(int64_t low, int64_t high) {
    static const int64_t strange[] = {0, -1, 1, 7, 4096, 4097, 1 << 20, (1 << 20) + 1, INT64_C(1) << 31, INT64_C(1) << 62, INT64_MAX, INT64_MIN};
    return number(0, 24) ? number(low, high) : strange[number(0, 11)];
}

cnna_port port() {
    cnna_port made{};
    made.ci = any(1, 20);
    for (int64_t &size : made.folded) size = any(1, 9);
    for (int axis = 0; axis < 2; ++axis)
        made.step[axis] = any(1, 3), made.span[axis] = number(0, 2) ? 1 : any(1, 3), made.before[axis] = number(0, 2) ? 0 : any(-2, 3);
    const bool dense = number(0, 9);  // each row, block and image behind the one before, with room for sizes that are sound
    made.row_bytes = dense ? 9 * 20 : any(0, 200);
    made.block_bytes = dense ? 9 * 9 * 20 : any(0, 2000);
    made.image_bytes = dense ? 9 * 9 * 9 * 20 : any(0, 20000);
    made.zero = any(-128, 127);
    made.scale = number(0, 9) ? 0.25f : static_cast<float>(any(-1, 1));
    return made;
}

// So many bytes as are needed, where these are few; else, and now and then, others.
size_t room(int64_t images, int64_t image_bytes) {
    const bool few = images > 0 && images < 9 && image_bytes > 0 && image_bytes < (1 << 15);
    return static_cast<size_t>(few && number(0, 9) ? images * image_bytes : number(0, 5000));
}

int pack() {
    const cnna_port to = port();
    cnna_tensor from{};
    from.type = any(0, 2);
    const int64_t item = from.type == CNNA_FLOAT32 ? 4 : 1;
    int64_t bytes = item;
    for (int axis = 3; axis >= 0; --axis) {
        from.size[axis] = number(1, 6), from.stride[axis] = bytes;
        bytes *= from.size[axis];
    }
    std::vector<uint8_t> data(static_cast<size_t>(bytes), 1), table(256 * static_cast<size_t>(from.size[1]));
    if (!number(0, 30)) from.size[number(0, 3)] = -number(0, 3);  // which is refused before anything is read
    from.data = data.data();
    const int64_t images = any(1, 7);
    std::vector<uint8_t> memory(room(images, to.image_bytes));
    return cnna_pack(&to, &from, number(0, 9) ? reinterpret_cast<const int8_t *>(table.data()) : nullptr, images, memory.data(), memory.size());
}

int unpack() {
    const cnna_port from = port();
    const int64_t images = any(1, 3), type = any(1, 2);
    std::vector<uint8_t> memory(room(images, from.image_bytes));
    const auto elements = static_cast<size_t>(number(0, 3000));
    std::vector<float> answer(elements);
    return cnna_unpack(&from, memory.data(), memory.size(), images, type, answer.data(), elements);
}

int resize() {
    const int64_t rows = any(1, 12), columns = any(1, 12), channels = any(1, 4), wanted_rows = any(1, 12), wanted_columns = any(1, 12);
    const int64_t pitch = number(0, 3) ? 12 * 4 : any(0, 60), answer_pitch = number(0, 3) ? 12 * 4 : any(0, 60);
    for (int64_t sound : {rows, columns, wanted_rows, wanted_columns})
        if (sound > 12 && sound <= 1 << 15) return CNNA_OK;  // and larger than the arrays here
    for (int64_t pace : {pitch, answer_pitch})
        if (pace == -1 || pace > 4097) return CNNA_OK;
    std::vector<uint8_t> picture(12 * 4097), answer(12 * 4097);
    return cnna_resize(picture.data(), rows, columns, channels, pitch, any(0, 1), answer.data(), wanted_rows, wanted_columns, answer_pitch);
}

int answers() {
    const auto rows = static_cast<size_t>(number(0, 4)), count = static_cast<size_t>(number(0, 70)), k = static_cast<size_t>(number(0, 75));
    std::vector<float> x(rows * count), y(rows * count), values(rows * k);
    for (float &value : x) value = static_cast<float>(number(-9, 9));
    std::vector<int64_t> places(rows * k), greatest(rows);
    switch (number(0, 2)) {
    case 0: return cnna_softmax(x.data(), rows, count, y.data());
    case 1: return cnna_argmax(x.data(), rows, count, greatest.data());
    default: return cnna_top_k(x.data(), rows, count, k, values.data(), places.data());
    }
}

// A detector whose heads are as large as is said; what its grids read may lie beyond, which must be refused.
int detect() {
    const int64_t channels = number(1, 12), rows = number(1, 9), columns = number(1, 9), labels = any(1, 4), tables = number(1, 3);
    const int64_t cells = rows * columns, none = number(0, 2) ? -1 : 0;
    const int64_t word = number(0, 2) ? 1 : number(1, 40), block = cells * word + (number(0, 2) ? 0 : number(0, 9));
    std::vector<int8_t> head(static_cast<size_t>((channels + word - 1) / word * block));
    for (int8_t &value : head) value = static_cast<int8_t>(number(-128, 127));
    std::vector<float> table(static_cast<size_t>(tables) * 256);
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i % 256) / 255;
    const cnna_number side{0, number(0, 3), number(0, 5) ? 1 : any(1, 4), number(0, 9) ? 0 : any(0, 2), 1, 2, 3, 4};
    cnna_grid grid{rows, columns, 0, columns, 1, {0, number(0, 4), 0}, {none, 0, 0}, {side, side, side, side}};
    if (!number(0, 9)) grid.rows = any(1, 9);
    if (!number(0, 9)) grid.classes[number(0, 2)] = any(0, 3);
    const cnna_head tensor{number(0, 30) ? head.data() : nullptr, number(0, 30) ? word : 5000 * number(0, 1), number(0, 30) ? block : number(-1, cells * word - 1)};
    const cnna_heads heads{labels, number(0, 1), number(0, 20) ? number(0, 3) : any(0, 3), 1, tables, 1, &channels, &cells, table.data(), &grid, {any(0, 64), any(0, 64)}};
    const auto room = static_cast<size_t>(number(1, 60));
    const cnna_wanted wanted{0.1f * static_cast<float>(number(0, 11)), number(0, 9) ? 0.5f : -1.0f, number(0, 1), any(1, 50), static_cast<int64_t>(room)};
    std::vector<float> boxes(4 * room), scores(room);
    std::vector<int64_t> found(room);
    int64_t left = 0;
    if (number(0, 3)) return cnna_detect(&heads, &tensor, &wanted, boxes.data(), scores.data(), found.data(), &left);
    size_t kept = 0;
    for (float &value : boxes) value = static_cast<float>(number(-9, 9));
    return cnna_suppress(boxes.data(), room, wanted.overlap, found.data(), &kept);
}

// A loop of a program, with a job that may be packed meanwhile. Nobody plays the accelerator.
int loop() {
    const cnna_port in = port(), out = port();
    const int64_t images = any(1, 3), inputs = any(1, 1), outputs = any(1, 1), slots = any(1, 2), writes = any(1, 1);
    const bool whole = inputs <= 1 && outputs <= 1 && slots <= 2 && writes <= 1;  // of what there are arrays here
    std::vector<uint8_t> memory(room(images, in.image_bytes) + room(images, out.image_bytes));
    const bool fits = in.image_bytes > 0 && out.image_bytes > 0 && in.image_bytes < (1 << 15) && out.image_bytes < (1 << 15) && images < 9 &&
                      images > 0 && memory.size() >= static_cast<size_t>(images * (in.image_bytes + out.image_bytes));
    std::vector<uint8_t *> memories(4, memory.data());
    const cnna_write words[2] = {{12, 0}, {12, 1}};
    const cnna_program program{images, inputs, outputs, slots, writes, &in, &out, words, number(0, 20) ? memories.data() : nullptr};
    std::vector<uint32_t> registers(8);
    const uint32_t offsets[1] = {8};
    const cnna_device device{number(0, 20) ? registers.data() : nullptr, any(1, 1), any(1, 1), any(1, 1), &program, offsets, offsets,
                             0, 1, 4, 2, 4, 0, static_cast<uint32_t>(number(0, 1) * 16), 32, 12, static_cast<uint32_t>(number(0, 3)), -1, any(1, 3), any(1, 99), any(0, 9), 0.0, {}};
    if (device.programs > 1 || device.counters > 1 || device.progress > 1 || !whole) return CNNA_OK;
    cnna_loop *made = nullptr;
    const int opened = cnna_loop_open(&device, &made);
    if (opened != CNNA_OK) return opened;
    int code = CNNA_BOUNDS;
    if (fits && inputs == 1 && outputs == 1) {
        std::vector<int8_t> data(64);
        cnna_tensor from{data.data(), CNNA_INT8, {1, 1, 1, 1}, {1, 1, 1, 1}};
        for (int axis = 0; axis < 3; ++axis) from.size[axis + 1] = number(0, 3) ? 1 : number(-1, 4);
        from.stride[1] = 16, from.stride[2] = 4;
        const int8_t *table = nullptr;
        std::vector<float> answer(static_cast<size_t>(number(0, 3000)));
        void *place = answer.data();
        const int64_t type = any(1, 2), softmax = any(0, 4), which = any(0, 0);
        const size_t elements = answer.size();
        uint32_t counters[1];
        const cnna_job job{which, &from, &table, &place, &type, &elements, counters, &softmax, nullptr};
        code = cnna_loop_submit(made, &job);
        int64_t ended;
        if (code == CNNA_OK) cnna_loop_wait(made, 0, 1e-4, &ended);
        cnna_loop_close(made);
        return code;
    }
    cnna_loop_close(made);
    return code;
}

}  // namespace

int main(int count, char **arguments) {
    if (count != 3) return std::fprintf(stderr, "usage: door_fuzz CALLS SEED\n"), 1;
    drawn.seed(std::strtoull(arguments[2], nullptr, 10));
    int (*const calls[])() = {pack, unpack, resize, answers, detect, loop};
    long long codes[6][16] = {};
    for (long long n = std::atoll(arguments[1]); n; --n) {
        const int64_t which = number(0, 200) ? number(0, 4) : 5;  // a loop takes some 100 us
        const int code = calls[which]();
        if (code < CNNA_OK || code > CNNA_MEMORY) return std::fprintf(stderr, "an unknown code: %d\n", code), 1;
        ++codes[which][code];
    }
    for (auto &of : codes) std::printf("%lld right, %lld refused\n", of[CNNA_OK], of[CNNA_BOUNDS] + of[CNNA_ARGUMENT] + of[CNNA_NAN] + of[CNNA_MEMORY]);
}
