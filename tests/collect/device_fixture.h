/* Runs pstar-collect on a program that uses a CUDA device. The driver, the profiler and the
 * management library are fakes (tests/collect/fake); everything else is real. */
#ifndef PSTAR_TESTS_COLLECT_DEVICE_FIXTURE_H
#define PSTAR_TESTS_COLLECT_DEVICE_FIXTURE_H

#include "tests/collect/process.h"
#include "traces/activity/activity.h"
#include "traces/records.h"

/* What the traced run left. */
struct traced {
    struct records *records;
    struct activity *activity;
};

/* As set_up. `data` says what the fakes do; NULL for nothing special. Sets the environment only for
 * the traced program. */
void set_up_fakes(struct fixture *fixture, gconstpointer data);

struct traced read_traced(const struct fixture *fixture);
void free_traced(struct traced *traced);

/* Returns how many recorded kernels have the name. */
uint32_t count_kernels(const struct traced *traced, const char *name);

/* Asserts that pstar-trace finds the trace consistent, and that its info says this. */
void assert_checked(struct fixture *fixture, const char *info_says);

#endif
