/* What the parts of the runtime of fake_cuda.h share: its state, and the streams' queues. */
#ifndef PSTAR_TESTS_ENGINE_CUDA_DEVICE_FAKE_RUNTIME_H
#define PSTAR_TESTS_ENGINE_CUDA_DEVICE_FAKE_RUNTIME_H

#include "fake_cuda.h"

#include <glib.h>

struct CUevent_st {
    uint64_t recorded, complete; /* how often */
    gint64 time;                 /* of the last completion */
};

enum piece_kind { RECORD, WAIT_EVENT, WAIT_VALUE, COPY, SET, RUN };

struct piece {
    enum piece_kind kind;
    struct CUevent_st *event;
    const uint64_t *value;
    uint64_t number; /* of the record, or least value */
    void *to;
    const void *from;
    size_t bytes;
    int byte; /* that is set */
    void (*run)(void *data);
    void *data;
};

struct CUstream_st {
    GThread *thread;
    GQueue pieces;
    GCond called;          /* its thread, for a new piece or the end */
    struct piece *running; /* NULL: no piece runs */
    bool ending;
    uint64_t put, done;
};

extern struct fake_runtime {
    GMutex lock;
    GCond changed;  /* a piece is done */
    GArray *ranges; /* of allocations */
    int objects;    /* streams and events */
    GList *streams;
    struct CUstream_st *legacy; /* the default stream; NULL until it is used */
    uint64_t calls, calls_until_failure;
    cudaError_t failure; /* what calls return from now on */
    cudaError_t to_come;
    uint64_t held; /* by other programs */
    bool stopped;
    uint32_t delay;
    uint32_t random;
} fake;

/* Returns whether the call succeeds. */
bool fake_enter(cudaError_t *error);

void fake_maybe_wait(void);

/* Returns whether all bytes lie in one allocation, which is on the device or not. */
bool fake_is_kind(const void *start, size_t bytes, bool on_device);

/* Queue a copy of the piece. fake_put is called with the lock held. */
void fake_put(cudaStream_t stream, const struct piece *piece);
cudaError_t fake_queue(cudaStream_t stream, const struct piece *piece);

/* Queue a piece on the default stream, and finish its work. */
void fake_queue_default(const struct piece *piece);
void fake_finish_default(void);

/* Calls the streams' threads to look again. With the lock held. */
void fake_call_streams(void);
void fake_stream_free(struct CUstream_st *stream);

#endif
