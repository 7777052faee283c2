#include "sim/progress.h"

#include <glib.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

struct progress {
    const char *what;
    bool terminal;
    bool interrupted;
    gint64 begun; /* microseconds, monotonic */
    sigset_t signals, before;
};

/* The signal is blocked in every thread and taken here, so that no handler runs anywhere. */
struct progress *progress_begin(const char *what)
{
    struct progress *progress = g_new0(struct progress, 1);

    progress->what = what;
    progress->terminal = isatty(STDERR_FILENO);
    progress->begun = g_get_monotonic_time();
    sigemptyset(&progress->signals);
    sigaddset(&progress->signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &progress->signals, &progress->before);
    return progress;
}

static void draw(const struct progress *progress, uint32_t done, uint32_t total)
{
    double seconds = (double)(g_get_monotonic_time() - progress->begun) * 1e-6;

    fprintf(stderr, "\r%u of %u %s", done, total, progress->what);
    if (done)
        fprintf(stderr, ", %.0f s left", seconds / done * (total - done));
    fputs("\033[K", stderr);
}

bool progress_update(void *data, uint32_t done, uint32_t total)
{
    struct progress *progress = data;

    if (sigtimedwait(&progress->signals, NULL, &(struct timespec){0}) == SIGINT)
        progress->interrupted = true;
    if (progress->terminal)
        draw(progress, done, total);
    return !progress->interrupted;
}

void progress_end(struct progress *progress)
{
    if (progress->terminal)
        fputs("\r\033[K", stderr);
    pthread_sigmask(SIG_SETMASK, &progress->before, NULL);
    g_free(progress);
}
