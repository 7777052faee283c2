#include "engine/ranks_watch.h"

#include <fcntl.h>
#include <glib.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
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

/* What the watching process knows. Its parent may have had threads, so it allocates nothing. */
struct watcher {
    int socket;
    pid_t parent;
    uint32_t rank, silence_ms;
    const char *host;
    const char *number;   /* the variable in which a launcher says a process's number, or NULL */
    const char *siblings; /* the file that lists the processes that the launcher started here */
    uint32_t here, all;   /* how many it started on this host, and in all; 0 if it does not say */
};

/* Kills the process, whether the message can be written or not. */
G_GNUC_PRINTF(2, 3)
static void end_with_message(pid_t process, const char *format, ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    ssize_t said = write(STDERR_FILENO, message, MIN((size_t)length, sizeof message - 1));
    (void)said;
    kill(process, SIGKILL);
}

static void end_rank(const struct watcher *watcher, uint32_t rank, pid_t process, uint32_t ms)
{
    end_with_message(process,
                     "pstar-run: rank %u on %s has not answered for %u seconds: it hangs\n", rank,
                     watcher->host, ms / 1000);
}

/* ---- processes that the launcher started on this host ---- */

/* Reads a file, or as much of it as there is room for. Returns the length of the text, to which an
 * end is added; 0 if the file cannot be read. */
static size_t read_text(const char *path, char *text, size_t room)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t more = 0;
    while (file >= 0 && (more = read(file, text + length, room - 1 - length)) > 0)
        length += (size_t)more;
    if (file >= 0)
        close(file);
    text[length] = '\0';
    return length;
}

/* Returns the letter that ps shows for the process, or Z if it has ended. */
static char state_of(pid_t process)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    const char *name_end = read_text(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    return name_end && name_end[1] ? name_end[2] : 'Z';
}

/* Returns whether the launcher has given the process a number, which is its rank. */
static bool find_rank(const struct watcher *watcher, pid_t process, uint32_t *rank)
{
    char path[64], text[1 << 17];
    size_t name = strlen(watcher->number);
    snprintf(path, sizeof path, "/proc/%d/environ", (int)process);
    size_t length = read_text(path, text, sizeof text);
    for (const char *at = text; at < text + length; at += strlen(at) + 1)
        if (strncmp(at, watcher->number, name) == 0 && at[name] == '=') {
            *rank = (uint32_t)strtoul(at + name + 1, NULL, 10);
            return true;
        }
    return false;
}

/* The processes that the launcher started here. */
struct siblings {
    char list[1 << 14];
    char *rest; /* of the list */
};

static void list_siblings(const struct watcher *watcher, struct siblings *siblings)
{
    read_text(watcher->siblings, siblings->list, sizeof siblings->list);
    siblings->rest = siblings->list;
}

/* Returns the next process that is alive and has a rank, with its state; 0 if there is none. */
static pid_t next_sibling(const struct watcher *watcher, struct siblings *siblings, uint32_t *rank,
                          char *state)
{
    long next;
    while ((next = strtol(siblings->rest, &siblings->rest, 10)) > 0) {
        *state = state_of((pid_t)next);
        if (*state != 'Z' && find_rank(watcher, (pid_t)next, rank))
            return (pid_t)next;
    }
    return 0;
}

/* ---- ranks of this host that stop before they are watched ---- */

/* The first of them, and for how long each look has found it stopped. */
struct stopped {
    pid_t process;
    uint32_t rank;
    int64_t since_ms;
};

/* Returns the first rank of this host that is stopped, if the watched one is the first that is not:
 * it alone speaks. Otherwise the process is 0. */
static struct stopped find_stopped(const struct watcher *watcher)
{
    struct siblings siblings;
    struct stopped stopped = {0};
    bool speaks = false;
    uint32_t rank;
    char state;
    pid_t process;
    list_siblings(watcher, &siblings);
    while ((process = next_sibling(watcher, &siblings, &rank, &state)) != 0) {
        if (state == 'T' && !stopped.process)
            stopped = (struct stopped){.process = process, .rank = rank};
        if (state == 'T' || speaks)
            continue;
        if (process != watcher->parent)
            return (struct stopped){0};
        speaks = true;
    }
    return stopped;
}

/* Called once in `passed_ms`. A rank that is watched has ended before. */
static void look_at_siblings(const struct watcher *watcher, struct stopped *known,
                             int64_t passed_ms)
{
    enum { STOPPED_MS = 7500 };
    struct stopped found = find_stopped(watcher);
    if (found.process == known->process)
        found.since_ms = known->since_ms + passed_ms;
    *known = found;
    if (found.process && found.since_ms >= STOPPED_MS)
        end_rank(watcher, found.rank, found.process, STOPPED_MS);
}

/* ---- processes of this host that end before they join ---- */

/* Returns how many of the processes that the launcher started here are alive; `here` if that cannot
 * be seen, or if another one speaks. Sets *missing to the first number that none of them has. */
static uint32_t count_alive(const struct watcher *watcher, uint32_t *missing)
{
    struct siblings siblings;
    uint32_t count, before, rank;
    bool speaks = false;
    char state;
    pid_t process;
    *missing = 0;
    do { /* ranks may be in any order, and nothing can be allocated to sort them */
        before = *missing;
        count = 0;
        list_siblings(watcher, &siblings);
        while ((process = next_sibling(watcher, &siblings, &rank, &state)) != 0) {
            speaks |= count == 0 && process == watcher->parent;
            *missing += rank == *missing;
            count++;
        }
    } while (*missing != before);
    return speaks ? count : watcher->here;
}

/* Called once in `passed_ms`. A process that ends with an error has made the launcher end all
 * before. */
static void look_for_ended(const struct watcher *watcher, int64_t *few_ms, int64_t passed_ms)
{
    enum { ENDED_MS = 5000 };
    uint32_t missing, alive = count_alive(watcher, &missing);
    *few_ms = alive < watcher->here ? *few_ms + passed_ms : 0;
    if (*few_ms < ENDED_MS)
        return;
    if (watcher->here == watcher->all)
        end_with_message(watcher->parent,
                         "pstar-run: rank %u on %s has ended before it joined the others\n",
                         missing, watcher->host);
    else
        end_with_message(watcher->parent,
                         "pstar-run: %u of the %u ranks on %s have ended before they joined the "
                         "others\n",
                         watcher->here - alive, watcher->here, watcher->host);
}

/* Sets how many processes the launcher says that it started, unless there is a shell or the like
 * between it and this process: then the others are not seen. */
static void count_started(struct watcher *watcher, pid_t launcher)
{
    static const char *const variables[][3] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "MPI_LOCALNRANKS", "PMI_SIZE"}};
    uint32_t rank;
    for (size_t i = 0; watcher->number && i < G_N_ELEMENTS(variables); i++) {
        const char *here = g_getenv(variables[i][1]), *all = g_getenv(variables[i][2]);
        if (strcmp(watcher->number, variables[i][0]) != 0 || !here || !all ||
            find_rank(watcher, launcher, &rank))
            continue;
        watcher->here = (uint32_t)strtoul(here, NULL, 10);
        watcher->all = (uint32_t)strtoul(all, NULL, 10);
    }
}

/* ---- the watching process ---- */

/* It does not hear signals for the rank's group. */
static void leave_group(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "pstar-watch");
}

/* Where processors are busy, it may wake late, and all of that time counts as silence; but longer
 * times between two looks are a pause of its own or of the machine. */
static G_NORETURN void watch_parent(const struct watcher *watcher)
{
    enum { TICK_MS = 100, LONGEST_TICK_MS = 200, LOOK_MS = 500 };
    struct pollfd sign = {.fd = watcher->socket, .events = POLLIN};
    struct stopped stopped = {0};
    int64_t few_ms = 0;
    char signs[64];
    leave_group();
    int tick_ms = -1; /* waits for the first sign */
    int64_t silent_ms = 0, unseen_ms = LOOK_MS, looked_ms = now_ms();
    while (silent_ms < watcher->silence_ms) {
        int ready = poll(&sign, 1, tick_ms);
        int64_t before_ms = looked_ms;
        looked_ms = now_ms();
        silent_ms += MIN(looked_ms - before_ms, LONGEST_TICK_MS);
        unseen_ms += MIN(looked_ms - before_ms, LONGEST_TICK_MS);
        if (ready != 0) {
            if (recv(watcher->socket, signs, sizeof signs, 0) <= 0)
                _exit(0); /* the rank has ended, or the watch */
            tick_ms = TICK_MS;
            silent_ms = 0;
        }
        if (watcher->number && unseen_ms >= LOOK_MS) {
            look_at_siblings(watcher, &stopped, unseen_ms);
            if (watcher->here)
                look_for_ended(watcher, &few_ms, unseen_ms);
            unseen_ms = 0;
        }
    }
    end_rank(watcher, watcher->rank, watcher->parent, watcher->silence_ms);
    _exit(0);
}

struct ranks_watch *ranks_watch_start(uint32_t rank, const char *host, const char *number,
                                      uint32_t silence_ms)
{
    int ends[ENDS];
    pid_t parent = getpid(), launcher = getppid();
    g_autofree char *siblings = g_strdup_printf("/proc/%d/task/%d/children", (int)launcher,
                                                (int)launcher);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return NULL;
    pid_t process = fork();
    if (process == 0) {
        struct watcher watcher = {.socket = ends[WATCH_END],
                                  .parent = parent,
                                  .rank = rank,
                                  .silence_ms = silence_ms,
                                  .host = host,
                                  .number = number,
                                  .siblings = siblings};
        close(ends[RANKS_END]);
        count_started(&watcher, launcher);
        watch_parent(&watcher);
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
