/* The recorded events and samples that are not yet in the file, and all strings and domains. Not
 * safe for several threads: the collector's lock guards it. */
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

/* A counter's value at a time; its name is a literal or interned. */
void recording_add_sample(struct recording *recording, uint64_t time_ns, const char *counter,
                          uint64_t value);

/* Samples the process: resident bytes, its processor time, and the time of day. */
void recording_sample(struct recording *recording);

/* [*count] when it was sampled, since the last restart, in order. Valid until the next sample. */
const uint64_t *recording_sampled(const struct recording *recording, uint32_t *count);

/* Operator durations of the window, for recording_durations. */
void recording_add_duration(struct recording *recording, uint64_t moment, uint64_t duration_ns);

/* [operator_count] the median over what was added for each operator, 0 where nothing was. Free with
 * g_free. */
uint64_t *recording_durations(const struct recording *recording, uint32_t operator_count);

uint32_t recording_event_count(const struct recording *recording);

/* Drops events and samples that are not in the file yet. */
void recording_drop(struct recording *recording);

/* Drops events, samples and durations; what follows goes to a new file. */
void recording_restart(struct recording *recording);

/* Moves what is not yet in the file into it, and adds what the devices did (NULL: nothing). */
bool recording_flush(struct recording *recording, const struct activity *activity,
                     struct record_file *file, GError **error);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t recording_now(void);

#endif
