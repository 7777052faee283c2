/* Handles a program's NVTX annotations and its device activity in the injected library, and records
 * them into a trace file during the window. All functions may be called from any thread. An error
 * never ends or delays the program: the reason is printed once and recording stops. */
#ifndef PSTAR_COLLECT_COLLECTOR_H
#define PSTAR_COLLECT_COLLECTOR_H

#include "collect/window.h"
#include "traces/records.h"

struct collector;

/* An NVTX domain. */
struct collector_domain {
    uint32_t id;
    bool pstar; /* domain of the annotation protocol */
};

/* Attributes of an event. */
struct annotation {
    const char *text;                       /* unregistered text, may be NULL */
    const struct record_string *registered; /* may be NULL */
    uint32_t category;
    uint8_t payload_type; /* enum record_payload */
    uint64_t payload;
};

/* Creates a collector that records the window's iterations into the file `output`, unless the file
 * has changed since `launch_ns` (window_launch_time) because another process of the run writes it.
 * `range` is a pattern with * and ?; ranges that match it are the iterations. If it is NULL,
 * iterations are found as docs/collector.md says. */
struct collector *collector_new(const char *output, struct window window, const char *range,
                                int64_t launch_ns);

/* Called when the program begins to use CUDA. Device activity in the window is recorded from then
 * on. `at_exit`, which closes the collector, is registered behind what CUPTI and the driver do at
 * the exit. */
void collector_use_device(struct collector *collector, void (*at_exit)(void));

/* Called when the program ends. Completes the trace, or says why there is none. Later calls do
 * nothing. */
void collector_close(struct collector *collector);

/* Call these around a fork, so that the child finds a consistent state. The child is not traced:
 * its calls record nothing. */
void collector_before_fork(struct collector *collector);
void collector_after_fork(struct collector *collector, bool in_child);

/* Returns a string; equal texts have the same address for as long as the program runs. */
const struct record_string *collector_string(struct collector *collector, const char *text);

/* Returns a domain; equal names have the same domain, even if several shared objects create it. */
const struct collector_domain *collector_domain(struct collector *collector, const char *name);

/* Returns the domain of annotations that name none. */
const struct collector_domain *collector_default_domain(void);

void collector_name_category(struct collector *collector, const struct collector_domain *domain,
                             uint32_t category, const char *name);
void collector_mark(struct collector *collector, const struct collector_domain *domain,
                    const struct annotation *annotation);

/* Begins a range of the calling thread. Returns the number of ranges around it. */
int collector_push(struct collector *collector, const struct collector_domain *domain,
                   const struct annotation *annotation);
int collector_pop(struct collector *collector, const struct collector_domain *domain);

/* Begins a range that may end in another thread. Returns its id. */
uint64_t collector_start(struct collector *collector, const struct collector_domain *domain,
                         const struct annotation *annotation);
void collector_end(struct collector *collector, uint64_t range);

#endif
