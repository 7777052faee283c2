/* How a training program tells a collector about its iteration: NVTX annotations in the domain
 * "pstar", as docs/formats.md describes them for every program.
 *
 * Everything is declared once; after that an operator costs one push and one pop. Where no tool
 * listens to NVTX, annotate_new returns NULL and each call is a branch: every function takes NULL.
 *
 * One thread annotates iterations and operators: the one that runs the operators. These ranges do
 * not overlap, and operators lie within an iteration. Copies may run beside them in any threads. */
#ifndef PSTAR_ENGINE_TRAIN_ANNOTATE_H
#define PSTAR_ENGINE_TRAIN_ANNOTATE_H

#include "chunks/residency/mover.h"
#include "traces/trace.h"

struct annotate;

/* Declares the trace's meta, tensors, operators, accesses and buffers (its sums where it has no
 * buffers); durations are the collector's to measure. `trace` must pass trace_check, and is not
 * needed after the call. */
struct annotate *annotate_new(const struct trace *trace);
void annotate_free(struct annotate *annotate);

/* A training step, numbered from 0. Copies, operators and the optimizer lie within; evaluation,
 * sampling and checkpoints do not. */
void annotate_iteration_begin(struct annotate *annotate, uint64_t step);
void annotate_iteration_end(struct annotate *annotate);

/* The operator of a moment: from where its operands are all on the device to the end of its
 * arithmetic, so that waiting for copies is no part of its duration. */
void annotate_operator_begin(struct annotate *annotate, uint32_t moment);
void annotate_operator_end(struct annotate *annotate);

/* A copy between host and device (MOVER_H2D or MOVER_D2H), in the thread that copies: for devices
 * that no profiler watches. */
void annotate_copy_begin(const struct annotate *annotate, enum mover_queue direction,
                         uint64_t bytes);
void annotate_copy_end(const struct annotate *annotate);

#endif
