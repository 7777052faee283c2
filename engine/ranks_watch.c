#include "engine/ranks_watch.h"

#include <glib.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_END, WATCH_END, ENDS };

struct ranks_watch {
    int socket; /* closes with the rank, however it ends */
    pid_t process;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The watching process. Its parent may have had threads, so it allocates nothing. It does not hear
 * signals for the rank's group. Where processors are busy, it may wake late, and all of that time
 * counts as silence; but longer times between two looks are a pause of its own or of the machine.
 */
static G_NORETURN void watch_parent(int socket, pid_t parent, uint32_t silence_ms,
                                    const char *message)
{
    enum { TICK_MS = 100, LONGEST_TICK_MS = 200 };
    struct pollfd sign = {.fd = socket, .events = POLLIN};
    char signs[64];
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "pstar-watch");
    int tick_ms = -1; /* waits for the first sign */
    int64_t silent_ms = 0, looked_ms = now_ms();
    while (silent_ms < silence_ms) {
        int ready = poll(&sign, 1, tick_ms);
        int64_t before_ms = looked_ms;
        looked_ms = now_ms();
        silent_ms += MIN(looked_ms - before_ms, LONGEST_TICK_MS);
        if (ready == 0)
            continue;
        if (recv(socket, signs, sizeof signs, 0) <= 0)
            _exit(0); /* the rank has ended, or the watch */
        tick_ms = TICK_MS;
        silent_ms = 0;
    }
    ssize_t said = write(STDERR_FILENO, message, strlen(message));
    (void)said; /* the rank hangs, whether its message can be written or not */
    kill(parent, SIGKILL);
    _exit(0);
}

struct ranks_watch *ranks_watch_start(uint32_t rank, const char *host, uint32_t silence_ms)
{
    int ends[ENDS];
    pid_t parent = getpid();
    g_autofree char *message =
        g_strdup_printf("pstar-run: rank %u on %s has not answered for %u seconds: it hangs\n",
                        rank, host, silence_ms / 1000);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return NULL;
    pid_t process = fork();
    if (process == 0) {
        close(ends[RANKS_END]);
        watch_parent(ends[WATCH_END], parent, silence_ms, message);
    }
    close(ends[WATCH_END]);
    if (process < 0) {
        close(ends[RANKS_END]);
        return NULL;
    }
    struct ranks_watch *watch = g_new(struct ranks_watch, 1);
    *watch = (struct ranks_watch){ends[RANKS_END], process};
    return watch;
}

void ranks_watch_beat(const struct ranks_watch *watch)
{
    if (watch)
        send(watch->socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void ranks_watch_stop(struct ranks_watch *watch)
{
    if (!watch)
        return;
    kill(watch->process, SIGKILL); /* ends it even if it was stopped */
    waitpid(watch->process, NULL, 0);
    close(watch->socket);
    g_free(watch);
}
