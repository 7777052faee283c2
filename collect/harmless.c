#include "collect/harmless.h"

#include "base/printable.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static const int signals[] = {SIGXFSZ, SIGPIPE};

void harmless_begin(struct harmless *before)
{
    sigset_t ours;
    sigemptyset(&ours);
    for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
        sigaddset(&ours, signals[i]);
    sigpending(&before->pending);
    pthread_sigmask(SIG_BLOCK, &ours, &before->mask);
}

void harmless_end(const struct harmless *before)
{
    const struct timespec at_once = {0};
    for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, signals[i]);
        if (!sigismember(&before->pending, signals[i]))
            sigtimedwait(&one, NULL, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &before->mask, NULL);
}

void harmless_say(const char *format, ...)
{
    struct harmless before;
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    harmless_begin(&before);
    text_print_line(stderr, "pstar-collect: %s", text);
    harmless_end(&before);
}

static _Thread_local struct {
    bool locked;
    int error, cancellation; /* as they were before */
} thread;

void harmless_lock(GMutex *lock)
{
    thread.error = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &thread.cancellation);
    thread.locked = true;
    g_mutex_lock(lock);
}

void harmless_unlock(GMutex *lock)
{
    g_mutex_unlock(lock);
    thread.locked = false;
    pthread_setcancelstate(thread.cancellation, NULL);
    errno = thread.error;
}

bool harmless_is_locked(void)
{
    return thread.locked;
}
