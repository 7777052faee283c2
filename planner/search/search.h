/* The search for a plan: over layouts, where the optimizer runs, retention, homes and prefetches.
 * The simulator times every plan.
 *
 * The result is the best plan that was tried, by the objective. Baselines are tried too, with the
 * chunk sizes of a sweep and with the best plan's layout: every eviction policy with several
 * look-aheads and, if updates can be placed, all on the host; and then every strategy of other
 * systems. */
#ifndef PSTAR_PLANNER_SEARCH_SEARCH_H
#define PSTAR_PLANNER_SEARCH_SEARCH_H

#include "chunks/chunk_spread.h"
#include "chunks/plan.h"
#include "planner/search/objective.h"
#include "platforms/platform.h"
#include "sim/costs.h"

struct search_options {
    enum objective objective;
    const GPtrArray *layouts; /* struct named_layout, to choose from; NULL for layout_choices_new */
    const struct layout *start; /* with which the optimizer is placed first; NULL for `layouts`, or
                                   for the layouts of a sweep */
    uint64_t device_budget;     /* of the arena */
    uint64_t host_budget;       /* UINT64_MAX is unlimited */
    const struct costs *costs;
    const struct platform *platform; /* for updates that move to the other side; if NULL, they take
                                        as long as the trace's own updates there, if it has any */
    bool unclipped;                  /* the run does not clip gradients, so that baselines may have
                                        updates within backward */
    bool alone;                      /* skip the baselines with which a search begins */
    uint32_t seed; /* the same seed gives the same plan, unless time or a person stops the search */
    double time_limit; /* seconds; 0 is no limit */
    uint32_t threads;  /* 0 is one for each processor */
    const gint *hurry; /* atomic; once it is not 0, the search ends as if its time were over, but
                          also within trials that have a plan and without all baselines. May be
                          NULL */

    /* Called in the thread that searches with each plan that is better than those before it in its
     * search. It may copy the plan. May be NULL. */
    void (*found)(void *data, const struct plan *plan);
    void *found_data;

    /* As in sim/workers.h; returns false to stop with the best plan so far. May be NULL. */
    bool (*progress)(void *data, uint32_t done, uint32_t total);
    /* The same while the bounds of the plan that was found are proved, which has no measure. */
    bool (*proving)(void *data);
    void *progress_data;
};

/* The best baseline of one kind, by the objective. */
struct search_baseline {
    char *name;                 /* NULL if none was tried that fits */
    struct chunk_spread chunks; /* of the parameter list */
    uint32_t look_ahead;        /* moments; of policies */
    struct plan_figures figures;
};

enum { SEARCH_LAYOUTS = 16 };

/* No slack of schedules is known to be better than others. */
enum { SEARCH_NO_SLACK = -1 };

struct search_result {
    struct plan *plan;
    struct trace *trace; /* with the updates where the plan has them */
    struct search_baseline policy, strategy;
    struct search_baseline layouts[SEARCH_LAYOUTS]; /* the best plans of the search with different
                                                       layouts, best first; fewer have names */
    uint32_t layouts_tried, plans_tried; /* plans: since the last result of the same search */
    int32_t slack; /* of the best schedule, in quarters of the largest chunk, or SEARCH_NO_SLACK */
    bool stopped;  /* before its end */
    bool proof_stopped; /* before its end: the certificate's bounds may be far too low */
    bool close;         /* the best plan is so near a bound that the search ended */
    bool far;           /* the search came to its end, quickly, with a plan far above its bound */
    const char *stage;  /* what the search did last, such as "placed the optimizer"; static text */
};

/* Returns NULL if nothing fits; PLAN_ERROR_DOES_NOT_FIT says what would. Free the result with
 * search_result_free. */
struct search_result *search_plan(const struct trace *trace, const struct search_options *options,
                                  GError **error);
void search_result_free(struct search_result *result);

/* Exchanges baselines of the two results, so that the first one has the better ones. */
void search_baselines_take_better(enum objective objective, struct search_result *result,
                                  struct search_result *other);

/* Returns the best plan of some dozens of trials, without baselines: of chunks as large as the mean
 * tensor with several shares of the updates on the host, of biases and shares around the best of
 * these, and of other chunks. If no such chunks fit, tries all layouts. Shows how good a plan the
 * trace allows, in a small part of the time of search_plan, and fails as that does. */
struct search_result *search_briefly(const struct trace *trace,
                                     const struct search_options *options, GError **error);

/* The search in three parts, to compare several traces. search_begin finds a place for the
 * optimizer and a layout, which shows how good a plan the trace allows. search_go_on improves the
 * best plans. search_end tries what takes longest, if the plan is far above its bound, and the
 * baselines with the plan's chunks. The last two have time limits of their own (seconds; 0 for no
 * limit). Each returns what search_plan returns: the best plan so far. The trace and what the
 * options point to, except for the layouts, outlive the search. */
struct search *search_new(const struct trace *trace, const struct search_options *options);
struct search_result *search_begin(struct search *search, GError **error);
struct search_result *search_go_on(struct search *search, double time_limit, GError **error);
struct search_result *search_end(struct search *search, double time_limit, GError **error);

/* Returns whether the search is for the least time, and its best plan far above its bound, so that
 * more effort may find one that is clearly better. */
bool search_is_far(const struct search *search);

/* Ends a search without its last part, or one that was not begun: only tries the baselines with
 * which that part ends. Leaves out those that are known to be worse than `best`, the best plan of
 * another trace of the run. Returns what search_plan returns. */
struct search_result *search_only_sweep(struct search *search, const struct plan *best,
                                        double time_limit, GError **error);
void search_free(struct search *search);

/* Returns the least device memory with which search_plan finds a plan within the host budget of
 * `options`. This is the need of their layouts, which are the trace's, or else of one with one
 * chunk a tensor, which is the least of all layouts, with updates as traced or, if they can be
 * placed, all on the host. Returns UINT64_MAX if host memory lacks, whatever the device has; the
 * error then says how much.
 */
uint64_t requirement_device_bytes(const struct trace *trace, const struct search_options *options,
                                  GError **error);

/* Returns whether the budgets of `options` suffice; otherwise PLAN_ERROR_DOES_NOT_FIT says what
 * lacks. */
bool requirement_is_met(const struct trace *trace, const struct search_options *options,
                        GError **error);

#endif
