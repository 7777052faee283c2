/* The time that the network takes for what ranks exchange in an iteration. */
#ifndef PSTAR_SIM_NETWORK_TIMES_H
#define PSTAR_SIM_NETWORK_TIMES_H

#include "chunks/gathering.h"
#include "sim/costs.h"

struct network_times {
    struct gathering *gathering; /* NULL if the layout has no gathered chunks */
    uint64_t *gather_ns;         /* [chunk_count] for one gather; 0 for chunks of other lists */
    uint64_t *exchange_ns; /* [moment_count] for what the operator exchanges, with the sum of a
                              reduction; 0 for others */
};

/* Free the result with network_times_free. */
struct network_times *network_times_new(const struct trace *trace, const struct layout *layout,
                                        const struct costs *costs);
void network_times_free(struct network_times *times); /* NULL is allowed */

/* Returns for each chunk how long the link takes for the shards of one gather that are on the host,
 * which `on_host` [chunk_count] says of the chunks of parameters. The caller frees it with g_free.
 */
uint64_t *network_link_times(const struct network_times *times, const struct trace *trace,
                             const struct layout *layout, const struct costs *costs,
                             const uint8_t *on_host);

#endif
