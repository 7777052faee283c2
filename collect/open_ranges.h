/* Ranges that have begun and not ended: those of a thread, one within the other. */
#ifndef PSTAR_COLLECT_OPEN_RANGES_H
#define PSTAR_COLLECT_OPEN_RANGES_H

#include "collect/collector.h"

struct open_range {
    const struct collector_domain *domain;
    int marks;            /* enum source: what it is to the iterations */
    bool correlated;      /* the device session knows that it is open */
    struct record record; /* its end still missing */
};

/* The calling thread's id, as the kernel has it. */
uint32_t open_ranges_thread(void);

/* Begins a range of the calling thread; the result is the number of its ranges around it. */
int open_ranges_push(const struct open_range *range);

/* Ends the calling thread's innermost range of the domain, into *range; *place is where it lay
 * among the open ones, and those behind it have moved there. The result is the number of the
 * thread's ranges that are still open, or -1 if there was none to end. */
int open_ranges_pop(const struct collector_domain *domain, struct open_range *range,
                    uint32_t *place);

/* The calling thread's open ranges, the innermost last. */
uint32_t open_ranges_count(void);
const struct open_range *open_ranges_at(uint32_t place);

#endif
