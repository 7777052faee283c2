/* Records device activity in this process: subscribes to CUPTI, and decides what CUPTI records and
 * when. Without CUPTI's headers (PSTAR_CUPTI in cmake/cupti.cmake) it only reports an error.
 *
 * The caller's lock guards all functions except wait, push and pop, which act on the calling
 * thread, and sample. No function ends or changes the program: on error it gives the reason, and
 * devices are no longer recorded. */
#ifndef PSTAR_COLLECT_DEVICE_SESSION_H
#define PSTAR_COLLECT_DEVICE_SESSION_H

#include "collect/recording.h"
#include "traces/activity/activity.h"

struct device_session;

struct device_hooks {
    /* Many records wait for device_session_read. May be called from any thread, while CUPTI holds
     * locks: it must not wait for a thread that calls functions of the session. */
    void (*records_wait)(void *data);
    /* A kernel was launched or, if `kernel` is NULL, the host has waited. Called in the launching
     * thread, without the caller's lock, only while launches are watched. */
    void (*launched)(void *data, const char *kernel);
    /* The program has made a context, by when the driver and CUPTI have registered what they do at
     * the exit. Called in the thread that made it. */
    void (*context_made)(void *data);
    void *data;
};

/* Starts a session when the program begins to use CUDA. Until a window opens only allocations are
 * recorded, so that live allocations are known then. Names become strings of the recording. Returns
 * NULL on error. */
struct device_session *device_session_new(struct recording *recording,
                                          const struct device_hooks *hooks, GError **error);

/* Turns reports of launches on or off. If CUPTI refuses, there are none. */
void device_session_watch(struct device_session *session, bool on);

/* Reads the buffers that CUPTI has handed back. */
void device_session_read(struct device_session *session);

/* Opens a window or continues a paused one: all activity is recorded. On error nothing is recorded
 * any more. */
bool device_session_open(struct device_session *session, GError **error);

/* device_session_begin notes that an iteration begins with the next watched call.
 * device_session_pause rejects that iteration: until the window is opened again only allocations
 * are recorded. */
void device_session_begin(struct device_session *session);
void device_session_pause(struct device_session *session);

/* Returns what is complete since the window opened or since the last call. Free with activity_free.
 */
struct activity *device_session_take(struct device_session *session);

/* Returns the name of the first device; NULL if the program has not used one. Free with g_free. */
char *device_session_gpu(const struct device_session *session);

/* Returns whether work was recorded while ranges were open, and CUPTI assigned none of it. */
bool device_session_lacks_ranges(const struct device_session *session);

/* Waits until the devices have done all their work. Returns a value for device_session_close. Call
 * it without the lock, because device work may call functions of the program that take it. */
uint64_t device_session_wait(struct device_session *session);

/* Closes the window. Returns the remaining records, up to the end of the wait. If `waited` is 0,
 * the program may be ending: work that still runs is counted as unfinished. Later calls of the
 * other functions do nothing. */
struct activity *device_session_close(struct device_session *session, uint64_t waited);

/* Assign the calling thread's device work to `range` until it is popped. */
void device_session_push(struct device_session *session, uint64_t range);
void device_session_pop(struct device_session *session);

/* Sets bytes[count] to the pinned host memory at the ascending times_ns[count] of the trace's
 * clock. Call it after device_session_close. */
void device_session_pinned(struct device_session *session, const uint64_t *times_ns, uint32_t count,
                           uint64_t *bytes);

/* Samples the management library's counters of the devices (collect/driver.h). */
void device_session_sample(struct device_session *session,
                           void (*take)(void *data, const char *counter, uint64_t value),
                           void *data);

#endif
