/* Models inside a library, for an application in C or C++ that has an accelerator: `cnna pack --as library` makes the archive.
 *
 * Link libcnna_models.a with -pthread and the C++ standard library (g++ does). No file is read, and no Python is needed. One thread at a
 * time may use a cnna_models; docs/cluster.md has an example.
 */
#ifndef CNNA_MODELS_H
#define CNNA_MODELS_H

#include "cnna_host.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Codes beside those of cnna_host.h. */
enum {
    CNNA_MODELS_OTHER = 64, /* the registers are those of another accelerator than the models were compiled for, or of none */
    CNNA_MODELS_WRONG = 65, /* an answer to a golden sample differs */
    CNNA_MODELS_ROOM = 66,  /* the memory has fewer bytes than cnna_models_bytes() says, or is not aligned to 4,096 */
    CNNA_MODELS_STUCK = 67  /* the accelerator does not become idle after a reset */
};

/* What a code means, in a few words. */
const char *cnna_models_why(int code);

/* An input or output. type: CNNA_FLOAT32, CNNA_INT8 or CNNA_UINT8. shape, elements: of one sample. */
typedef struct {
    const char *name;
    int64_t type, rank, elements;
    int64_t shape[8];
} cnna_models_tensor;

/* A model. pictures: whether its only input takes uint8 pictures too, since the model stores what becomes of them. */
typedef struct {
    const char *name, *version;
    int64_t inputs, outputs, pictures;
    const cnna_models_tensor *input, *output;
} cnna_models_entry;

/* The models that are inside. cnna_models_find: the number of a name; -1: there is none. */
int64_t cnna_models_count(void);
const cnna_models_entry *cnna_models_at(int64_t number);
int64_t cnna_models_find(const char *name);

/* The bytes of the accelerator's memory that all models take together. */
size_t cnna_models_bytes(void);

/* An accelerator. registers: the first of them. memory: what the accelerator sees at bus address `address`, both aligned to 4,096 bytes.
 * uio, threads and cache: as of cnna_device; uio -1 polls, and a cache of nulls is memory that is not cached. */
typedef struct {
    volatile uint32_t *registers;
    uint8_t *memory;
    uint64_t address;
    size_t bytes;
    int32_t uio;
    int64_t threads;
    double timeout_seconds;
    cnna_cache cache;
} cnna_models_board;

typedef struct cnna_models cnna_models;

/* Resets the accelerator and places all models in its memory. The board's fields are copied. */
int cnna_models_open(const cnna_models_board *board, cnna_models **made);

/* Answers samples, any number of them: batches are run one after another, and the next is packed while one runs. inputs, outputs: the model's,
 * in its order, dense, in their types. After a failure the accelerator is reset, and the next call begins anew. */
int cnna_models_run(cnna_models *models, int64_t model, int64_t samples, const void *const *inputs, void *const *outputs);

/* The same for uint8 pictures [samples][rows][columns][channels], of the size of the model's input. */
int cnna_models_run_pictures(cnna_models *models, int64_t model, int64_t samples, const uint8_t *pictures, void *const *outputs);

/* Runs the golden samples of all models. An accelerator that answers others is not to be trusted. */
int cnna_models_test(cnna_models *models);

void cnna_models_close(cnna_models *models);

#ifdef __cplusplus
}
#endif

#endif
