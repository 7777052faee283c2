/* A schedule by rules: each chunk stays, or comes and goes, by where it is used. */
#ifndef PSTAR_STRATEGIES_SCRIPT_H
#define PSTAR_STRATEGIES_SCRIPT_H

#include "chunks/decide.h"

struct strategy_context;

/* A chunk that a host operator writes leaves the device after its last use before that, whatever
 * its rule. */
struct script_rule {
    bool stays;      /* between its uses; else it leaves after each visit: the operators of a layer,
                        in forward, backward or update, that use it without others in between */
    bool offloads;   /* leaves for host operators that read it too; else it is flushed for them */
    bool early;      /* comes back as soon as the host has written it and there is room */
    bool blocks_out; /* the operator after it left waits for the copy */
    bool blocks_in;  /* the operator after its fetch was issued waits for the copy */
};

struct script {
    const struct script_rule *rules; /* [chunk_count] */
    uint32_t look_ahead; /* moments that what is not early is fetched ahead, within an iteration and
                            where there is room */
};

/* Chunks that stay and that no host operator uses are at home on the device, all others on the
 * host. *needed is the least device memory with which it fits. Fails with PLAN_ERROR_DOES_NOT_FIT.
 */
struct decisions *script_decide(const struct strategy_context *context, const struct script *script,
                                struct homes **homes, uint64_t *needed, GError **error);

#endif
