/* The rounds of a search: tasks that are added, run side by side, and ranked. */
#ifndef PSTAR_PLANNER_SEARCH_TRIALS_H
#define PSTAR_PLANNER_SEARCH_TRIALS_H

#include "planner/search/candidate.h"

#include "chunks/layout.h"
#include "planner/schedule/moment_times.h"
#include "planner/schedule/placement.h"
#include "planner/schedule/retention.h"
#include "planner/search/objective.h"
#include "planner/search/search.h"
#include "policies/policy.h"
#include "strategies/strategy.h"

/* The layouts that the search tries. */

struct layout_choice {
    struct layout_spec spec; /* given, by the list that holds the choice */
    bool swept;              /* tried first: given, or a size of a sweep in every list */
    bool alike;              /* swept, with the chunks of one before it: tried by strategies alone,
                                which may look at the size that chunks were to have */
};

struct layout_choices {
    GArray *items;            /* struct layout_choice */
    GPtrArray *layouts;       /* struct layout, of the choices */
    uint32_t *matrices_first; /* [tensor_count] an order: large tensors before small ones */
};

/* Those that are given (struct named_layout); where that is NULL, every default size of a sweep and
 * sizes between them; one chunk a tensor; sizes that hold one, two and four of the model's common
 * tensors without waste; each with the same bytes in every list and, where lists differ in width,
 * with the same tensors in every list; in the model's order and with the small tensors (biases,
 * norms) packed together behind the large ones. Where there is a `start`, of this trace, it is the
 * one that is tried first. */
struct layout_choices *layout_choices_new(const struct trace *trace, const GPtrArray *given,
                                          const struct layout *start);
void layout_choices_free(struct layout_choices *choices);

/* What the tasks of a search have found, and what is chosen from it. */

/* How hard a task tries to find a plan; a task of no effort finds what others do, or what fits, and
 * one that peeks has a glance's first schedule only. */
enum effort_level { EFFORT_0, EFFORT_1, EFFORT_2, EFFORT_3 };

/* One task of the search, and what it has found. */
struct trial {
    uint32_t layout; /* index of its choice */
    struct placement placement;
    struct retention_bias bias;
    uint8_t effort;                   /* enum effort_level */
    const struct moment_times *start; /* from which schedules are tried; NULL: the best plan's */

    double
        lower_bound;   /* what no schedule of what it keeps beats: see planner/search/candidate.h */
    struct plan *plan; /* NULL where it does not fit, or promises too little */
    struct moment_times *times; /* of `plan` */
    struct plan *policy;   /* the best of eviction policies; NULL where none was tried or fits */
    struct plan *strategy; /* the best of other systems' ways; likewise */
    uint32_t plans;        /* tried */
    uint64_t needed;       /* device memory that would fit, where it does not */
    GError *error;
    bool done;
};

/* Keeps the better of two plans and frees the other. *best may be NULL, as may `plan`. */
void trials_take_better(enum objective objective, struct plan **best, struct plan *plan);

/* The best policy's plan, and the best strategy's; NULL where there is none. */
const struct plan *trials_best_policy(const GArray *trials, enum objective objective);
const struct plan *trials_best_strategy(const GArray *trials, enum objective objective);

/* The outcomes whose plans are best, best first: indices of at most `most`, no two with the same
 * layout and placement; with `layouts`, no two with the same layout. Returns how many. */
uint32_t trials_rank(const GArray *trials, enum objective objective, bool layouts, uint32_t *best,
                     uint32_t most);

/* The best plan of all, shared with its outcome; NULL where there is none. */
struct plan *trials_choose(const GArray *trials, enum objective objective);

/* The error of the layout that needs the least. */
void trials_refuse(const GArray *trials, GError **error);

/* A GArray of struct outcome, which g_array_unref frees with what it holds. */
GArray *trials_new(void);

/* What others would do with one layout: eviction policies and the strategies of other systems.
 * Their plans are the rows of a sweep, to the byte and the nanosecond, so that a search that knows
 * them is never worse than any row. */

struct baselines;

/* `job` outlives the result, which the caller frees with rivals_free. */
struct baselines *baselines_new(const struct candidate_job *job, const struct layout_spec *spec);
void baselines_free(struct baselines *baselines);

/* The plan of a policy that fetches on demand, replayed. NULL where it does not fit, or is known
 * before it is replayed to be worse than `most` (see objective_figure; INFINITY: all are wanted).
 */
struct plan *baselines_policy(const struct baselines *baselines,
                              const struct pstar_policy_ops *policy, enum objective objective,
                              double most);

/* The plan of a strategy, replayed; it places the optimizer itself. NULL where it does not fit. */
struct plan *baselines_strategy(const struct baselines *baselines, const struct strategy *strategy);

/* The tasks of a search: what one layout and placement bring. */

/* What the tasks of a round know. */
struct trial_context {
    const struct candidate_job *job;
    enum objective objective;
    const GPtrArray *strategies; /* of other systems; NULL where updates cannot be placed */
    const gint *stop;            /* atomic */

    /* Before the round began: */
    const struct trial *incumbent; /* with the best plan; NULL: none */
    const struct plan *policy;     /* the best of a policy; NULL: none */
};

/* Every policy that may be better than the best policy, and every strategy; the outcome's placement
 * is the traced one. */
void trial_run_baselines(const struct trial_context *context, const struct layout_spec *spec,
                         struct trial *trial);

/* The best schedule of what local search keeps, with the outcome's effort; none where it does not
 * fit, or at a glance promises clearly less than the best so far. */
void trial_run(const struct trial_context *context, const struct layout_spec *spec, uint32_t seed,
               struct trial *trial);

struct search {
    struct search_options options;
    struct non_model *non_model; /* of the job */
    struct candidate_job job;
    struct layout_choices *choices;
    GPtrArray *strategies; /* struct strategy, to compare with; NULL: updates cannot be placed */
    GArray *trials;        /* struct outcome */
    guint described;       /* outcomes that are in a result */
    guint begin;           /* the first outcome of the round that runs */
    struct trial_context context; /* what that round knows */
    struct retention_bias bias;   /* of tasks that are added */
    bool certain;                 /* what runs is done whatever asks for an end */
    GPtrArray *mixes;             /* [tensor_count] each, of placements */
    double bound;                 /* seconds; of time, that no plan beats, or hardly any */
    gint64 deadline;              /* microseconds, monotonic; 0: none */
    gint stop;                    /* atomic */
};

/* The outcome of this number, until the next is added; and its layout. */
struct trial *search_trial(const struct search *search, uint32_t index);
const struct layout_choice *search_layout(const struct search *search, const struct trial *trial);

/* Adds a task with the search's taste; a glance once for each layout, placement and taste. */
void search_add(struct search *search, uint32_t layout, struct placement placement,
                enum effort_level effort);
void search_add_once(struct search *search, uint32_t layout, struct placement placement);

/* Runs `task` for the outcomes that were added since the last call, unless the search is over, and
 * finds the best. */
void search_run(struct search *search, void (*task)(void *data, uint32_t index));

/* Tasks: what others do; and plans. */
void search_run_baselines(void *data, uint32_t index);
void search_run_plans(void *data, uint32_t index);

/* Stopped, or with a plan that is good enough. */
bool search_is_over(const struct search *search);

#endif
