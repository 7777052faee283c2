/* The trials of a search. A trial is one task: a layout, a placement, a bias and an effort; it
 * finds a plan. Trials are added, run side by side, and ranked. This is the internal header of the
 * search. */
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
#include "sim/baselines.h"

/* In iterations of more operators, all layouts are tried only for the variant that wins, and only
 * one of those that are alike. */
enum { LONG_ITERATION = 1000 };

/* In iterations of more operators a schedule takes so long that fewer of the best are refined. One
 * copy is then so little of the whole that they hardly differ. */
enum { VERY_LONG_ITERATION = 4000 };

static inline bool iteration_is_very_long(const struct trace *trace)
{
    return trace->operator_count > VERY_LONG_ITERATION;
}

/* Iterations of at most so many operators are searched more thoroughly, because that is quick. Up
 * to PATIENT_MOST, they are so only if their plan is very far from its bound. */
enum { THOROUGH_MOST = 2000, PATIENT_MOST = 6000 };

/* A round of random changes that gains less than this share is not worth another. */
#define LEAST_GAIN 5e-4

/* A layout to try. */

struct layout_choice {
    struct layout_spec spec; /* given by the list that holds the choice */
    uint8_t kind;            /* of its sizes and order; 0 if it was given */
    bool swept;              /* tried first: a given layout, or a size of a sweep in every list */
    bool duplicate; /* swept, but with the chunks of an earlier one: only strategies try it, which
                   may depend on the requested chunk size */
    bool done;      /* all policies and strategies were tried with it after the search */
};

struct layout_choices {
    GArray *items;            /* struct layout_choice */
    GPtrArray *layouts;       /* struct layout, of the choices */
    uint32_t *matrices_first; /* [tensor_count] an order with large tensors before small ones */
};

/* Lists the layouts to try. `given` (struct named_layout) is used alone; if it is NULL, the list
 * holds the default sizes of a sweep and sizes between them, one chunk a tensor, and sizes that
 * hold one, two and four of the model's common tensors without waste. Each size comes with equal
 * bytes in every list and, if lists differ in width, with equal tensors in every list; and in the
 * model's order or with small tensors (biases, norms) packed behind the large ones. `start` (may be
 * NULL), a layout of this trace, is tried first. */
struct layout_choices *layout_choices_new(const struct trace *trace, const GPtrArray *given,
                                          const struct layout *start);
void layout_choices_free(struct layout_choices *choices);

/* Returns the index of the choice with the chunks and slots of `layout`, which is added if there is
 * none. */
uint32_t layout_choices_find(struct layout_choices *choices, const struct layout *layout);

/* The effort of a trial. With 0 it makes only the first schedule; trials of baselines also have 0.
 */
enum effort_level { EFFORT_0, EFFORT_1, EFFORT_2, EFFORT_3 };

/* How a trial decides what its layout and the shares of its placement leave open. */
struct trial_settings {
    struct retention_bias bias;
    bool little_slack;      /* schedules leave parts of a chunk free, instead of whole ones */
    tensor_id first_update; /* with which the host begins, unless its updates are as traced */
};

/* A trial and its result. */
struct trial {
    uint32_t layout; /* index of its layout choice */
    struct placement placement;
    struct retention_bias bias;
    bool little_slack;                /* as in struct trial_settings */
    uint8_t effort;                   /* enum effort_level */
    const struct moment_times *start; /* of the plan to begin with; NULL for the best plan's */

    double lower_bound; /* no schedule of what it retains is better: see candidate_lower_bound */
    struct plan *plan;  /* NULL if it does not fit, or if its lower bound is poor */
    struct moment_times *times; /* of `plan` */
    struct plan *policy;   /* the best of the eviction policies; NULL if none was tried or fits */
    struct plan *strategy; /* the best of other systems' strategies; NULL as for `policy` */
    uint32_t plans;        /* number of plans tried */
    int32_t slack;         /* that the schedule of `plan` leaves free, in quarters of the largest
                              chunk; SEARCH_NO_SLACK if others were not tried */
    uint8_t addresses;     /* enum dispatch_addresses of `plan`; at first, those to begin with */
    uint64_t needed;       /* device memory that would fit, if it does not fit */
    GError *error;
    bool pruned; /* has no plan, because its lower bound was poor */
    bool done;
};

/* Keeps the better of two plans and frees the other. Both may be NULL. */
void trials_take_better(enum objective objective, struct plan **best, struct plan *plan);

/* Return the best plan of a policy, or of a strategy; NULL if there is none. */
const struct plan *trials_best_policy(const GArray *trials, enum objective objective);
const struct plan *trials_best_strategy(const GArray *trials, enum objective objective);

/* Writes the indices of the best trials with plans, best first: at most `most`, no two with the
 * same layout and placement or, with `layouts`, no two with the same layout. Returns how many. */
uint32_t trials_rank(const GArray *trials, enum objective objective, bool layouts, uint32_t *best,
                     uint32_t most);

/* Returns a reference to the best plan, or NULL if there is none. */
struct plan *trials_choose(const GArray *trials, enum objective objective);

/* Sets the error of the layout that needs the least memory. */
void trials_refuse(const GArray *trials, GError **error);

/* Returns a GArray of struct trial. g_array_unref frees it and what its trials own. */
GArray *trials_new(void);

/* Opens the baselines of the job with the layout, and with the trace or one whose updates are
 * placed otherwise; both outlive them. They are the plans of policies and strategies that the
 * search is compared with. They are the rows of a sweep, to the byte and the
 * nanosecond, so that a search that knows them is never worse than any row. */
void trial_open_baselines(const struct candidate_job *job, const struct trace *trace,
                          const struct layout *layout, struct baselines *baselines);

/* Returns the replayed plan of a policy. Returns NULL if it does not fit, or is known before its
 * chunks get addresses to be worse than `most` (an objective_of_plan; INFINITY for all). */
struct plan *trial_plan_policy(const struct candidate_job *job, const struct baselines *baselines,
                               const struct pstar_policy_ops *policy, uint32_t look_ahead,
                               enum objective objective, double most);

/* Returns the replayed plan of a strategy, or NULL as trial_plan_policy. */
struct plan *trial_plan_strategy(const struct candidate_job *job, const struct baselines *baselines,
                                 const struct strategy *strategy, enum objective objective,
                                 double most);

/* The data that the trials of a round share. */
struct trial_context {
    const struct candidate_job *job;
    enum objective objective;
    const GPtrArray *strategies;       /* of other systems; NULL if updates cannot be placed */
    const GPtrArray *sweep_strategies; /* those of the sweeps; NULL if none may pay */
    const struct plan *elsewhere;      /* the best plan of another trace of the run; may be NULL */
    double near_ratio; /* sweeps go on from baselines that take up to this times the best plan's */
    bool thorough;     /* the last rounds of a search: nothing is pruned that may be better */
    const gint *stop;  /* atomic */
    const gint *hurry; /* as in struct search_options; may be NULL */

    /* Results of the rounds before: */
    const struct trial *incumbent; /* with the best plan; may be NULL */
    const struct plan *policy;     /* the best plan of a policy; may be NULL */
    const struct plan *strategy;   /* the best plan of a strategy; may be NULL */
};

/* Returns whether the trial is to end with what it has: the search can be in a hurry, and was
 * stopped, or the trial has a plan that is enough now. */
bool trial_is_hurried(const struct trial_context *context, const struct trial *trial);

/* Tries every policy that may beat the best policy, without look-ahead, and every strategy. The
 * trial has the traced placement. */
void trial_run_baselines(const struct trial_context *context, const struct layout_choice *choice,
                         struct trial *trial);

/* Returns whether sweeps of policies try one probe and a third of the sizes: in long iterations if
 * the best plan has another trace, and in very long ones. */
bool trial_sweeps_briefly(const struct trial_context *context);

/* Tries the strategies of the sweeps and, with the trial's placement, the policies that may beat
 * the incumbent with any look-ahead. If the iteration has more than a few operators, policies are
 * only tried if one of a few comes near the incumbent. trial_sweep_wholly does without that
 * condition. */
void trial_sweep(const struct trial_context *context, const struct layout_choice *choice,
                 struct trial *trial);
void trial_sweep_wholly(const struct trial_context *context, const struct layout_choice *choice,
                        struct trial *trial);

/* Finds the best schedule of what local search retains, with the trial's effort. Finds none if the
 * candidate does not fit or, at low effort, if its lower bound is clearly worse than the incumbent;
 * in a thorough search, than the incumbent's plan. */
void trial_run(const struct trial_context *context, const struct layout_spec *spec, uint32_t seed,
               struct trial *trial);

struct search {
    struct search_options options;
    struct non_model *non_model; /* of the job */
    struct candidate_job job;
    struct layout_choices *choices;
    GPtrArray *strategies; /* struct strategy, to compare with; NULL if updates cannot be placed */
    GPtrArray *tuned;      /* struct strategy, with other parameters; NULL as for `strategies` */
    GArray *trials;        /* struct trial */
    guint described;       /* trials that are part of a result */
    guint begin;           /* first trial of the running round */
    struct trial_context context;   /* of the running round */
    struct trial_settings settings; /* of the best trial; those to begin with if there is none */
    tensor_id traced_first;         /* with which the host begins in the trace */
    const char *stage;              /* as in struct search_result */
    bool certain;     /* the running trials finish even if the search is stopped, unless
                         it is in a hurry */
    GPtrArray *mixes; /* [tensor_count] each, of placements */
    GRand *random;    /* of random changes */
    double bound;     /* seconds; practically no plan is faster */
    bool far;         /* as in struct search_result */
    gint64 deadline;  /* microseconds, monotonic; 0 for no limit; waits for the first plan */
    gint stop, found; /* atomic; found: a trial has a plan */
    const struct plan *reported; /* the last one of options.found, which may be gone */
};

/* Return the trial of this index, until the next one is added, and its layout. */
struct trial *search_trial(const struct search *search, uint32_t index);
const struct layout_choice *search_layout(const struct search *search, const struct trial *trial);

/* Returns the settings with which a trial like this one is added. */
struct trial_settings trial_settings_of(const struct trial *trial);

/* Add a trial. The first update is that of the settings, whatever the placement's.
 * search_add_once adds one of effort 1 unless there is one with its layout, placement, bias and
 * slack; in a thorough search, one that was pruned does not count. */
void search_add(struct search *search, uint32_t layout, struct placement placement,
                const struct trial_settings *settings, enum effort_level effort);
void search_add_once(struct search *search, uint32_t layout, struct placement placement,
                     const struct trial_settings *settings);

/* Returns the placement with these shares [tensor_count] of the tensors on the host, of which the
 * search becomes the owner. */
struct placement search_chosen(struct search *search, double *shares);

/* Runs `task` for the trials added since the last call, unless the search is over, and updates the
 * incumbent. */
void search_run(struct search *search, void (*task)(void *data, uint32_t index));

/* Tasks for search_run: baselines, sweeps of them, and plans. */
void search_run_baselines(void *data, uint32_t index);
void search_run_sweep(void *data, uint32_t index);
void search_run_whole_sweep(void *data, uint32_t index);
void search_run_plans(void *data, uint32_t index);

/* Returns the tensor with which the host begins its updates in the trace. */
tensor_id search_traced_first(const struct trace *trace);

/* Returns the tensor with which the host begins in one of the orders that are searched. */
enum { SEARCH_ORDERS = 6 };
tensor_id search_order(const struct search *search, uint32_t order);

/* Tries other numbers in the biases of the best layouts, each up to `most` more and less, in steps.
 * Biases trade time against traffic, so nothing is tried if only traffic counts. */
void search_try_biases(struct search *search, uint32_t layouts, int step, int most);

/* Returns the d2h_share with which only the busy way of the link counts, SEARCH_ANY_SHARE if the
 * best plan keeps neither much busier than the other. Where one way is busy, which updates should
 * run on the host depends on whether copies of the other way are taken for free: a share that is
 * best beside them is worse than others without them. */
enum { SEARCH_ANY_SHARE = -1 };
int search_busy_way_share(const struct search *search);

/* Tries the best trial with other orders of the host's updates. */
void search_try_orders(struct search *search);

/* Lists the strategies that the baselines and the sweeps try. */
void search_list_strategies(struct search *search);

/* Tries the baselines with any look-ahead, with updates as traced and all on the host, and with
 * other parameters: with the best plan's layout and with the sizes of a sweep. Comes after the
 * search, because most are known to be worse than its plan without a replay. */
void search_sweep_baselines(struct search *search);

/* Tries the largest groups of the best plan on all sides and, in a thorough search, those of the
 * best plans of other layouts. */
void search_try_sides(struct search *search);

/* Changes what the best trials decided, at random: sides of single groups, their layout, the order
 * of the host's updates, biases and slack. Goes on as long as that helps now and then. */
void search_change(struct search *search);

/* Returns what the search has found so far, as search_plan does. */
struct search_result *search_result_of(struct search *search, GError **error);

/* Returns whether the search was stopped, or has a plan that is good enough. */
bool search_is_over(const struct search *search);

#endif
