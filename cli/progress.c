#include "cli/progress.h"

#include "base/output_file.h"
#include "base/terminal.h"
#include "cli/program.h"

#include <glib.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* After a signal that ends the work, until it is said that this takes a while. */
#define END_MICROSECONDS G_USEC_PER_SEC

/* Between two lines that stay. */
#define LINE_MICROSECONDS         (5 * G_USEC_PER_SEC)
#define VERBOSE_LINE_MICROSECONDS G_USEC_PER_SEC

struct progress {
    const struct console *console;
    const char *what;
    bool redrawn;        /* the line is drawn again in its place, as terminals can */
    gint64 begun, shown; /* microseconds, monotonic; shown: the last line */
    gint64 ending;       /* the same: when the signal was first seen here; 0: not yet */
    bool told;           /* that the end takes a while */
    const char *output;  /* of progress_begin_output; otherwise NULL */
    sigset_t signals, before;
    GThread *listener;      /* NULL if signals are not caught */
    int incoming, finished; /* descriptors: of the signals, and to end the listener */
    gint signal;            /* atomic: the first signal that ends the work, or 0 */
    gint asked;             /* atomic: SIGUSR1 has come, and has no answer yet */
};

/* ---- signals ---- */

/* Ends the program as if the signal had never been caught. */
static void end_by(int number)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    signal(number, SIG_DFL);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

/* The thread that writes goes on until the program has ended, so it may complete the file. */
static void end_output(const struct progress *progress, int number)
{
    console_warn(progress->console, "interrupted");
    output_file_remove_unfinished(progress->output);
    _exit(STATUS_SIGNALLED + number);
}

static void take(struct progress *progress, int number)
{
    if (number == SIGUSR1)
        g_atomic_int_set(&progress->asked, 1);
    else if (progress->output)
        end_output(progress, number);
    else if (!g_atomic_int_compare_and_exchange(&progress->signal, 0, number))
        end_by(number);
}

/* The signals are blocked in every thread and read here, so that no handler runs, and a second one
 * is heard whatever the others do. */
static gpointer listen_to_signals(gpointer data)
{
    struct progress *progress = data;
    struct pollfd sources[] = {{.fd = progress->incoming, .events = POLLIN},
                               {.fd = progress->finished, .events = POLLIN}};
    struct signalfd_siginfo received;
    while (poll(sources, G_N_ELEMENTS(sources), -1) < 0 || !sources[1].revents)
        if (sources[0].revents &&
            read(progress->incoming, &received, sizeof received) == sizeof received)
            take(progress, (int)received.ssi_signo);
    return NULL;
}

/* Whoever started the program may want it to ignore a signal: nohup hang-ups, and a shell without
 * job control interrupts, which are meant for what runs in the foreground. */
static void catch_unless_ignored(struct progress *progress, int number)
{
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0 || action.sa_handler != SIG_IGN)
        sigaddset(&progress->signals, number);
}

static void stop_catching(struct progress *progress)
{
    if (progress->incoming >= 0)
        close(progress->incoming);
    if (progress->finished >= 0)
        close(progress->finished);
    pthread_sigmask(SIG_SETMASK, &progress->before, NULL);
}

/* Whoever reads what is printed meanwhile may go away, such as `head`. That must not cost the work:
 * what cannot be printed is lost, and what cannot be logged is an error. It stays so until the end,
 * where the program says how it ended (program.c). */
static void outlive_readers(void)
{
    signal(SIGPIPE, SIG_IGN);
}

static void catch_all(struct progress *progress)
{
    if (!progress->output)
        outlive_readers();
    sigemptyset(&progress->signals);
    catch_unless_ignored(progress, SIGINT);
    catch_unless_ignored(progress, SIGTERM);
    catch_unless_ignored(progress, SIGHUP);
    if (!progress->output)
        catch_unless_ignored(progress, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &progress->signals, &progress->before);
    progress->incoming = signalfd(-1, &progress->signals, SFD_CLOEXEC);
    progress->finished = eventfd(0, EFD_CLOEXEC);
    if (progress->incoming >= 0 && progress->finished >= 0)
        progress->listener = g_thread_try_new("signals", listen_to_signals, progress, NULL);
    if (!progress->listener) /* signals end the program, as they always do */
        stop_catching(progress);
}

static void stop_listening(struct progress *progress)
{
    if (!progress->listener)
        return;
    eventfd_write(progress->finished, 1);
    g_thread_join(progress->listener);
    stop_catching(progress);
}

int progress_signal(const struct progress *progress)
{
    return g_atomic_int_get(&progress->signal);
}

/* ---- the line ---- */

static struct progress *new_progress(const struct console *console, const char *what)
{
    struct progress *progress = g_new0(struct progress, 1);
    progress->console = console;
    progress->what = what;
    progress->redrawn = !console->quiet && !console->verbose && terminal_is_smart(stderr);
    progress->begun = progress->shown = g_get_monotonic_time();
    return progress;
}

struct progress *progress_begin(const struct console *console, const char *what, bool catch_signals)
{
    struct progress *progress = new_progress(console, what);
    if (catch_signals)
        catch_all(progress);
    return progress;
}

struct progress *progress_begin_output(const struct console *console, const char *output)
{
    struct progress *progress = new_progress(console, "files");
    progress->output = output;
    catch_all(progress);
    return progress;
}

/* Returns ", 1:02 left", or "" of an infinite time. */
static char *format_time(double seconds, const char *what)
{
    unsigned long long s = (unsigned long long)llround(fmin(fmax(0, seconds), 1e9));
    if (!isfinite(seconds))
        return g_strdup("");
    return s >= 3600
               ? g_strdup_printf(", %llu:%02llu:%02llu %s", s / 3600, s / 60 % 60, s % 60, what)
               : g_strdup_printf(", %llu:%02llu %s", s / 60, s % 60, what);
}

static bool is_line_due(struct progress *progress)
{
    const struct console *console = progress->console;
    gint64 now = g_get_monotonic_time();
    gint64 pause = console->verbose ? VERBOSE_LINE_MICROSECONDS : LINE_MICROSECONDS;
    if (console->quiet || (!progress->redrawn && now - progress->shown < pause))
        return false;
    progress->shown = now;
    return true;
}

/* Prints the line: in the place of the last one, or to stay. */
static void print_line(const struct progress *progress, uint64_t done, uint64_t total,
                       const char *detail, const char *times, bool stays)
{
    g_autofree char *counts =
        total ? g_strdup_printf("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " %s%s", done, total,
                                progress->what, detail ? ", " : "")
              : g_strdup("");
    fprintf(stderr, "%s%s%s%s%s%s", progress->redrawn ? "\r" : "", counts, detail ? detail : "",
            times, progress->redrawn ? "\033[K" : "", stays ? "\n" : "");
    fflush(stderr);
}

void progress_clear(struct progress *progress)
{
    if (progress && progress->redrawn)
        fputs("\r\033[K", stderr);
}

/* Says so if the work goes on for a while after a signal: it may have no result yet. */
static void tell_of_end(struct progress *progress)
{
    gint64 now = g_get_monotonic_time();
    if (progress->told || !progress_signal(progress))
        return;
    if (!progress->ending)
        progress->ending = now;
    if (now - progress->ending < END_MICROSECONDS)
        return;
    progress->told = true;
    progress_clear(progress);
    console_note(progress->console,
                 "it ends as soon as there is a result; a second signal ends it at once");
}

bool progress_show(struct progress *progress, uint64_t done, uint64_t total, const char *detail,
                   double seconds_left)
{
    if (g_atomic_int_compare_and_exchange(&progress->asked, 1, 0)) {
        g_autofree char *gone = format_time(
            (double)(g_get_monotonic_time() - progress->begun) * 1e-6, "since the beginning");
        g_autofree char *left = format_time(seconds_left, "left");
        g_autofree char *both = g_strconcat(gone, left, NULL);
        print_line(progress, done, total, detail, both, true);
    } else if (is_line_due(progress)) {
        g_autofree char *left = format_time(seconds_left, "left");
        print_line(progress, done, total, detail, left, !progress->redrawn);
    }
    tell_of_end(progress);
    return !progress_signal(progress);
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
    progress_clear(progress);
    if (!progress)
        return;
    stop_listening(progress);
    g_free(progress);
}
