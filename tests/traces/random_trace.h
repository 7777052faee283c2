/* Random valid traces, for properties that hold for every trace. */
#ifndef PSTAR_TESTS_TRACES_RANDOM_TRACE_H
#define PSTAR_TESTS_TRACES_RANDOM_TRACE_H

#include "traces/trace.h"

/* At most `most_operators` operators; names hold quotes, spaces and letters beyond ASCII. */
struct trace *random_trace(GRand *random, uint32_t most_operators);

/* Aborts, naming the field, unless the traces are equal in every field. */
void assert_traces_equal(const struct trace *a, const struct trace *b);

#endif
