/* Random valid traces, for properties that hold for every trace. */
#ifndef PSTAR_TESTS_TRACES_RANDOM_TRACE_H
#define PSTAR_TESTS_TRACES_RANDOM_TRACE_H

#include "traces/trace.h"

/* Makes at most `most_operators` operators. Names contain quotes, spaces and non-ASCII letters. */
struct trace *random_trace(GRand *random, uint32_t most_operators);

/* Aborts, naming the field, if the traces differ. */
void assert_traces_equal(const struct trace *a, const struct trace *b);

#endif
