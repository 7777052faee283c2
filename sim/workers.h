/* Independent tasks on all cores. */
#ifndef PSTAR_SIM_WORKERS_H
#define PSTAR_SIM_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

struct workers_job {
    void (*task)(void *data, uint32_t index); /* called once for each index in [0, count) */
    void *data;
    uint32_t count;
    uint32_t threads; /* 0 for all processors */

    /* Called about ten times a second from the calling thread. Returns false to begin no more
     * tasks. May be NULL. */
    bool (*progress)(void *data, uint32_t done, uint32_t total);
    void *progress_data;
};

/* Begins the tasks in order, and returns when every task that was begun is done: at once if there
 * is none. */
void workers_run(const struct workers_job *job);

#endif
