#include "cli/progress.h"

#include <glib.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

struct progress {
    const char *what;
    bool terminal, catches, interrupted;
    gint64 begun; /* microseconds, monotonic */
    sigset_t signals, before;
};

bool progress_is_shown(void)
{
    return isatty(STDERR_FILENO);
}

/* The signal is blocked in every thread and taken in is_interrupted, so that no handler runs. */
struct progress *progress_begin(const char *what, bool catch_interrupts)
{
    struct progress *progress = g_new0(struct progress, 1);
    progress->what = what;
    progress->terminal = progress_is_shown();
    progress->catches = catch_interrupts;
    progress->begun = g_get_monotonic_time();
    sigemptyset(&progress->signals);
    sigaddset(&progress->signals, SIGINT);
    if (catch_interrupts)
        pthread_sigmask(SIG_BLOCK, &progress->signals, &progress->before);
    return progress;
}

static bool is_interrupted(struct progress *progress)
{
    if (progress->catches && !progress->interrupted &&
        sigtimedwait(&progress->signals, NULL, &(struct timespec){0}) == SIGINT) {
        progress->interrupted = true;
        pthread_sigmask(SIG_SETMASK, &progress->before, NULL);
    }
    return progress->interrupted;
}

static void draw_time(double seconds)
{
    unsigned long long s = (unsigned long long)llround(fmin(fmax(0, seconds), 1e9));
    if (s >= 3600)
        fprintf(stderr, ", %llu:%02llu:%02llu left", s / 3600, s / 60 % 60, s % 60);
    else
        fprintf(stderr, ", %llu:%02llu left", s / 60, s % 60);
}

bool progress_show(struct progress *progress, uint64_t done, uint64_t total, const char *detail,
                   double seconds_left)
{
    if (progress->terminal) {
        fprintf(stderr, "\r%llu of %llu %s%s%s", (unsigned long long)done,
                (unsigned long long)total, progress->what, detail ? ", " : "",
                detail ? detail : "");
        if (isfinite(seconds_left))
            draw_time(seconds_left);
        fputs("\033[K", stderr);
        fflush(stderr);
    }
    return !is_interrupted(progress);
}

bool progress_update(void *data, uint32_t done, uint32_t total)
{
    struct progress *progress = data;
    double seconds = (double)(g_get_monotonic_time() - progress->begun) * 1e-6;
    return progress_show(progress, done, total, NULL,
                         done ? seconds / done * (total - done) : INFINITY);
}

void progress_end(struct progress *progress)
{
    if (!progress)
        return;
    if (progress->terminal)
        fputs("\r\033[K", stderr);
    if (progress->catches)
        pthread_sigmask(SIG_SETMASK, &progress->before, NULL);
    g_free(progress);
}
