/* An application that has its models inside: `cnna pack models/ --as library -o build/models` made the library.
 *
 *     gcc -c -Ibuild/models examples/cpp/embedded.c -o build/embedded.o
 *     g++ build/embedded.o build/models/libcnna_models.a -pthread -o build/embedded
 *     ./build/embedded REGISTERS DDR DDR_ADDRESS MODEL SAMPLES [pictures] < input.raw > output.raw
 *
 * REGISTERS and DDR are files that are mapped: on Linux devices of UIO. The input is SAMPLES of the model's only input, dense; with `pictures`
 * uint8 with their channels last. The output is that of the model's first output. First the golden samples of all models are run.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cnna_models.h"

static void must(int code, const char *doing) {
    if (code == CNNA_OK) return;
    fprintf(stderr, "embedded: %s: %s\n", doing, cnna_models_why(code));
    exit(1);
}

static void *mapped(const char *path, size_t *bytes) {
    struct stat found;
    const int file = open(path, O_RDWR | O_SYNC);
    void *memory = MAP_FAILED;
    if (file >= 0 && !fstat(file, &found)) memory = mmap(NULL, *bytes = (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) fprintf(stderr, "embedded: %s cannot be mapped\n", path), exit(1);
    return memory;
}

static size_t bytes_of(const cnna_models_tensor *tensor) { return (size_t)tensor->elements * (tensor->type == CNNA_FLOAT32 ? sizeof(float) : 1); }

int main(int count, char **words) {
    if (count < 6) return fprintf(stderr, "usage: embedded REGISTERS DDR DDR_ADDRESS MODEL SAMPLES [pictures]\n"), 2;
    size_t register_bytes, ddr_bytes;
    cnna_models_board board = {.uio = -1, .threads = 1, .timeout_seconds = 60};
    board.registers = mapped(words[1], &register_bytes);
    board.memory = mapped(words[2], &ddr_bytes);
    board.bytes = ddr_bytes, board.address = strtoull(words[3], NULL, 0);

    cnna_models *models;
    must(cnna_models_open(&board, &models), "opening");
    must(cnna_models_test(models), "the golden samples");
    for (int64_t number = 0; number < cnna_models_count(); ++number) {
        const cnna_models_entry *entry = cnna_models_at(number);
        fprintf(stderr, "%s, version %s: %lld to %lld tensors\n", entry->name, entry->version, (long long)entry->inputs, (long long)entry->outputs);
    }

    const int64_t model = cnna_models_find(words[4]), samples = atoll(words[5]);
    const cnna_models_entry *entry = cnna_models_at(model);
    if (!entry || entry->inputs != 1 || samples < 1) return fprintf(stderr, "embedded: no such model of one input, or no samples\n"), 1;
    const int pictures = count > 6 && !strcmp(words[6], "pictures");
    const size_t each = pictures ? (size_t)entry->input->elements : bytes_of(entry->input), answer = (size_t)samples * bytes_of(entry->output);
    void *x = malloc((size_t)samples * each), *outputs[64] = {NULL};
    if (!x || fread(x, each, (size_t)samples, stdin) != (size_t)samples) return fprintf(stderr, "embedded: the input is too short\n"), 1;
    for (int64_t output = 0; output < entry->outputs && output < 64; ++output) outputs[output] = malloc((size_t)samples * bytes_of(&entry->output[output]));
    const void *inputs[] = {x};
    must(pictures ? cnna_models_run_pictures(models, model, samples, x, outputs) : cnna_models_run(models, model, samples, inputs, outputs), "running");
    if (fwrite(outputs[0], 1, answer, stdout) != answer) return 1;
    cnna_models_close(models);
    return 0;
}
