/* Replaces device_session.c in builds without CUPTI's headers. */
#include "collect/device_session.h"

struct device_session *device_session_new(struct recording *recording,
                                          const struct device_hooks *hooks, GError **error)
{
    (void)recording;
    (void)hooks;
    g_set_error_literal(error, G_FILE_ERROR, G_FILE_ERROR_NOSYS,
                        "this collector was built without CUPTI's headers");
    return NULL;
}

void device_session_watch(struct device_session *session, bool on)
{
    (void)session;
    (void)on;
}

void device_session_read(struct device_session *session)
{
    (void)session;
}

bool device_session_open(struct device_session *session, GError **error)
{
    (void)session;
    (void)error;
    return false;
}

char *device_session_gpu(const struct device_session *session)
{
    (void)session;
    return NULL;
}

bool device_session_lacks_ranges(const struct device_session *session)
{
    (void)session;
    return false;
}

void device_session_begin(struct device_session *session)
{
    (void)session;
}

void device_session_pause(struct device_session *session)
{
    (void)session;
}

struct activity *device_session_take(struct device_session *session)
{
    (void)session;
    return NULL;
}

uint64_t device_session_wait(struct device_session *session)
{
    (void)session;
    return 0;
}

struct activity *device_session_close(struct device_session *session, uint64_t waited)
{
    (void)session;
    (void)waited;
    return NULL;
}

void device_session_push(struct device_session *session, uint64_t range)
{
    (void)session;
    (void)range;
}

void device_session_pop(struct device_session *session)
{
    (void)session;
}

void device_session_pinned(struct device_session *session, const uint64_t *times_ns, uint32_t count,
                           uint64_t *bytes)
{
    (void)session;
    (void)times_ns;
    (void)count;
    (void)bytes;
}

void device_session_sample(struct device_session *session,
                           void (*take)(void *, const char *, uint64_t), void *data)
{
    (void)session;
    (void)take;
    (void)data;
}
