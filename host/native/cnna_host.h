/* The door of cnna's native host library: what Python, C and C++ call.
 *
 * Every function takes plain arrays with their sizes and answers with a code; no exception passes this door. Nothing is kept between
 * two calls but what a cnna_loop or a cnna_packer holds. Any thread may call any function. `docs/host.md` says what each is for; a numpy form of each, equal to the
 * bit, stands in cnna.spec and in cnna.host.native.
 */
#ifndef CNNA_HOST_H
#define CNNA_HOST_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CNNA_API __attribute__((visibility("default")))
#else
#define CNNA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Codes. Python forms the words. */
enum {
    CNNA_OK = 0,
    CNNA_NAN = 1,        /* a float is NaN, for which int8 has no value */
    CNNA_BOUNDS = 2,     /* an array is too small for what the other arguments say */
    CNNA_ARGUMENT = 3,   /* a size, a type or a number is out of range */
    CNNA_MEMORY = 4,     /* no memory left */
    CNNA_STOPPED = 5,    /* the accelerator has STATUS.error set */
    CNNA_STANDSTILL = 6, /* a run makes no progress */
    CNNA_LATE = 7,       /* a run takes more clocks than its limit */
    CNNA_EXPIRED = 8,    /* the time to wait is over */
    CNNA_BUSY = 9        /* somebody else may be at work: nothing was done */
};

/* Types of elements. */
enum { CNNA_UINT8 = 0, CNNA_INT8 = 1, CNNA_FLOAT32 = 2 };

/* A tensor [images, channels, rows, columns] of the host. stride: bytes between neighbours, of any sign. */
typedef struct {
    const void *data;
    int64_t type;
    int64_t size[4];
    int64_t stride[4];
} cnna_tensor;

/* A port of a program, as docs/artifact.md describes it. folded: the picture in memory [channels, rows, columns]; step, span and
 * before: [rows, columns] of the fold, which is 1, 1 and 0 where nothing is folded. */
typedef struct {
    int64_t ci;
    int64_t image_bytes, block_bytes, row_bytes;
    int64_t folded[3];
    int64_t step[2], span[2], before[2];
    int64_t zero;
    float scale;
} cnna_port;

/* SHA-256, in hexadecimal, of the sources from which this library was built; Python compares it with the sources beside it. */
CNNA_API const char *cnna_host_sources(void);

/* Packs a tensor for a port: images * image_bytes bytes from `memory` on, of which every one is written.
 *
 * table: int8 [channels][256], the value of each uint8; needed for uint8 alone. float32 is divided by the port's scale, rounded half
 * to even, and shifted by zero. Copies of the last image complete `images`. */
CNNA_API int cnna_pack(const cnna_port *port, const cnna_tensor *tensor, const int8_t *table, int64_t images, uint8_t *memory, size_t bytes);

/* What packs tensors of one form for one port again and again, as cnna_pack does, and keeps what it has worked out: it is quicker from the
 * third time on. One thread at a time may use it. */
typedef struct cnna_packer cnna_packer;
CNNA_API int cnna_packer_open(const cnna_port *port, cnna_packer **made);
CNNA_API int cnna_packer_pack(cnna_packer *packer, const cnna_tensor *tensor, const int8_t *table, int64_t images, uint8_t *memory, size_t bytes);
CNNA_API void cnna_packer_close(cnna_packer *packer);

/* Unpacks `images` images of a port that is not folded to [images, channels, rows, columns], dense. type: CNNA_INT8, or
 * CNNA_FLOAT32, which gives (q - zero) * scale. elements: of `answer`. */
CNNA_API int cnna_unpack(const cnna_port *port, const uint8_t *memory, size_t bytes, int64_t images, int64_t type, void *answer, size_t elements);

/* exp(x - max) divided by its sum, for each of `rows` rows of `count` values. */
CNNA_API int cnna_softmax(const float *x, size_t rows, size_t count, float *answer);

/* The place of the greatest value of each row; of equal values the first; a NaN is the greatest. */
CNNA_API int cnna_argmax(const float *x, size_t rows, size_t count, int64_t *answer);

/* The k greatest values of each row, greatest first, and their places; of equal values the lower place comes first; NaN last. */
CNNA_API int cnna_top_k(const float *x, size_t rows, size_t count, size_t k, float *values, int64_t *places);

/* Filters of cnna_resize. */
enum { CNNA_BILINEAR = 0, CNNA_AREA = 1 };

/* Scales a picture uint8 [rows][columns][channels] to another size. A filter covers at least the distance between two pixels of
 * the answer, so that no pixel is left out where a picture becomes smaller. pitch: bytes from a row to the next. */
CNNA_API int cnna_resize(
    const uint8_t *picture, int64_t rows, int64_t columns, int64_t channels, int64_t pitch, int64_t filter,
    uint8_t *answer, int64_t wanted_rows, int64_t wanted_columns, int64_t answer_pitch);

/* --- detectors: docs/detectors.md says what grids, numbers and tables are --- */

/* A number of a box, in pixels of the model's picture: base + down * row + across * column + factor * value. The value is that of a table of a channel's integer;
 * with several bins, the mean number of a bin, where table[most - q] is the weight of the bin of integer q. */
typedef struct {
    int64_t head, channel, bins, table;
    float base, down, across, factor;
} cnna_number;

/* The boxes of one map, or of one anchor in it. first, down, across: rows of the model's output. classes, objectness: head, first
 * channel, table; objectness[0] is -1 where there is none. */
typedef struct {
    int64_t rows, columns;
    int64_t first, down, across;
    int64_t classes[3], objectness[3];
    cnna_number box[4];
} cnna_grid;

/* How scores come from integers. TABLES: each is a table of one. SOFTMAX: the softmax of the background and the classes, whose channels
 * follow it; table[most - q] is the weight of integer q. PEAKS: as TABLES, but only where none of the eight cells around has a greater
 * one. AREAS: one class; cells that pass and touch are one area, whose score is their mean; of a grid's box, `across` of the first and
 * `down` of the second number are the sizes of a cell. */
enum { CNNA_TABLES = 0, CNNA_SOFTMAX = 1, CNNA_PEAKS = 2, CNNA_AREAS = 3 };

/* channels, cells: of each head tensor. table: [tables][256], from integer -128 on; scores must rise.
 * centre: whether a box is x, y, width and height; else left, top, right, bottom. edge: columns and rows of the picture at whose edges
 * boxes are cut; 0, 0: they are not. */
typedef struct {
    int64_t labels, centre, scores, heads, tables, grids;
    const int64_t *channels, *cells;
    const float *table;
    const cnna_grid *grid;
    int64_t edge[2];
} cnna_heads;

/* least: score. overlap: of boxes of one class. best: the best class of each box alone. candidates: with which suppression begins, the surest. most: detections. */
typedef struct {
    float least, overlap;
    int64_t best, candidates, most;
} cnna_wanted;

/* Where a head tensor is. The integer of a channel and a cell is data[channel / word * block + cell * word + channel % word], as in the
 * accelerator's memory: words of `word` channels, and blocks of so many bytes. Dense planes [channels][cells] are words of one channel in
 * blocks of `cells`; scores of SOFTMAX and PEAKS take these alone. */
typedef struct {
    const int8_t *data;
    int64_t word, block;
} cnna_head;

/* The detections of one picture, the surest first; of equal ones that of the lowest class, then of the lowest row. tensors: of each head. boxes: [most][4], left, top, right, bottom;
 * scores, labels: [most]. */
CNNA_API int cnna_detect(const cnna_heads *heads, const cnna_head *tensors, const cnna_wanted *wanted, float *boxes, float *scores, int64_t *labels, int64_t *count);

/* Where the model's own output goes: number n of row r of boxes is box[r * box_row + n * box_number], and so with scores, the objectness
 * before the classes. boxes: rows. elements: of the arrays. centred: whether boxes are middles and sizes where the heads have corners.
 * order, scale: of the numbers that the heads have, the place in a row, and by what they are divided. */
typedef struct {
    float *box, *score;
    int64_t box_row, box_number, box_elements, score_row, score_number, score_elements;
    int64_t boxes, centred;
    int64_t order[4];
    float scale[4];
} cnna_rows;

/* All rows of the model's own output. tensors: of each head, dense planes. Scores are TABLES. */
CNNA_API int cnna_model_rows(const cnna_heads *heads, const cnna_head *tensors, const cnna_rows *rows);

/* The numbers of the boxes to keep, of finite boxes [count][4], the surest first: none overlaps one before it that is kept by more. kept: room for `count`. */
CNNA_API int cnna_suppress(const float *boxes, size_t count, float overlap, int64_t *kept, size_t *left);

/* --- the run loop: a thread that packs, starts, waits and unpacks, run after run --- */

/* A write to a register: its byte offset, and the word. */
typedef struct {
    uint32_t offset, word;
} cnna_write;

/* One program on the accelerator. images: its batch. words: [slots][writes], what a start needs in the registers. memories: [slots][inputs + outputs], where each port's bytes are. Two slots let a run be packed while another runs; with a queue of two places, three let two wait. */
typedef struct {
    int64_t images, inputs, outputs, slots, writes;
    const cnna_port *in, *out;
    const cnna_write *words;
    uint8_t *const *memories;
} cnna_program;

/* What makes written bytes visible to the accelerator, and its bytes to the host: clean before a run, for parts of ports, by several
 * threads at once; invalidate after it, for whole ports. Null where memory is not cached, or is coherent. cnna_cache_clean and cnna_cache_invalidate work on this
 * processor's own cache. Whoever allocates memory for outputs has it invalidated once, so that none of its lines is dirty. */
typedef struct {
    void (*clean)(void *context, const uint8_t *memory, size_t bytes);
    void (*invalidate)(void *context, const uint8_t *memory, size_t bytes);
    void *context;
} cnna_cache;

/* An accelerator: its registers, and the words by which a run is started and its end is seen. counters: offsets that are read after
 * every run. progress: offsets that change while a run goes on, the first of which counts clocks. limit_clocks: 0: none.
 * uio: a file that becomes readable at an interrupt, and is armed by writing 1 to it; the loop does not close it. -1, or interrupts
 * that do not come: STATUS is polled. threads: that pack a run together, the loop's own among them; 1 or more. With several, the
 * loop looks at STATUS without a pause while a run is about to end. band_bytes: a thread is woken for no less.
 *
 * start, queue and live are bits of CTRL; keep is what stays set beside them. queue: queues a start; 0: there is no queue, and places,
 * live and finished mean nothing. places: starts that may be pending. live: shows the counters and progress of a run from the queue. finished: the
 * register that counts runs. The counters of a run are all 0 where the next one had ended before they were read. */
typedef struct {
    volatile uint32_t *registers;
    int64_t programs, counters, progress;
    const cnna_program *program;
    const uint32_t *counter_offsets, *progress_offsets;
    uint32_t ctrl, start, status, done, error;
    uint32_t keep, queue, live, finished, places;
    int32_t uio;
    int64_t threads, band_bytes;
    int64_t limit_clocks;
    double timeout_seconds;
    cnna_cache cache;
} cnna_device;

/* Detections in place of output tensors. ports: the output port of each head. wanted and heads are as for cnna_detect; arrays that heads
 * point to, and grids, must live until the job has ended. */
typedef struct {
    const cnna_heads *heads;
    const cnna_wanted *wanted;
    const int64_t *ports;
} cnna_detector;

enum { CNNA_DETECTED = 4 };

/* One run. inputs and tables: of each input port, as cnna_pack takes them. outputs: where the elements of each output port go, which are of
 * `types`; elements: room there. counters: room for the device's counters. softmax: for each output port, of how many values each row is
 * that goes through cnna_softmax in its place; 0: none; null: no port. detector: null, or else
 * outputs and elements are those of CNNA_DETECTED arrays: boxes, scores, labels and counts of each image, the first three with room for
 * `most` in each. The arrays must live until the job has ended; the structs need not. */
typedef struct {
    int64_t program;
    const cnna_tensor *inputs;
    const int8_t *const *tables;
    void *const *outputs;
    const int64_t *types;
    const size_t *elements;
    uint32_t *counters;
    const int64_t *softmax;
    const cnna_detector *detector;
} cnna_job;

typedef struct cnna_loop cnna_loop;

/* Starts the thread. It touches the accelerator only while there are jobs. */
CNNA_API int cnna_loop_open(const cnna_device *device, cnna_loop **made);

/* Appends a job. Jobs end in order. */
CNNA_API int cnna_loop_submit(cnna_loop *loop, const cnna_job *job);

/* Appends a job; if no other is open, the caller's own thread packs, starts, waits and unpacks, with the helpers, for about `seconds`.
 * CNNA_OK: it has ended. CNNA_EXPIRED: it was appended, and goes on by itself, or has failed: cnna_loop_wait says what came of it. */
CNNA_API int cnna_loop_run(cnna_loop *loop, const cnna_job *job, double seconds);

/* The turn to use the accelerator among several processes: the lock (flock) of an open file, which names its last holder. holder: what the
 * file says if that was this one. registers: `held` has words that the registers hold while they are those of the same image, which is
 * idle. kept: set by cnna_loop_run_in_turn: whether the lock is left to the caller. */
typedef struct {
    int32_t file, kept;
    const uint8_t *holder;
    int64_t holder_bytes, registers;
    const cnna_write *held;
} cnna_turn;

/* As cnna_loop_run, in a turn that it takes before and gives back after. CNNA_BUSY, or another code: nothing was done, because the turn is
 * another's or was meanwhile, registers hold other words, jobs are open, nobody helps, or this process is a fork. CNNA_EXPIRED: as there; the
 * turn is kept. A loop of null is busy. */
CNNA_API int cnna_loop_run_in_turn(cnna_loop *loop, const cnna_job *job, cnna_turn *turn, double seconds);

/* Waits until more than `seen` jobs have ended, a job has failed, or the time is over (CNNA_EXPIRED). ended: how many by now. Returns
 * the code of the job that failed, which is job number `ended`; the thread then rests, and the accelerator stays as it is. */
CNNA_API int cnna_loop_wait(cnna_loop *loop, int64_t seen, double seconds, int64_t *ended);

/* Runs the job that failed again; the accelerator must be idle. */
CNNA_API int cnna_loop_retry(cnna_loop *loop);

/* Ends the thread alone: a thread that waits, or hands a job over, waits until its time is over. For the end of a program, where nobody
 * can tell which threads still use the loop. */
CNNA_API void cnna_loop_stop(cnna_loop *loop);

/* Ends the thread, and frees the loop, which nobody may use any more. What runs on the accelerator goes on. */
CNNA_API void cnna_loop_close(cnna_loop *loop);

/* The bytes of a line of this processor's cache; 0: a program cannot maintain it. */
CNNA_API size_t cnna_cache_line(void);

/* Writes the lines that hold these bytes back to DDR, or throws them away, and waits for it. Where cnna_cache_line is 0, they do nothing. context: nothing, as cnna_cache wants it. */
CNNA_API void cnna_cache_clean(void *context, const uint8_t *memory, size_t bytes);
CNNA_API void cnna_cache_invalidate(void *context, const uint8_t *memory, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
