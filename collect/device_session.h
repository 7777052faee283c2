/* The recording of what the devices do, in this process: CUPTI's subscription, what it is asked to
 * record, and when. Without CUPTI's headers (PSTAR_CUPTI in cmake/cupti.cmake) there is none.
 *
 * The caller's lock guards all functions but wait, push and pop, which act on the calling thread,
 * and sample. No function ends or changes the program: on error the reason is given, and the
 * devices go on unrecorded. */
#ifndef PSTAR_COLLECT_DEVICE_SESSION_H
#define PSTAR_COLLECT_DEVICE_SESSION_H

#include "collect/recording.h"
#include "traces/activity/activity.h"

struct device_session;

struct device_hooks {
    /* Many records wait for device_session_read. From any thread, with locks of CUPTI's held: it
     * must not wait for a thread that calls functions of the session. */
    void (*records_wait)(void *data);
    /* A kernel was launched, or (NULL) the host has waited; in the thread that did, without the
     * caller's lock. Only while launches are watched. */
    void (*launched)(void *data, const char *kernel);
    void *data;
};

/* In a program that begins to use CUDA. From here on allocations are recorded and nothing else, so
 * that what is allocated is known when a window opens. NULL on error. Names become strings of the
 * recording. */
struct device_session *device_session_new(struct recording *recording,
                                          const struct device_hooks *hooks, GError **error);

/* Begins or ends to tell of launches. Where CUPTI refuses none is told of. */
void device_session_watch(struct device_session *session, bool on);

/* Reads what CUPTI has handed back. */
void device_session_read(struct device_session *session);

/* A window opens, or goes on: all is recorded. On error nothing is from here on. */
bool device_session_open(struct device_session *session, GError **error);

/* Something begins with the next call that is watched; it turns out to be none of the window's, and
 * until that is opened again allocations alone are recorded. */
void device_session_begin(struct device_session *session);
void device_session_pause(struct device_session *session);

/* What is known to be complete since the window opened or since the last time, to be freed with
 * activity_free. */
struct activity *device_session_take(struct device_session *session);

/* Waits until the devices have done what was asked of them; the result is for
 * device_session_close. Without the caller's lock: what they do may call functions of the program
 * that take it. */
uint64_t device_session_wait(struct device_session *session);

/* The window closes. The rest of the records is the result: up to those of the wait, or, `waited`
 * 0, where the program may be ending, without what runs still, which is counted as unfinished.
 * Later calls of the other functions do nothing. */
struct activity *device_session_close(struct device_session *session, uint64_t waited);

/* What the calling thread asks of a device from now on lies in the range, until the last pop. */
void device_session_push(struct device_session *session, uint64_t range);
void device_session_pop(struct device_session *session);

/* Bytes of the host's memory that were pinned at each of `count` times of the trace's clock, which
 * ascend. After close. */
void device_session_pinned(struct device_session *session, const uint64_t *times_ns, uint32_t count,
                           uint64_t *bytes);

/* Samples what the management library says of the devices (collect/nvml.h). */
void device_session_sample(struct device_session *session,
                           void (*take)(void *data, const char *counter, uint64_t value),
                           void *data);

#endif
