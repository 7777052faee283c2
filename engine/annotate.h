/* Tells a collector about the iterations of a training program: NVTX annotations in the domain
 * "pstar", as docs/formats.md describes them.
 *
 * Everything is declared once; after that an operator costs one push and one pop. If no tool
 * listens to NVTX, annotate_new returns NULL and each call is only a branch: every function accepts
 * NULL.
 *
 * The thread that runs the operators annotates iterations and operators. These ranges do not
 * overlap, and operators lie within an iteration. Copies may run beside them in any thread, and so
 * may operators on the host, if nothing waits for them. */
#ifndef PSTAR_ENGINE_ANNOTATE_H
#define PSTAR_ENGINE_ANNOTATE_H

#include "chunks/residency/mover.h"
#include "traces/trace.h"

struct annotate;

/* What says how long an operator takes. */
enum annotate_timing {
    ANNOTATE_RANGES, /* its range: the program waits for every operator */
    /* A profiler of the device: ranges of operators on the device only queue work. The device
     * annotates operators on the host, in the thread that runs them. */
    ANNOTATE_DEVICE,
    /* The same, and nothing waits for copies, so that an iteration takes as long as its operators.
     */
    ANNOTATE_DEVICE_RESIDENT
};

/* Declares the trace's meta, tensors, operators, accesses and buffers, or its sums if it has no
 * buffers. The collector measures durations. `trace` must pass trace_check, and is not needed after
 * the call. */
struct annotate *annotate_new(const struct trace *trace, enum annotate_timing timing);
void annotate_free(struct annotate *annotate);

/* Returns whether the program must wait for operators on the device. */
bool annotate_waits(const struct annotate *annotate);

/* Mark a training step, numbered from 0. Copies, operators and the optimizer lie within it;
 * evaluation, sampling and checkpoints do not. */
void annotate_iteration_begin(struct annotate *annotate, uint64_t step);
void annotate_iteration_end(struct annotate *annotate);

/* Mark the operator of a moment, from when all its operands are on the device to the end of its
 * arithmetic, so that waiting for copies is not part of its duration. */
void annotate_operator_begin(const struct annotate *annotate, moment_id moment);
void annotate_operator_end(const struct annotate *annotate);

/* Mark a copy between host and device (MOVER_H2D or MOVER_D2H), in the thread that copies, for
 * devices that no profiler watches. */
void annotate_copy_begin(const struct annotate *annotate, enum mover_queue direction,
                         uint64_t bytes);
void annotate_copy_end(const struct annotate *annotate);

/* Mark a gather, in the thread that exchanges, from its turn on; `bytes` are those that this rank
 * receives. */
void annotate_gather_begin(const struct annotate *annotate, uint64_t bytes);
void annotate_gather_end(const struct annotate *annotate);

/* Mark that a gather is queued, in the thread that runs the operators and between these, for
 * devices that a profiler watches; otherwise they do nothing. */
void annotate_queued_gather_begin(const struct annotate *annotate, uint64_t bytes);
void annotate_queued_gather_end(const struct annotate *annotate);

#endif
