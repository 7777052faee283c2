/* Shared by the files of the collector alone. */
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
    PLAIN,     /* nothing has marked an iteration: every range is recorded */
    WAITING,   /* for the window's first iteration */
    RECORDING, /* the window is open */
    OVER       /* nothing more is recorded */
};

/* What marks iterations; what tells more of them comes later here, and takes over. */
enum source {
    NOTHING_MARKS,
    REPEATED_LAUNCHES,
    OPTIMIZER_STEPS,
    STEP_RANGES,
    NAMED_RANGES,
    OUR_ANNOTATIONS
};

struct collector {
    GMutex lock; /* harmless_lock: of all that follows, but `state` may be read without it */
    gint state;  /* enum state; atomic */
    char *output;
    struct window window;
    int64_t launch_ns;
    struct recording *recording;
    struct declarations *declarations;
    struct declared declared;      /* beside the trace in the file */
    struct device_session *device; /* NULL: the program uses none, or it cannot be recorded */
    struct sampler *sampler;       /* runs where there is a device */
    char *unrecorded;              /* why the device is not recorded; NULL: it is */
    struct record_file *file;      /* NULL: not begun */
    uint32_t operator_count;       /* of the trace in the file; 0: it has no iteration */
    char *range; /* of the program's ranges those that match are iterations; NULL: not asked for */
    enum source source;
    uint32_t step_thread; /* whose ranges are the iterations */
    uint64_t begun;       /* iterations */
    bool in_iteration, closing;
    bool paused;           /* the window: between its iterations the program does something else */
    uint64_t iteration_ns; /* when the last one began */
    uint32_t process;
    uint64_t window_ns; /* what began before is not recorded */
    uint64_t flushed_ns;
    uint64_t last_range;
    GHashTable *started; /* of struct open_range by id: ranges that any thread may end */
    GMutex pattern_lock; /* of what follows; the other lock is never taken while it is held */
    struct launch_pattern *pattern; /* NULL: launches are not watched */
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

/* All of these with the lock. */

/* Says why, and stops for good. Takes the error. */
void collector_give_up(struct collector *collector, GError *error);

/* The device goes on unrecorded: says why, and keeps it for the file. Takes the error. */
void collector_leave_out_device(struct collector *collector, GError *error);

/* Into the file: what the program could not tell, and what of it we could not record. */
bool collector_note_unknown(const struct collector *collector, GError **error);

/* The file has been begun: records the device, where there is one. */
void collector_open_device(struct collector *collector);

/* Writes the rest of what was recorded, and stops for good. `waited` as of device_session_close. */
void collector_complete(struct collector *collector, uint64_t waited, bool partial);

/* Whether `source` is to be heard. What was counted by a lower one is forgotten. */
bool collector_takes_over(struct collector *collector, enum source source);

/* The first annotation of ours: from here on only the window counts. */
void collector_expect_iterations(struct collector *collector);

/* An iteration begins, ends, or both, as `source` has it: of lower ones than the highest that was
 * seen nothing is heard. */
void collector_begin_iteration(struct collector *collector, enum source source);
void collector_end_iteration(struct collector *collector, enum source source);

/* The iteration that has begun is none: the window waits for the next. */
void collector_pause(struct collector *collector);

/* Opens a window that is to hold the whole run. */
void collector_open_at_once(struct collector *collector);

/* Moves the annotations that were recorded into the file, which it begins where there is none. */
void collector_flush_annotations(struct collector *collector);

/* Ranges that have begun and not ended: those of a thread, one within the other. */

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

/* A thread that does a little work again and again while a window is open, and on demand. It takes
 * none of the program's signals. */

struct sampler;

/* `work` is called 20 times a second while sampling is on, and after sampler_wake. NULL: no thread
 * can be started. */
struct sampler *sampler_new(void (*work)(void *data), void *data);

void sampler_turn(struct sampler *sampler, bool on);
void sampler_wake(struct sampler *sampler);

/* Waits until a call of `work` that is under way has ended; there is none later. NULL is allowed.
 */
void sampler_stop(struct sampler *sampler);

#endif
