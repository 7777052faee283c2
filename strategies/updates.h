/* Which part of the optimizer runs on the host, by chunk groups: the subgroups of other systems. */
#ifndef PSTAR_STRATEGIES_UPDATES_H
#define PSTAR_STRATEGIES_UPDATES_H

#include "strategies/strategy.h"

void updates_all(const struct strategy_context *context, uint8_t *on_host);

/* The first groups, until they hold `share` of the elements, rounded up to whole groups. */
void updates_first(const struct strategy_context *context, double share, uint8_t *on_host);

/* The first `share` of the groups, whatever they hold, rounded down. */
void updates_first_groups(const struct strategy_context *context, double share, uint8_t *on_host);

/* All but every `period`-th group. */
void updates_but_every(const struct strategy_context *context, uint32_t period, uint8_t *on_host);

/* All but the first groups, as many as have room for their optimizer states (master, exp_avg,
 * exp_avg_sq) in `most` bytes, or, if these are more, as many as it takes for `least` bytes. */
void updates_but_first_bytes(const struct strategy_context *context, uint64_t least, uint64_t most,
                             uint8_t *on_host);

/* The rule of gradients and parameters beside an optimizer on the host: parameters stay on the
 * device and come back as soon as they are updated, gradients leave as soon as they are complete.
 */
struct script_rule updates_offload_rule(const struct strategy_context *context, uint32_t chunk);
/* The same, and training waits for both copies. */
struct script_rule updates_blocking_rule(const struct strategy_context *context, uint32_t chunk);

#endif
