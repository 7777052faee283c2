/* Internal header of the collector: its state, the open ranges of threads, and the sampling thread.
 */
#ifndef PSTAR_COLLECT_COLLECTOR_PARTS_H
#define PSTAR_COLLECT_COLLECTOR_PARTS_H

#include "collect/collector.h"
#include "collect/declarations.h"
#include "collect/device_session.h"
#include "collect/harmless.h"
#include "collect/iterations.h"
#include "collect/recording.h"

#include <stdbool.h>

enum state {
    PLAIN,     /* nothing has marked an iteration; every range is recorded */
    WAITING,   /* waiting for the window's first iteration */
    RECORDING, /* the window is open */
    OVER       /* nothing more is recorded */
};

/* The source that marks iterations. A later one of this list is more precise and replaces an
 * earlier one. */
enum source {
    NOTHING_MARKS,
    REPEATED_LAUNCHES,
    OPTIMIZER_STEPS,
    STEP_RANGES,
    NAMED_RANGES,
    OUR_ANNOTATIONS
};

struct collector {
    GMutex lock; /* guards all fields below (harmless_lock); `state` may be read without it */
    gint state;  /* enum state; atomic */
    char *output;
    struct window window;
    int64_t launch_ns;
    struct recording *recording;
    struct declarations *declarations;
    struct declared declared; /* declarations beside the trace in the file */
    struct device_session
        *device;              /* NULL if the program uses no device, or it cannot be recorded */
    struct sampler *sampler;  /* exists if there is a device */
    char *unrecorded;         /* reason why the device is not recorded; NULL if it is */
    char *undeclared;         /* operators' ranges that are left out; NULL if there are none */
    char *doubted;            /* operators without the device's times; NULL if there are none */
    struct record_file *file; /* NULL until the file is begun */
    uint32_t operator_count;  /* of the trace in the file; 0 if it has no iteration */
    char *range;              /* pattern of ranges that are iterations; NULL if not given */
    enum source source;
    uint32_t step_thread; /* the thread whose ranges are iterations */
    uint64_t begun;       /* iterations begun */
    bool in_iteration, closing;
    bool paused; /* the window is paused, because the program does something else between two
                    iterations */
    uint64_t iteration_ns;  /* begin of the last iteration */
    uint64_t unrecorded_ns; /* from begin to begin of the quickest iteration before the window, but
                               the first; 0 if there is none */
    uint32_t process;
    uint64_t window_ns; /* ranges that began earlier are not recorded */
    uint64_t flushed_ns;
    uint64_t last_range;
    void (*at_exit)(void); /* closes the collector; set if a device is used */
    GHashTable *started;   /* struct open_range by id, for ranges that any thread may end */
    GMutex pattern_lock;   /* guards the fields below; never take the other lock while holding it */
    struct launch_pattern *pattern; /* NULL if launches are not watched */
};

static inline enum state collector_state(struct collector *collector)
{
    return (enum state)g_atomic_int_get(&collector->state);
}

static inline bool collector_is_recording(enum state state)
{
    return state == PLAIN || state == RECORDING;
}

static inline bool collector_has_device(const struct collector *collector)
{
    return collector->device && !collector->unrecorded;
}

enum { FLUSH_NS = 1000000000 };

/* The caller of the following functions holds the lock. */

/* Prints the error, frees it and stops recording for good. */
void collector_give_up(struct collector *collector, GError *error);

/* Stops recording the device: prints the error, frees it, and keeps the reason for the file. */
void collector_leave_out_device(struct collector *collector, GError *error);

/* Notes that the range of operator `moment`, which the program has not declared, is left out. Only
 * the first such range prints a message. */
void collector_leave_out_operator(struct collector *collector, uint64_t moment);

/* Writes into the file what the program could not tell and what could not be recorded. */
bool collector_note_unknown(const struct collector *collector, GError **error);

/* Begins recording the device, if there is one. The file must exist. */
void collector_open_device(struct collector *collector);

/* Writes the remaining records and stops for good. See device_session_close for `waited`. */
void collector_complete(struct collector *collector, uint64_t waited, bool partial);

/* Makes `source` the source of iterations if it knows more than the current one, and forgets what
 * the lower one counted. Returns whether `source` is the current one. */
bool collector_takes_over(struct collector *collector, enum source source);

/* Handles the first annotation of the protocol: from then on only the window is recorded. */
void collector_expect_iterations(struct collector *collector);

/* Handle the begin or end of an iteration found by `source`. Sources below the highest one seen are
 * ignored. */
void collector_begin_iteration(struct collector *collector, enum source source);
void collector_end_iteration(struct collector *collector, enum source source);

/* Rejects the current iteration. The window waits for the next one. */
void collector_pause(struct collector *collector);

/* Opens a window that covers the whole run. */
void collector_open_at_once(struct collector *collector);

/* Moves the recorded annotations into the file. Creates the file if necessary. */
void collector_flush_annotations(struct collector *collector);

/* Moves everything recorded into the file if that was last done a second ago. This limits what is
 * lost if a program without iterations is killed. */
void collector_flush_in_time(struct collector *collector);

/* A range that has begun and not ended. A thread's ranges nest. */

struct open_range {
    const struct collector_domain *domain;
    int marks;            /* enum source, its meaning for iterations */
    bool correlated;      /* the device session knows that it is open */
    struct record record; /* without its end */
};

/* Returns the calling thread's id in the kernel. */
uint32_t open_ranges_thread(void);

/* Begins a range of the calling thread. Returns the number of ranges around it. */
int open_ranges_push(const struct open_range *range);

/* Ends the calling thread's innermost range of the domain and stores it in *range. *place is its
 * former index among the open ranges; later ones have moved down by one. Returns the number of
 * ranges that the thread still has open, or -1 if there was none to end. */
int open_ranges_pop(const struct collector_domain *domain, struct open_range *range,
                    uint32_t *place);

/* Return the calling thread's open ranges, the innermost last. */
uint32_t open_ranges_count(void);
const struct open_range *open_ranges_at(uint32_t place);

/* A thread that works periodically while a window is open, and on demand. It blocks all signals. */

struct sampler;

/* Starts the thread, which calls `work` 20 times a second while sampling is on, and after
 * sampler_wake. Returns NULL if no thread can be started. */
struct sampler *sampler_new(void (*work)(void *data), void *data);

void sampler_turn(struct sampler *sampler, bool on);
void sampler_wake(struct sampler *sampler);

/* Waits for a running call of `work` and ends the thread. `sampler` may be NULL. */
void sampler_stop(struct sampler *sampler);

#endif
