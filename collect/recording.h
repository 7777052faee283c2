/* Holds recorded events and samples until they are written to the file, and all strings and
 * domains. Not thread-safe: the collector's lock guards it. */
#ifndef PSTAR_COLLECT_RECORDING_H
#define PSTAR_COLLECT_RECORDING_H

#include "collect/collector.h"

struct recording;

struct recording *recording_new(void);
void recording_free(struct recording *recording);

const struct record_string *recording_string(struct recording *recording, const char *text);
const char *recording_text(const struct recording *recording, uint32_t id);
const struct collector_domain *recording_domain(struct recording *recording, const char *name);

void recording_name_category(struct recording *recording, const struct collector_domain *domain,
                             uint32_t category, const char *name);
void recording_add(struct recording *recording, const struct record *event);

/* Adds a sample of a counter, whose name is a literal or interned. */
void recording_add_sample(struct recording *recording, uint64_t time_ns, const char *counter,
                          uint64_t value);

/* Samples the process: resident bytes, processor time, and the time of day. */
void recording_sample(struct recording *recording);

/* Returns the *count times of samples since the last restart, in order. Valid until the next
 * sample. */
const uint64_t *recording_sampled(const struct recording *recording, uint32_t *count);

/* Adds a measured duration of an operator, for recording_durations. */
void recording_add_duration(struct recording *recording, uint64_t moment, uint64_t duration_ns);

/* Returns [operator_count] the median duration of each operator, 0 if it has none. Free with
 * g_free. */
uint64_t *recording_durations(const struct recording *recording, uint32_t operator_count);

uint32_t recording_event_count(const struct recording *recording);

/* Drops events and samples that are not written yet. */
void recording_drop(struct recording *recording);

/* Drops events, samples and durations. What follows goes to a new file. */
void recording_restart(struct recording *recording);

/* Moves events and samples into the file, and adds device activity, which may be NULL. */
bool recording_flush(struct recording *recording, const struct activity *activity,
                     struct record_file *file, GError **error);

/* Returns nanoseconds of CLOCK_MONOTONIC. */
uint64_t recording_now(void);

#endif
