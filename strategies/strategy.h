/* Other systems' ways of training a model larger than the device. Each is a preset that yields a
 * plan.
 *
 * A strategy decides where the optimizer of each tensor runs, which chunks stay on the device,
 * when the others come and go, and which copies block. Each is one const struct in one small file;
 * what they share is in strategy.c, schedules.c and updates.c. docs/strategies.md says where each
 * comes from and what its plan cannot express. */
#ifndef PSTAR_STRATEGIES_STRATEGY_H
#define PSTAR_STRATEGIES_STRATEGY_H

#include "chunks/decide.h"
#include "chunks/non_model.h"
#include "chunks/nvme_homes.h"
#include "platforms/platform.h"

struct strategy_context; /* strategies/preset.h */
struct script_rule;

/* What ranks share under a strategy: what the trace says, or what a stage of ZeRO says
 * (model_derive_ranks with fast sums). */
enum strategy_stage {
    STRATEGY_AS_TRACED,
    STRATEGY_STAGE_0,
    STRATEGY_STAGE_1,
    STRATEGY_STAGE_2,
    STRATEGY_STAGE_3,
    STRATEGY_STAGES
};

struct strategy_ops {
    const char *name;          /* "twinflow" */
    const char *parameter;     /* what may follow after a colon, as "R"; NULL if nothing may */
    double least, most, usual; /* the parameter's range, and its value if it is left out */
    bool whole;                /* it must be an integer */
    const char *summary;       /* one line */

    /* Sets on_host [tensor_count], which is all 0, to 1 for the tensors whose optimizer runs on the
     * host. NULL if there are none. */
    void (*place)(const struct strategy_context *context, uint8_t *on_host);

    /* Returns the bytes of device memory that the system holds beside chunks and non-model data.
     * NULL means 0. */
    uint64_t (*beside)(const struct strategy_context *context);

    /* Where it is not STRATEGY_AS_TRACED, the strategy is for the trace of several ranks in this
     * stage. The caller derives it; on one rank all stages are alike. */
    enum strategy_stage stage;

    /* Several ranks that share parameters: gathered parameters stay until they are updated. If
     * false, they are released after each visit, as those that leave. */
    bool keeps_gathered;

    /* Updates on the host begin within backward, as soon as all gradients of a group are complete,
     * if the run does not clip gradients. */
    bool begins_early;

    /* All optimizer states live in NVMe, and the parameter is how many buffers of the host they
     * pass through (struct nvme_budget). */
    bool in_nvme;

    /* Returns how many moments ahead chunks are fetched. NULL means 0. */
    uint32_t (*look_ahead)(const struct strategy_context *context);

    /* Returns the first moment, at most `use`, at which a chunk is fetched for its use by the
     * operator of moment `use`, if there is room. NULL: `look_ahead` moments before. */
    moment_id (*fetch_from)(const struct strategy_context *context, moment_id use);

    /* Returns the first moment, after `write`, at which a chunk comes back that the host's operator
     * of moment `write` has written. NULL: the next one. */
    moment_id (*return_from)(const struct strategy_context *context, moment_id write);

    /* Returns the rule that a chunk follows. NULL if `decide` is set. */
    struct script_rule (*rule)(const struct strategy_context *context, chunk_id chunk);

    /* Returns the strategy's own decisions, and sets the homes that they are for. *needed becomes
     * the least device memory with which it fits; 0 if host memory is too small. NULL if `rule` is
     * set. */
    struct decisions *(*decide)(const struct strategy_context *context, struct homes **homes,
                                uint64_t *needed, GError **error);
};

extern const struct strategy_ops strategy_resident, strategy_patrickstar, strategy_gemini_static,
    strategy_gemini_auto, strategy_zero_offload, strategy_zero3_offload, strategy_twinflow,
    strategy_superoffload, strategy_interleave, strategy_fsdp_offload, strategy_megatrain,
    strategy_zero_infinity, strategy_ddp, strategy_zero1, strategy_zero2, strategy_zero3,
    strategy_fsdp_no_reshard;

/* All strategies, in the order in which tables list them. Ends with NULL. */
extern const struct strategy_ops *const strategy_all[];

/* Strategies with a stage of their own, in the same order. On one rank they are strategy_resident,
 * and do not count among all. Ends with NULL. */
extern const struct strategy_ops *const strategy_several[];

/* Strategies that keep all optimizer states in NVMe. Without it they do not fit, and do not count
 * among all. Ends with NULL. */
extern const struct strategy_ops *const strategy_tiered[];

/* A strategy and its parameter. */
struct strategy {
    const struct strategy_ops *ops;
    double value;
    char *name; /* as written: "twinflow:0.5" */
};

enum strategy_error { STRATEGY_ERROR_INVALID };
#define STRATEGY_ERROR strategy_error_quark()
GQuark strategy_error_quark(void);

/* Parses a list such as "resident,twinflow:0.3", or "all", which is every strategy with its usual
 * parameter. Returns a GPtrArray of struct strategy, which the caller unrefs. Fails on unknown
 * names and on parameters out of range. */
GPtrArray *strategy_parse_list(const char *text, GError **error);

/* Add those of strategy_several, or of strategy_tiered, that the list does not have. */
void strategy_add_several(GPtrArray *list);
void strategy_add_tiered(GPtrArray *list);

/* What a search asks for, which only wants plans that are better than others. */
struct strategy_contest {
    const char *digest; /* which plans get in the place of that of the placed trace */

    /* Returns whether decisions for the placed trace, with these accesses, are worth addresses and
     * a plan. */
    bool (*is_worth)(void *data, const struct trace *placed, const struct accesses *accesses,
                     const struct decisions *decisions);
    void *data;
};

struct strategy_job {
    const struct trace *trace;
    const struct platform *platform; /* what a moved update takes (models/derive.h); NULL */
    const struct layout *layout; /* for the trace; a chunk group is a subgroup of the optimizer */
    const uint64_t *non_model;   /* [operator_count] extents of the trace's non-model data */
    uint64_t device_budget,
        host_budget;                /* budgets: of the arena; of the host, UINT64_MAX: unlimited */
    const struct nvme_budget *nvme; /* states for which its host budget has no room live in NVMe,
                                       and host_budget does not count; may be NULL */
    bool unclipped; /* the run does not clip gradients, so that an update need not wait for the norm
                       of all of them */
    const struct strategy_contest *contest; /* may be NULL */
};

/* Returns the strategy's plan, whose predicted stall and time are 0. It is for the trace *placed,
 * which has its updates where the strategy wants them; the caller frees both. Fails with
 * PLAN_ERROR_DOES_NOT_FIT, also where nvme_homes_give does, and with TRACE_ERROR_INVALID if the
 * trace's updates cannot be placed or it has no list of parameters. *needed is then the least
 * device memory that fits; 0 if that is unknown, as in a contest. Returns NULL without an error if
 * the contest does not need the plan. */
struct plan *strategy_plan(const struct strategy *strategy, const struct strategy_job *job,
                           struct trace **placed, uint64_t *needed, GError **error);

/* Returns the extents of the placed trace's non-model data, which the caller frees; NULL if they
 * are the job's because forward and backward have no updates within. */
struct non_model *strategy_non_model(const struct strategy_job *job, const struct trace *placed);

#endif
