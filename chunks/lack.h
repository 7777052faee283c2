/* What an error of too little memory knows beside its message: which memory lacks, and what would
 * fit. Several ranks find out with it what fits all of them. */
#ifndef PSTAR_CHUNKS_LACK_H
#define PSTAR_CHUNKS_LACK_H

#include <glib.h>
#include <stdint.h>

enum plan_memory { PLAN_MEMORY_NONE, PLAN_MEMORY_DEVICE, PLAN_MEMORY_HOST, PLAN_MEMORY_NVME };

struct plan_lack {
    enum plan_memory memory;
    uint64_t bytes;        /* that would fit; on the device with what libraries hold there */
    uint64_t device_bytes; /* if the host's memory lacks: the device memory that goes with `bytes`,
                              if that is more than its budget; else 0 */
};

/* Sets PLAN_ERROR_DOES_NOT_FIT. The message is `why` and "; N bytes would fit (SIZE)". */
void plan_lack_set(GError **error, const struct plan_lack *lack, const char *why);

/* Returns what the error lacks, or NULL if it is not such an error. It lives as long as the error.
 * `error` may be NULL. */
const struct plan_lack *plan_lack_of(const GError *error);

/* Returns the message of the error without what would fit, if it says that. Free with g_free. */
char *plan_lack_why(const GError *error);

/* Lets an error of plan_lack_set say that `lack` would fit. It may have a prefix. */
void plan_lack_replace(GError *error, const struct plan_lack *lack);

#endif
