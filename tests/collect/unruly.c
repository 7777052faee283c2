/* unruly HOW: annotates steps with NVTX while it does what must go as it would without a collector.
 *
 * HOW: closes (all descriptors that it did not open, then opens files "own-N" and writes), handler
 * (the handler of a signal ends it with status 3, wherever that comes), cancels (threads, while
 * they annotate), errno (must be what it was after each annotation but the first), broken (standard
 * error is a pipe that nobody reads). */
#include <errno.h>
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { STEPS = 40, OWN_FILES = 8 };

static void step(int number)
{
    char name[32];
    snprintf(name, sizeof name, "step %d", number);
    nvtxRangePushA(name);
    nvtxRangePushA("within");
    nvtxRangePop();
    nvtxRangePop();
}

static void close_all(void)
{
    for (int descriptor = 3; descriptor < 256; descriptor++)
        close(descriptor);
    for (int i = 0; i < OWN_FILES; i++) {
        char name[16];
        snprintf(name, sizeof name, "own-%d", i);
        int own = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (own < 0 || write(own, "mine", 4) != 4)
            abort();
    }
}

static void on_alarm(int signal)
{
    (void)signal;
    exit(3); /* NOLINT(bugprone-signal-handler): as many programs do */
}

static void end_by_signal(void)
{
    const struct itimerval soon = {.it_value = {.tv_usec = 5000}};
    step(0); /* loads the collector */
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &soon, NULL);
    for (int number = 1;; number++)
        step(number);
}

static void *annotate_for_ever(void *unused)
{
    (void)unused;
    for (;;) {
        nvtxRangePushA("for ever");
        nvtxRangePop();
        pthread_testcancel();
    }
    return NULL;
}

static void cancel_thread(int number)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, annotate_for_ever, NULL) != 0)
        abort();
    step(number);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
}

static void break_errors(void)
{
    int ends[2];
    if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
        abort();
    close(ends[0]);
}

static void keep_error(int number)
{
    errno = 77;
    step(number);
    if (number > 0 && errno != 77) /* the first annotation loads NVTX's library */
        abort();
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "handler") == 0)
        end_by_signal();
    if (strcmp(how, "broken") == 0)
        break_errors();
    for (int number = 0; number < STEPS; number++) {
        if (strcmp(how, "closes") == 0 && number == STEPS / 2)
            close_all();
        if (strcmp(how, "cancels") == 0)
            cancel_thread(number);
        else if (strcmp(how, "errno") == 0)
            keep_error(number);
        else
            step(number);
    }
    printf("done\n");
    return 0;
}
