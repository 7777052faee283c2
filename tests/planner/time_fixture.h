/* What tests of the time's bound draw for an iteration: a layout, budgets, and one of the kinds of
 * clocks with its link or platform. */
#ifndef PSTAR_TESTS_PLANNER_TIME_FIXTURE_H
#define PSTAR_TESTS_PLANNER_TIME_FIXTURE_H

#include "chunks/dry_run.h"
#include "planner/proof/prices.h"
#include "planner/schedule/placement.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"

/* How many iterations a test draws. Until they had what the test is about, it goes on. */
#define CASES draws(UNLESS_SANITIZED(40, 6), 120)
enum { MOST_CASES = 5000 };

/* One layout and budget, and their bounds. */
struct time_fixture {
    struct trace *trace;
    struct costs *costs;
    int clock;                 /* its kind; see time_clock */
    double finer;              /* times are divided by this, so that their rounding matters */
    struct platform *platform; /* may be NULL; then updates stay where they are */
    struct layout_spec spec;
    uint64_t device_budget, host_budget;
    bool either_side;
    tensor_id first; /* with which the host begins its updates, if they may run on either side */
    guint32 windows_seed; /* of the windows that the bound has, of those that it may have */
    struct layout *layout;
    struct trace *sides[TIME_SIDES];
    uint64_t bound_ns; /* with the best prices */
    bool chained;      /* some of them are of chains */
    bool priced;       /* the host's memory has a price */
    bool slow_memory;  /* its rate has one */
    bool alike;        /* some blocks are of one kind */
    bool joint;        /* the bound of the largest chunks together is above 0 */
};

/* Draws all but the trace, whose times it may make finer, and finds the bounds. The fixture then
 * owns the trace. */
void time_set_up(struct time_fixture *f, struct trace *trace, GRand *random);
void time_tear_down(struct time_fixture *f);

/* Returns the name of the clock, for messages. */
const char *time_clock(const struct time_fixture *f);

#endif
