/* A small model trained for a few steps by a drawn placement: what law 3 compares. */
#ifndef PSTAR_TESTS_ENGINE_RUN_TRIAL_H
#define PSTAR_TESTS_ENGINE_RUN_TRIAL_H

#include "chunks/dry_run.h"
#include "engine/engine.h"
#include "models/family.h"
#include "strategies/strategy.h"

enum { TRIAL_STEPS = 5 };

/* What the arithmetic depends on. */
struct trial_job {
    enum model_precision precision;
    uint32_t micro_batches;
    bool tied;
    double dropout;
    double clip;                       /* greatest norm of the gradient; 0: none */
    const struct model_family *family; /* whose parts the model has; NULL: GPT-2 */
    bool delay;                        /* gradients are a version of the weights older */
    const char *train;                 /* as --train; NULL: all */
};

/* What it must not depend on. */
struct trial_placement {
    const struct device_ops *device; /* NULL: the CPU's */
    uint64_t chunk_bytes;
    const struct pstar_policy_ops *policy;
    const char
        *strategy;    /* instead of the policy, the host's updates and the host's budget; NULL */
    double room;      /* of the device budget: 0 the least that fits, 1 everything */
    double host_room; /* likewise of the host budget; 1: unlimited */
    uint32_t look_ahead;
    uint32_t recompute;      /* bit l: layer l */
    uint32_t offload;        /* likewise */
    bool host_embedding;     /* where the layout allows it */
    bool split_masters;      /* likewise */
    bool gelu_apart;         /* GELU's derivative is not joined to the product behind it */
    uint64_t state_block;    /* elements; cuts the table of words */
    uint32_t host_update;    /* bit t % 32: tensor t */
    uint32_t first_update;   /* tensor with which the host begins, modulo their number */
    bool nvme;               /* states that can live there do: as many as `host_room` asks for */
    uint64_t cut_from_bytes; /* of the plan */
    double link_rate;        /* 0: memory speed */
    bool through_file;       /* the plan is written and read back */
    uint32_t evaluate_at;    /* a forward pass before this step */
    uint32_t save_at;        /* saved after so many steps and resumed with `resumed`; 0: not */
    const struct trial_placement *resumed;
};

struct trial_result {
    double loss[TRIAL_STEPS], gradient_norm[TRIAL_STEPS];
    double evaluated; /* sum of the forward pass at evaluate_at */
    char *weights;    /* digest of weights and moments at the end; free with g_free */
    uint64_t device_budget, model_bytes;
};

/* Everything resident. */
struct trial_placement trial_resident(void);
struct trial_placement trial_draw(GRand *random);

/* Trains. Fails the test where the figures of a step are not those that the plan predicts. */
struct trial_result trial_run(const struct trial_job *job, const struct trial_placement *placement);

/* "bf16, 2 micro-batches, ...": for messages; free with g_free. */
char *trial_describe(const struct trial_job *job, const struct trial_placement *placement);

#endif
