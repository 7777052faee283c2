/* What the injected library does with a program's NVTX annotations, and with what its devices do:
 * it records those of the window into a trace file. All calls may come from any thread. Nothing
 * here ends or delays the program because of an error: the reason is printed once and recording
 * stops. */
#ifndef PSTAR_COLLECT_COLLECTOR_H
#define PSTAR_COLLECT_COLLECTOR_H

#include "collect/window.h"
#include "traces/records.h"

struct collector;

/* An NVTX domain. */
struct collector_domain {
    uint32_t id;
    bool pstar; /* of the annotation protocol */
};

/* An event's attributes. */
struct annotation {
    const char *text;                       /* not registered; NULL: none */
    const struct record_string *registered; /* NULL: none */
    uint32_t category;
    uint8_t payload_type; /* enum record_payload */
    uint64_t payload;
};

/* Records the window's iterations into the file `output`, unless it has changed since `launch_ns`
 * (window_launch_time): then it is another process's of the same run. `range` is a pattern with *
 * and ?: the program's ranges that match are its iterations; NULL: they are found as
 * docs/formats.md has it. */
struct collector *collector_new(const char *output, struct window window, const char *range,
                                int64_t launch_ns);

/* The program begins to use CUDA: what its devices do in the window is recorded, too. */
void collector_use_device(struct collector *collector);

/* The program ends: completes the trace, or says why there is none. Later calls do nothing. */
void collector_close(struct collector *collector);

/* Around a fork, so that the child finds nothing half done. The child is not traced: there, later
 * calls record nothing. */
void collector_before_fork(struct collector *collector);
void collector_after_fork(struct collector *collector, bool in_child);

/* The same text has the same address, for as long as the program runs. */
const struct record_string *collector_string(struct collector *collector, const char *text);

/* The same for domains; several shared objects may each create one of a name. */
const struct collector_domain *collector_domain(struct collector *collector, const char *name);

/* The domain of annotations that name none. */
const struct collector_domain *collector_default_domain(void);

void collector_name_category(struct collector *collector, const struct collector_domain *domain,
                             uint32_t category, const char *name);
void collector_mark(struct collector *collector, const struct collector_domain *domain,
                    const struct annotation *annotation);

/* A range of the calling thread; the result is the number of ranges around it. */
int collector_push(struct collector *collector, const struct collector_domain *domain,
                   const struct annotation *annotation);
int collector_pop(struct collector *collector, const struct collector_domain *domain);

/* A range that may end in another thread; the result names it. */
uint64_t collector_start(struct collector *collector, const struct collector_domain *domain,
                         const struct annotation *annotation);
void collector_end(struct collector *collector, uint64_t range);

#endif
